"""The watch cache against the store it mirrors: any order of writes, events, relists and late answers."""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import objects
from holdfast.api.meta import Object, ObjectMeta
from holdfast.api.pods import Pod
from holdfast.ports import Change, Listing
from holdfast.runtime.cache import Cache, key_of
from holdfast.runtime.indexes import by_node, by_owner
from holdfast.runtime.results import Key
from holdfast.sim.time import VirtualClock, VirtualLoop
from scripted import START

T = TypeVar("T")
NAMES = st.sampled_from("abc")
NODES = st.sampled_from(["", "n1", "n2"])
PAGE = 2


class CacheTest(RuleBasedStateMachine):
    """`store` is the state of the server and `log` its history; `delivered` counts the events that the watch has sent.
    Responses to our own writes arrive at any time: `answers` holds those that have not arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.version = 10
        self.store: dict[Key, Pod] = {}
        self.log: list[Change[Pod]] = []
        self.delivered = 0
        self.answers: list[Pod] = []
        self.written: dict[Key, int] = {}  # the newest version in a response that arrived
        self.ended: set[str] = set()  # uids whose deletion was accepted
        self.shown: dict[Key, int] = {}
        self.handled: dict[Key, Pod] = {}  # the objects according to the change handler
        self.cache = self.run(self.make())
        self.nodes = self.cache.index(by_node)
        self.owners = self.cache.index(by_owner)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def make(self) -> Cache[Pod]:
        cache = Cache(Pod, clock=VirtualClock(START))
        cache.subscribe(self.on_change)
        return cache

    def on_change(self, before: Pod | None, after: Pod | None) -> None:
        changed = after or before
        assert changed is not None
        assert self.handled.get(key_of(changed)) is before
        if after is None:
            del self.handled[key_of(changed)]
        else:
            self.handled[key_of(changed)] = after

    def teardown(self) -> None:
        self.loop.close()

    def put(self, name: str, node: str) -> Pod:
        """Writes to the store."""
        self.version += 1
        old = self.store.get(("default", name))
        meta = {
            "uid": old.metadata.uid if old else f"uid-{self.version}",
            "resourceVersion": str(self.version),
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": f"owner-{node}"}],
        }
        pod = objects.pod(name, meta, nodeName=node)
        self.store[key_of(pod)] = pod
        self.log.append(Change("MODIFIED" if old else "ADDED", pod))
        return pod

    def drop(self, name: str) -> Pod:
        self.version += 1
        old = self.store.pop(("default", name))
        meta = {"uid": old.metadata.uid, "resourceVersion": str(self.version)}
        self.log.append(Change("DELETED", objects.pod(name, meta, nodeName=old.spec.node_name)))
        return old

    @rule(name=NAMES, node=NODES)
    def another_client_writes(self, name: str, node: str) -> None:
        self.put(name, node)

    @rule(name=NAMES)
    def another_client_deletes(self, name: str) -> None:
        if ("default", name) in self.store:
            self.drop(name)

    @rule(name=NAMES, node=NODES)
    def we_write(self, name: str, node: str) -> None:
        self.answers.append(self.put(name, node))

    @rule(name=NAMES)
    def we_delete(self, name: str) -> None:
        if ("default", name) not in self.store:
            return
        ended = self.drop(name)

        async def call() -> None:
            self.cache.ends(key_of(ended), ended.metadata.uid)

        self.run(call())
        self.ended.add(ended.metadata.uid)

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def a_response_arrives(self, data: st.DataObject) -> None:
        pod = self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1)))

        async def call() -> None:
            self.arrives(pod)

        self.run(call())

    def arrives(self, pod: Pod) -> None:
        self.cache.written(pod)
        key = key_of(pod)
        self.written[key] = max(int(pod.metadata.resource_version), self.written.get(key, 0))

    @precondition(lambda self: self.delivered < len(self.log))
    @rule()
    def the_watch_sends_an_event(self) -> None:
        async def call() -> None:
            self.cache.apply(self.log[self.delivered])

        self.run(call())
        self.delivered += 1

    @precondition(lambda self: self.cache.synced and self.delivered == len(self.log))
    @rule()
    def the_watch_sends_a_bookmark(self) -> None:
        bookmark = Object(metadata=ObjectMeta(resource_version=str(self.version)))

        async def call() -> None:
            self.cache.apply(Change("BOOKMARK", bookmark))  # type: ignore[arg-type]

        self.run(call())

    @rule(data=st.data())
    def the_watch_expired(self, data: st.DataObject) -> None:
        """Lists the store at one version, in pages; between pages other clients write and responses arrive."""
        moment, upto = self.version, len(self.log)
        pods = list(self.store.values())

        async def pages() -> AsyncIterator[Listing[Pod]]:
            for start in range(0, max(1, len(pods)), PAGE):
                yield Listing(tuple(pods[start : start + PAGE]), str(moment))
                if data.draw(st.booleans()):
                    pod = self.put(data.draw(NAMES), data.draw(NODES))
                    self.arrives(pod)
                if data.draw(st.booleans()) and self.answers:
                    self.arrives(self.answers.pop(0))

        assert self.run(self.cache.replace(pages())) == str(moment)
        self.delivered = upto

    @invariant()
    def no_object_is_older_than_our_last_write(self) -> None:
        for key, version in self.written.items():
            pod = self.cache.get(key)
            if pod is not None:
                assert int(pod.metadata.resource_version) >= version
            else:
                assert any(
                    change.kind == "DELETED"
                    and key_of(change.object) == key
                    and int(change.object.metadata.resource_version) > version
                    for change in self.log
                )
        for pod in self.cache:
            assert pod.metadata.uid not in self.ended or pod.metadata.deletion_timestamp is not None

    @invariant()
    def resource_versions_never_decrease(self) -> None:
        for pod in self.cache:
            version = int(pod.metadata.resource_version)
            assert version >= self.shown.get(key_of(pod), 0)
            self.shown[key_of(pod)] = version

    @invariant()
    def indexes_and_handlers_agree_with_the_objects(self) -> None:
        assert self.handled == {key_of(pod): pod for pod in self.cache}
        for node in ("n1", "n2"):
            there = {key_of(pod) for pod in self.cache if pod.spec.node_name == node}
            assert {key_of(pod) for pod in self.nodes.get(node)} == there
            assert {key_of(pod) for pod in self.owners.get(f"owner-{node}")} == there
        assert not list(self.nodes.get(""))

    @precondition(lambda self: self.cache.synced)
    @rule()
    def the_cache_equals_the_store_after_all_events(self) -> None:
        while self.delivered < len(self.log):
            self.the_watch_sends_an_event()
        while self.answers:
            pod = self.answers.pop()
            self.cache.written(pod)
        assert {key_of(pod): pod for pod in self.cache} == self.store


TestCache = CacheTest.TestCase
