"""The runtime package, tested with every API server: watch caches, the Lease, events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from structlog.testing import capture_logs

import objects
from holdfast import errors
from holdfast.api.cluster import Event, Lease
from holdfast.api.meta import Object
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.kube.client import Client, ClientSettings
from holdfast.runtime.cache import Caches
from holdfast.runtime.lease import Election, LeaseSettings
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.recorder import KubeRecorder
from holdfast.runtime.reflector import Reflector
from holdfast.runtime.writes import Writer
from kube_servers import KubeServer, Session


def recorder(session: Session) -> KubeRecorder:
    return KubeRecorder(
        kube=session.kube, metrics=Metrics((), strict=True), clock=session.clock, ids=session.ids
    )


@asynccontextmanager
async def running_caches(session: Session) -> AsyncIterator[Caches]:
    """Caches that reflectors keep current inside the block."""
    caches = Caches((Node, Pod), clock=session.clock)
    tasks = [
        asyncio.create_task(
            Reflector(
                cache, kube=session.kube, clock=session.clock, ids=session.ids, recorder=recorder(session)
            ).run()
        )
        for cache in caches
    ]
    try:
        for cache in caches:
            await cache.until_synced()
        yield caches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Unserved(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "no-such-group.example.com/v1"
    kind: ClassVar[str] = "Unserved"
    plural: ClassVar[str] = "unserveds"


def test_missing_crd_is_logged_once_with_its_kind(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        (cache,) = Caches((Unserved,), clock=session.clock)
        reflector = Reflector(
            cache, kube=session.kube, clock=session.clock, ids=session.ids, recorder=recorder(session)
        )
        with capture_logs() as logs:
            task = asyncio.create_task(reflector.run())
            await session.clock.sleep(15)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        (line,) = [one for one in logs if one["event"] == "watch failed"]
        assert (line["log_level"], line["kind"]) == ("warning", "unserveds")
        assert line["error"].endswith("404 page not found (is the CRD installed?)")

    server.run(program)


def test_a_cache_follows_the_watch(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        early = await session.kube.create(objects.node(session.name("early")))
        async with running_caches(session) as caches:
            nodes = caches.of(Node)
            assert nodes.get(("", session.name("early"))) == early
            late = await session.kube.create(objects.node(session.name("late")))
            late = await session.kube.patch(late, {"metadata": {"labels": {"a": "b"}}})
            await session.kube.delete(early)
            await session.clock.sleep(1)
            assert nodes.get(("", session.name("late"))) == late
            assert nodes.get(("", session.name("early"))) is None

    server.run(program)


@pytest.mark.fact("ST-4")
def test_a_write_is_in_the_cache_when_the_call_returns(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        async with running_caches(session) as caches:
            kube = Writer(session.kube, caches)
            nodes, pods = caches.of(Node), caches.of(Pod)
            node = await kube.create(objects.node(session.name("node"), {"finalizers": ["example.com/hold"]}))
            assert nodes.get(("", session.name("node"))) == node
            for number in range(20):
                node = await kube.patch(node, {"metadata": {"labels": {"n": str(number)}}})
                cached = nodes.get(("", session.name("node")))
                assert cached is not None
                assert cached.metadata.labels["n"] == str(number)
            await kube.delete(node)
            cached = nodes.get(("", session.name("node")))
            assert cached is not None
            assert cached.metadata.deletion_timestamp is not None
            pod = await session.pod(session.name("pod"))
            await session.clock.sleep(1)
            await kube.evict("default", session.name("pod"), pod.metadata.uid)
            terminating = pods.get(("default", session.name("pod")))
            assert terminating is None or terminating.metadata.deletion_timestamp is not None
            held = await kube.get(Node, session.name("node"))
            await kube.patch(held, {"metadata": {"finalizers": None}})
            await session.clock.sleep(1)
            assert nodes.get(("", session.name("node"))) is None

    server.run(program)


def test_a_replica_that_does_not_lead_writes_nothing(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        client = Client(
            transport=session.transport,
            clock=session.clock,
            ids=session.ids,
            settings=ClientSettings(),
            may_write=lambda: False,
        )
        kube = Writer(client, Caches((), clock=session.clock))
        with pytest.raises(errors.NotReady):
            await kube.create(objects.node(session.name("node")))
        with pytest.raises(errors.NotFound):
            await kube.get(Node, session.name("node"))

    server.run(program)


def test_lease_has_one_holder_until_it_is_released(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        settings = LeaseSettings(
            "default", session.name("lease"), duration_s=5, renew_within_s=3, retry_s=0.2
        )
        first, second = (
            Election(
                kube=session.kube, clock=session.clock, ids=session.ids, settings=settings, identity=identity
            )
            for identity in ("first", "second")
        )
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await session.clock.sleep(1)
        assert first.leads()
        assert not waiting.done()
        held = await session.kube.get(Lease, session.name("lease"), "default")
        assert held.spec.holder_identity == "first"
        assert held.spec.renew_time is not None
        await first.release()
        await waiting
        assert second.leads()
        assert not first.leads()
        held = await session.kube.get(Lease, session.name("lease"), "default")
        assert held.spec.holder_identity == "second"
        assert held.spec.lease_transitions == 2

    server.run(program)


def test_equal_events_are_sent_once(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        node = await session.kube.create(objects.node(session.name("node")))
        live_recorder = recorder(session)
        sending = asyncio.create_task(live_recorder.run())
        for _ in range(3):
            live_recorder.event(node, "Launched", "an instance was launched")
        live_recorder.event(node, "Failed", "it did not boot", warning=True)
        await session.clock.sleep(1)
        sending.cancel()
        events = [
            (event.type, event.reason, event.message, event.metadata.namespace)
            for event in (await session.kube.list(Event)).items
            if event.involved_object.uid == node.metadata.uid
        ]
        assert sorted(events) == [
            ("Normal", "Launched", "an instance was launched", "default"),
            ("Warning", "Failed", "it did not boot", "default"),
        ]

    server.run(program)
