"""A manager on the embedded API server under virtual time: synced caches, one leader, an orderly stop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import objects
from holdfast import errors
from holdfast.api.cluster import Lease
from holdfast.api.nodes import Node
from holdfast.kube.client import Client, ClientSettings
from holdfast.ports import Kube
from holdfast.runtime.cache import Cache, Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.lease import Election, LeaseSettings
from holdfast.runtime.manager import Manager
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.recorder import KubeRecorder
from holdfast.runtime.results import Done, Key
from holdfast.runtime.supervision import Supervisor, Unexpected
from holdfast.runtime.writes import Writer
from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.faults import Cut, Delay, Faults, Half, Lose, Refuse
from holdfast.sim.api.serving.front import Request
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from scripted import START


@dataclass
class Labeller:
    """Labels each node once."""

    kube: Kube
    nodes: Cache[Node]
    identity: str
    name: str = "node.label"

    async def reconcile(self, key: Key) -> Done:
        node = self.nodes.get(key)
        if node is None or "by" in node.metadata.labels:
            return Done()
        await self.kube.patch(node, {"metadata": {"labels": {"by": self.identity}}})
        return Done(did="labelled")


class Replica:
    def __init__(self, server: InProcess, identity: str, *, strict: bool = True) -> None:
        clock, ids = VirtualClock(START), SeededIds(identity)
        settings = ClientSettings(page_size=4, per_second=1000, burst=1000)
        kube = Client(transport=server, clock=clock, ids=ids, settings=settings)
        self.caches = Caches((Node,), clock=clock)
        self.metrics = Metrics((), strict=True)
        recorder = KubeRecorder(kube=kube, metrics=self.metrics, clock=clock, ids=ids)
        self.election = Election(
            kube=kube, clock=clock, ids=ids, settings=LeaseSettings("kube-system"), identity=identity
        )
        fenced = Client(
            transport=server, clock=clock, ids=ids, settings=settings, may_write=self.election.leads
        )
        writer = Writer(fenced, self.caches)
        nodes = self.caches.of(Node)
        controller = Controller(
            Labeller(writer, nodes, identity), clock=clock, ids=ids, recorder=recorder, strict=True
        )
        controller.watch(nodes, lambda node: [key_of(node)])
        self.stop = asyncio.Event()
        self.synced: list[int] = []
        self.manager = Manager(
            kube=kube,
            caches=self.caches,
            controllers=[controller],
            recorder=recorder,
            election=self.election,
            clock=clock,
            ids=ids,
            supervisor=Supervisor(
                Unexpected(clock=clock, recorder=recorder), clock=clock, ids=ids, strict=strict
            ),
        )

    async def run(self) -> None:
        await self.manager.run(self.stop, after_sync=lambda: self.synced.append(len(self.caches.of(Node))))


class Cluster:
    def __init__(self) -> None:
        clock = VirtualClock(START)
        self.faults = Faults(ApiServer(clock=clock, ids=SeededIds("server")), clock)
        self.transport = InProcess(self.faults)
        settings = ClientSettings(per_second=10_000, burst=10_000)
        self.kube = Client(transport=self.transport, clock=clock, ids=SeededIds("test"), settings=settings)

    async def labels(self) -> dict[str, str]:
        nodes = (await self.kube.list(Node)).items
        return {node.metadata.name: node.metadata.labels.get("by", "") for node in nodes}


def is_watch(request: Request) -> bool:
    return request.query.get("watch") == "true"


def is_list(request: Request) -> bool:
    return request.method == "GET" and request.path == "/api/v1/nodes" and not is_watch(request)


@pytest.mark.fact("ST-2")
def test_controllers_start_after_all_caches_are_synced() -> None:
    async def program() -> None:
        cluster = Cluster()
        for number in range(9):
            await cluster.kube.create(objects.node(f"n{number}"))
        cluster.faults.add(Refuse("InternalError"), is_list, times=20)
        replica = Replica(cluster.transport, "one")
        running = asyncio.create_task(replica.run())
        await asyncio.sleep(2)
        assert replica.manager.unready() == "not read yet: nodes"
        await asyncio.sleep(120)
        assert replica.manager.unready() == ""
        assert replica.synced == [9]
        assert set((await cluster.labels()).values()) == {"one"}
        assert replica.metrics.value("leader_election_master_status", {"name": "holdfast"}) == 1
        replica.stop.set()
        await running

    time.run(program())


def test_a_stop_before_the_sync_leaves_no_task_running() -> None:
    async def program() -> None:
        cluster = Cluster()
        cluster.faults.add(Refuse("InternalError"), is_list, times=20)
        running = asyncio.create_task(Replica(cluster.transport, "one").run())
        await asyncio.sleep(2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    time.run(program())


@pytest.mark.fact("aws-9.4.2")
def test_stop_releases_the_lease_for_the_next_replica() -> None:
    async def program() -> None:
        cluster = Cluster()
        one, two = Replica(cluster.transport, "one"), Replica(cluster.transport, "two")
        first = asyncio.create_task(one.run())
        await asyncio.sleep(1)
        second = asyncio.create_task(two.run())
        await cluster.kube.create(objects.node("early"))
        await asyncio.sleep(30)
        assert two.manager.unready() == ""  # ready, though it does not lead
        one.stop.set()
        await first
        await cluster.kube.create(objects.node("late"))
        await asyncio.sleep(5)
        assert await cluster.labels() == {"early": "one", "late": "two"}
        two.stop.set()
        await second
        lease = await cluster.kube.get(Lease, "holdfast-leader-election", "kube-system")
        assert not lease.spec.holder_identity

    time.run(program())


def test_a_stop_that_cancels_a_write_does_not_release_the_lease() -> None:
    """The write may still arrive, so no other replica may lead at once."""

    async def program() -> None:
        cluster = Cluster()
        one = Replica(cluster.transport, "one")
        first = asyncio.create_task(one.run())
        await asyncio.sleep(5)
        cluster.faults.add(Delay(600), lambda request: request.path.startswith("/api/v1/nodes/"))
        await cluster.kube.create(objects.node("slow"))
        await asyncio.sleep(1)
        one.stop.set()
        await first
        lease = await cluster.kube.get(Lease, "holdfast-leader-election", "kube-system")
        assert lease.spec.holder_identity == "one"

    time.run(program())


def test_a_disconnected_replica_ends_and_writes_nothing() -> None:
    async def program() -> None:
        cluster = Cluster()
        one, two = Replica(cluster.transport, "one"), Replica(cluster.transport, "two")
        first = asyncio.create_task(one.run())
        await asyncio.sleep(1)
        second = asyncio.create_task(two.run())
        await asyncio.sleep(1)
        cluster.faults.add(Lose(), lambda request: b'"one"' in request.body, times=10_000)
        await asyncio.sleep(60)
        with pytest.raises(errors.Unreachable, match="lost the Lease"):
            await first
        assert two.election.leads()
        await cluster.kube.create(objects.node("late"))
        await asyncio.sleep(5)
        assert await cluster.labels() == {"late": "two"}
        two.stop.set()
        await second

    time.run(program())


def test_every_node_is_reconciled_although_a_handler_fails() -> None:
    async def program() -> None:
        cluster = Cluster()
        replica = Replica(cluster.transport, "one", strict=False)

        def broken(before: Node | None, after: Node | None) -> None:
            assert before is not None or after is None or after.metadata.name != "bad", "a bug"

        replica.caches.of(Node)._handlers.insert(0, broken)
        running = asyncio.create_task(replica.run())
        await asyncio.sleep(5)
        await cluster.kube.create(objects.node("bad"))
        await cluster.kube.create(objects.node("good"))
        await asyncio.sleep(10)
        assert await cluster.labels() == {"bad": "one", "good": "one"}
        replica.stop.set()
        await running

    time.run(program())


def test_in_strict_mode_a_failing_handler_ends_the_program_and_releases_the_lease() -> None:
    async def program() -> None:
        cluster = Cluster()
        replica = Replica(cluster.transport, "one")

        def broken(before: Node | None, after: Node | None) -> None:
            assert before is not None or after is None or after.metadata.name != "bad", "a bug"

        replica.caches.of(Node).subscribe(broken)
        running = asyncio.create_task(replica.run())
        await asyncio.sleep(5)
        await cluster.kube.create(objects.node("bad"))
        await asyncio.sleep(5)
        with pytest.raises(AssertionError, match="a bug"):
            await running
        assert not replica.election.leads()

    time.run(program())


@pytest.mark.parametrize(
    "arm",
    [
        lambda faults: faults.add(Cut(1), is_watch, times=50),
        lambda faults: faults.add(Half(300), is_watch, times=50),
        lambda faults: faults.add(Half(100), is_list, times=3),
        lambda faults: faults.add(Refuse("Expired"), is_watch, times=20),
        lambda faults: faults.add(Lose(), is_watch, times=20),
        lambda faults: faults.add(Refuse("TooManyRequests", retry_after_s=2), is_list, times=2),
    ],
    ids=["cut", "half a watch", "half a list", "expired", "lost", "throttled"],
)
def test_a_cache_equals_the_store_after_faults(arm: Callable[[Faults], None]) -> None:
    async def program() -> None:
        cluster = Cluster()
        replica = Replica(cluster.transport, "one")
        arm(cluster.faults)
        running = asyncio.create_task(replica.run())
        for number in range(60):
            await cluster.kube.create(objects.node(f"n{number}"))
            if number % 3 == 0:
                await cluster.kube.delete(objects.node(f"n{number}"), only_this=False)
            await asyncio.sleep(1)
        cluster.faults.clear()
        await asyncio.sleep(120)
        store = {node.metadata.name: node for node in (await cluster.kube.list(Node)).items}
        assert len(store) == 40
        assert {node.metadata.name: node for node in replica.caches.of(Node)} == store
        assert set((await cluster.labels()).values()) == {"one"}
        replica.stop.set()
        await running

    time.run(program())
