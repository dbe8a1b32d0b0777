"""PodGroups and pods as gangs, and gangs whose members are tied to one zone."""

from typing import Any

import pytest

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.api.scheduling import PodGroup
from holdfast.model.gangs import Gang
from holdfast.state.cluster import gang_topology
from holdfast.state.conversion import gangs
from objects import NOW, NOW_S, pod, read
from planner_builders import gang, node, pods, request, running, shape


def group(name: str = "train", namespace: str = "default", least: int = 2, **spec: Any) -> PodGroup:
    meta = {"namespace": namespace, "creationTimestamp": NOW}
    return read(PodGroup, name, meta, spec={"schedulingPolicy": {"gang": {"minCount": least}}} | spec)


def member(name: str, of: str = "train", status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    meta = {"uid": name, **spec.pop("meta", {})}
    return pod(name, meta, status, schedulingGroup={"podGroupName": of}, **spec)


def converted(*objects: PodGroup | Pod) -> tuple[Gang, ...]:
    groups = [one for one in objects if isinstance(one, PodGroup)]
    members = gangs.by_group(one for one in objects if isinstance(one, Pod))
    return gangs.gangs(groups, members, lambda one: one.metadata.uid)


def test_pods_that_name_a_podgroup_are_its_members() -> None:
    (found,) = converted(group(), member("a"), member("b", nodeName="n1"), pod("other"))
    assert (found.name, found.key, found.source) == ("default/train", "PodGroup/default/train", "PodGroup")
    assert (found.least, found.since_s, found.together) == (2, NOW_S, None)
    assert (set(found.unbound), set(found.bound)) == ({"a"}, {"b"})


def test_podgroups_of_one_name_in_two_namespaces_are_two_gangs() -> None:
    elsewhere = member("b", meta={"namespace": "shop"})
    found = converted(group(), group(namespace="shop", least=3), member("a"), elsewhere)
    assert [(one.name, one.least, set(one.unbound)) for one in found] == [
        ("default/train", 2, {"a"}),
        ("shop/train", 3, {"b"}),
    ]


def test_pods_of_a_podgroup_that_does_not_exist_are_a_gang_of_unknown_size() -> None:
    (found,) = converted(group("other"), member("a"))
    assert (found.name, found.least, set(found.unbound)) == ("default/train", None, {"a"})


def test_pods_of_a_podgroup_with_the_policy_basic_are_no_gang() -> None:
    assert converted(group(schedulingPolicy={"basic": {}}), member("a")) == ()


@pytest.mark.parametrize(
    "over", [{"status": {"phase": "Failed"}}, {"meta": {"deletionTimestamp": NOW}}], ids=["failed", "deleted"]
)
def test_pods_that_end_are_no_members(over: dict[str, Any]) -> None:
    (found,) = converted(group(), member("a"), member("b", **over), member("c", nodeName="n1", **over))
    assert (set(found.unbound), set(found.bound)) == ({"a"}, set())
    assert converted(group(), member("b", **over)) == ()


def test_pods_behind_a_scheduling_gate_are_members() -> None:
    (found,) = converted(group(), member("a"), member("b", schedulingGates=[{"name": "quota"}]))
    assert found.unbound == {"a", "b"}


def test_the_priority_is_that_of_the_podgroup_or_the_highest_of_its_pods() -> None:
    some = (member("a", priority=5), member("b"))
    assert [one.priority for one in converted(group(), *some)] == [5]
    assert [one.priority for one in converted(group(priority=1), *some)] == [1]


# --- Members in one zone ------------------------------------------------------------------------------


def test_members_of_a_gang_with_a_topology_have_an_affinity_to_each_other() -> None:
    (found,) = converted(group(schedulingConstraints={"topology": [{"key": names.ZONE}]}), member("a"))
    assert found.together == names.ZONE
    old, new, web = running(1, shape(), "old"), pods(2, shape(), "new"), pods(1, shape(), "web")
    train = gang("train", (*old, *new), 3, together=names.ZONE)
    nodes = (node("n1", pods=old), node("n2"))
    snapshot = request([], (*new, *web), nodes=nodes, gangs=(train,)).snapshot
    tied = gang_topology.tied(snapshot)
    first, second, other = tied.pending
    assert first.shape is second.shape, "equal shapes stay one object"
    assert first.shape.affinity[0].key == names.ZONE
    selector = first.shape.affinity[0].selector
    assert selector is not None
    assert selector.matches(dict(tied.nodes[0].pods[0].shape.labels))
    assert (other, tied.nodes[1]) == (web[0], nodes[1])


def test_a_snapshot_without_such_gangs_stays_the_same_object() -> None:
    train = pods(2, shape())
    snapshot = request([], train, gangs=(gang("train", train, 2),)).snapshot
    assert gang_topology.tied(snapshot) is snapshot
