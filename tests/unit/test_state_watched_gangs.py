"""Gangs from watch caches, and nominated members of gangs."""

import asyncio
from typing import Any

import labelled_pods
from holdfast.api.pods import Pod
from holdfast.api.scheduling import PodGroup
from holdfast.model.gangs import Gang
from holdfast.model.snapshot import NodeView
from holdfast.ports import Change
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.nominated_pods import NominatedPods
from holdfast.state.cluster.nominations import WINDOW_S, Nominations
from holdfast.state.cluster.watched_gangs import WatchedGangs
from holdfast.state.conversion import times
from holdfast.state.conversion.labelled_gangs import GROWS_S
from manual_ports import ManualClock
from objects import pod, read, store
from planner_builders import gang, node, pods, request, shape


def group(least: int = 2, name: str = "train") -> PodGroup:
    spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
    return read(PodGroup, name, {"namespace": "default"}, spec=spec)


def member(name: str, **spec: Any) -> Pod:
    return pod(name, {"uid": name}, schedulingGroup={"podGroupName": "train"}, **spec)


def watched() -> tuple[Caches, WatchedGangs]:
    clock = ManualClock()
    caches = Caches([Pod, PodGroup], clock=clock)
    return caches, WatchedGangs(caches, clock=clock)


def test_gangs_follow_their_pods_and_podgroups() -> None:
    caches, gangs = watched()
    store(caches, member("a"))
    store(caches, pod("web"))
    assert [(one.least, set(one.unbound)) for one in gangs.all()] == [(None, {"a"})]
    store(caches, group())
    assert [one.least for one in gangs.all()] == [2]
    store(caches, member("b"))
    store(caches, member("a", nodeName="n1"))
    assert [(set(one.bound), set(one.unbound)) for one in gangs.all()] == [({"a"}, {"b"})]
    assert gangs.all() is gangs.all()


def test_deleted_pods_and_podgroups_are_forgotten() -> None:
    caches, gangs = watched()
    store(caches, group())
    store(caches, member("a"))
    assert len(gangs.all()) == 1
    (known,) = caches.of(PodGroup)
    caches.of(PodGroup).apply(Change("DELETED", known))
    assert [one.least for one in gangs.all()] == [None]
    (of_pod,) = caches.of(Pod)
    caches.of(Pod).apply(Change("DELETED", of_pod))
    assert gangs.all() == ()


def test_without_podgroups_in_the_caches_there_are_no_gangs() -> None:
    clock = ManualClock()
    caches = Caches([Pod], clock=clock)
    gangs = WatchedGangs(caches, clock=clock)
    store(caches, member("a"))
    assert gangs.all() == ()


def test_gangs_of_labels_follow_their_pods_without_podgroups() -> None:
    clock = ManualClock()
    caches = Caches([Pod], clock=clock)
    gangs = WatchedGangs(caches, clock=clock)
    first, second = labelled("a"), labelled("b")
    store(caches, first)
    assert [(one.name, one.least) for one in gangs.all()] == [("default/train", 1)]
    store(caches, second)
    store(caches, labelled("a", nodeName="n1"))
    assert [(set(one.bound), set(one.unbound)) for one in gangs.all()] == [({"a"}, {"b"})]
    assert gangs.of(first) == gangs.all()[0]
    assert gangs.of(pod("web")) is None
    for known in tuple(caches.of(Pod)):
        caches.of(Pod).apply(Change("DELETED", known))
    assert (gangs.all(), gangs.of(first)) == ((), None)


def test_a_gang_that_grows_is_settled_by_time() -> None:
    clock = ManualClock()
    caches = Caches([Pod], clock=clock)
    gangs = WatchedGangs(caches, clock=clock)
    store(caches, labelled("a", meta={"creationTimestamp": times.text(clock.now_s())}, jobs="2"))
    assert [one.least for one in gangs.all()] == [2]
    assert gangs.all() is gangs.all()
    clock.advance(GROWS_S)
    assert [one.least for one in gangs.all()] == [1]
    assert gangs.all() is gangs.all()


def test_gangs_of_podgroups_and_labels_are_sorted_by_key() -> None:
    caches, gangs = watched()
    store(caches, group())
    store(caches, member("a"))
    store(caches, labelled("b"))
    assert [one.key for one in gangs.all()] == ["JobSet/default/uid-train", "PodGroup/default/train"]


def labelled(name: str, *, meta: dict[str, Any] | None = None, jobs: str = "1", **spec: Any) -> Pod:
    return pod(name, {"uid": name, "labels": labelled_pods.job_set(jobs=jobs)} | (meta or {}), **spec)


# --- Nominated members --------------------------------------------------------------------------------

TRAIN = pods(2, shape(), "train")


def nominate(gangs: tuple[Gang, ...], *nodes: NodeView) -> tuple[Nominations, NominatedPods, ManualClock]:
    """Each pod is nominated to one of the nodes."""
    clock = ManualClock()
    nominations = Nominations(clock)
    for one, target in zip(TRAIN, nodes, strict=True):
        nominations.nominate([one.uid], target.name, ready=target.initialized)
    nominated = NominatedPods(nominations, clock=clock)
    asyncio.run(nominated.refresh(nodes, TRAIN, gangs))
    clock.advance(3 * WINDOW_S)
    asyncio.run(nominated.refresh(nodes, TRAIN, gangs))
    return nominations, nominated, clock


def test_nominated_members_count_as_bound() -> None:
    nodes = (node("n1", initialized=False), node("n2", initialized=False))
    train = gang("train", TRAIN, 2)
    _, nominated, _ = nominate((train,), *nodes)
    found = nominated.applied(request([], TRAIN, nodes=nodes, gangs=(train,)).snapshot)
    assert found.pending == ()
    assert [(set(one.bound), set(one.unbound)) for one in found.gangs] == [
        ({"train-000000", "train-000001"}, set())
    ]


def test_a_ready_node_stays_nominated_while_another_node_of_the_gang_starts() -> None:
    nodes = (node("n1"), node("n2", initialized=False))
    nominations, _, _ = nominate((gang("train", TRAIN, 2),), *nodes)
    assert nominations.targets() == {"n1", "n2"}
    nominations, _, _ = nominate((), *nodes)
    assert nominations.targets() == {"n2"}
