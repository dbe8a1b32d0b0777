"""Pods of JobSets and LeaderWorkerSets as gangs."""

from typing import Any

import pytest

import labelled_pods
from holdfast.api.pods import Pod
from holdfast.model import gangs
from holdfast.model.gangs import JOB_SET, LEADER_WORKER_SET, Gang
from holdfast.state.conversion import labelled_gangs
from holdfast.state.conversion.labelled_gangs import GROWS_S, LabelledGangs
from objects import AN_HOUR_AGO, NOW, NOW_S, owned, pod

ALL = frozenset(gangs.LABELLED)
CONSUMES = "autoscaling.x-k8s.io/consume-provisioning-request"


def member(
    name: str, status: dict[str, Any] | None = None, *, meta: dict[str, Any] | None = None, **spec: Any
) -> Pod:
    """A pod of a JobSet with two Jobs, of which this one has the name of the pod without its index."""
    labels = labelled_pods.job_set(name.rpartition("-")[0], jobs="2")
    return pod(name, {"uid": name, "labels": labels, "creationTimestamp": NOW} | (meta or {}), status, **spec)


def worker(name: str, *, size: str = "3", meta: dict[str, Any] | None = None, **spec: Any) -> Pod:
    labels, annotations = labelled_pods.group(1, size=size)
    plain = {"uid": name, "labels": labels, "annotations": annotations, "creationTimestamp": NOW}
    return pod(name, plain | (meta or {}), **spec)


def converted(*pods: Pod, now_s: int = NOW_S + 3600, sources: frozenset[str] = ALL) -> tuple[Gang, ...]:
    by_key = LabelledGangs(sources).by_key(pods)
    return labelled_gangs.all_of(by_key, lambda one: one.metadata.uid, now_s=now_s)


@pytest.mark.fact("GR-1")
def test_pods_of_all_jobs_of_a_jobset_are_one_gang() -> None:
    (found,) = converted(member("a-0"), member("a-1"), member("b-0", nodeName="n1"), pod("web"))
    assert (found.key, found.name, found.source) == (
        "JobSet/default/uid-train",
        "default/train",
        "JobSet",
    )
    assert (found.least, set(found.unbound), set(found.bound)) == (3, {"a-0", "a-1"}, {"b-0"})
    assert (found.since_s, found.together, found.grows_until_s) == (NOW_S, None, None)


def test_pods_of_one_group_of_a_leaderworkerset_are_one_gang() -> None:
    labels, annotations = labelled_pods.group(2, size="1")
    other = pod("serve-2", {"uid": "serve-2", "labels": labels, "annotations": annotations})
    first, second = converted(worker("serve-1"), worker("serve-1-1"), worker("serve-1-2"), other)
    assert (first.key, first.name) == ("LeaderWorkerSet/default/key-serve-1", "default/serve-1")
    assert (first.least, len(first.unbound)) == (3, 3)
    assert (second.name, second.least) == ("default/serve-2", 1)


def test_a_jobset_that_is_created_again_with_its_name_is_another_gang() -> None:
    again = labelled_pods.job_set("a", uid="uid-2")
    found = converted(member("a-0"), member("b-0", meta={"labels": again}))
    assert sorted((one.name, one.key) for one in found) == [
        ("default/train", "JobSet/default/uid-2"),
        ("default/train", "JobSet/default/uid-train"),
    ]


def test_equal_labels_in_two_namespaces_are_two_gangs() -> None:
    found = converted(member("a-0"), member("b-0", meta={"namespace": "shop"}))
    assert sorted((one.name, one.least) for one in found) == [("default/train", 1), ("shop/train", 1)]


@pytest.mark.parametrize(
    "other",
    [
        member("b-0", {"phase": "Succeeded"}),
        member("b-0", {"phase": "Failed"}, nodeName="n1"),
        member("b-0", meta={"deletionTimestamp": NOW}, nodeName="n1"),
        member("b-0", schedulingGates=[{"name": "quota"}]),
    ],
    ids=["succeeded", "failed", "terminating", "gated"],
)
def test_pods_that_end_or_have_gates_are_no_members(other: Pod) -> None:
    (found,) = converted(member("a-0"), other)
    assert (found.least, set(found.unbound), set(found.bound)) == (1, {"a-0"}, set())
    assert converted(other) == ()


def test_the_priority_and_the_age_are_those_of_the_first_member() -> None:
    (found,) = converted(member("a-0", priority=5), member("b-0", meta={"creationTimestamp": AN_HOUR_AGO}))
    assert (found.priority, found.since_s) == (5, NOW_S - 3600)


# --- Members that do not exist yet --------------------------------------------------------------------


@pytest.mark.fact("GR-3")
@pytest.mark.parametrize("number", [1, 2])
def test_a_group_waits_for_its_size_for_some_seconds_only(number: int) -> None:
    """With the policy LeaderReady the workers exist only when the leader is ready."""
    some = [worker(f"serve-1-{index}") for index in range(number)]
    (growing,) = converted(*some, now_s=NOW_S + GROWS_S - 1)
    assert (growing.least, growing.grows_until_s) == (3, NOW_S + GROWS_S)
    (grown,) = converted(*some, now_s=NOW_S + GROWS_S)
    assert (grown.least, grown.grows_until_s) == (number, None)


@pytest.mark.fact("GR-2")
def test_a_jobset_waits_for_its_jobs_for_some_seconds_only() -> None:
    """With the policy InOrder later Jobs exist only when earlier ones are ready."""
    (growing,) = converted(member("a-0"), member("a-1"), now_s=NOW_S)
    assert (growing.least, growing.grows_until_s) == (3, NOW_S + GROWS_S)
    (grown,) = converted(member("a-0"), member("a-1"), now_s=NOW_S + GROWS_S)
    assert (grown.least, grown.grows_until_s) == (2, None)


def test_a_gang_with_all_that_its_labels_announce_does_not_wait() -> None:
    some = (worker("serve-1"), worker("serve-1-1"), worker("serve-1-2"))
    assert [(one.least, one.grows_until_s) for one in converted(*some, now_s=NOW_S)] == [(3, None)]
    found = converted(member("a-0"), member("b-0"), now_s=NOW_S)
    assert [(one.least, one.grows_until_s) for one in found] == [(2, None)]


def test_pods_that_end_and_pods_with_gates_exist() -> None:
    ended = member("b-0", {"phase": "Succeeded"})
    gated = worker("serve-1-2", schedulingGates=[{"name": "quota"}])
    found = converted(member("a-0"), ended, worker("serve-1"), worker("serve-1-1"), gated, now_s=NOW_S)
    assert [(one.source, one.least) for one in found] == [("JobSet", 1), ("LeaderWorkerSet", 2)]


def test_the_clock_of_the_api_server_may_be_ahead() -> None:
    """A time in the future must not stop a gang for long."""
    assert [one.least for one in converted(member("a-0"), now_s=NOW_S - 1)] == [1]


def test_more_pods_than_the_size_are_all_needed() -> None:
    some = [worker(f"serve-1-{index}", size="2") for index in range(3)]
    assert [one.least for one in converted(*some, now_s=NOW_S)] == [3]


# --- Pods that are planned one by one -----------------------------------------------------------------


@pytest.mark.parametrize(
    "size", ["", "0", "-1", "four", "4.0", "1e3", " 4", "4\n", "\u0664", "1000000", "9" * 5000]
)
def test_a_size_that_cannot_be_used(size: str) -> None:
    assert converted(worker("a", size=size)) == ()


def test_a_size_is_missing() -> None:
    assert converted(worker("a", meta={"annotations": {}})) == ()


@pytest.mark.parametrize("uid", ["", "a/b", "-", "a" * 64, "a\n"])
def test_a_uid_or_key_that_cannot_be_used(uid: str) -> None:
    labels = labelled_pods.job_set() | {f"{labelled_pods.JOB_SET}jobset-uid": uid}
    assert converted(member("a-0", meta={"labels": labels})) == ()
    labels = labelled_pods.group()[0] | {f"{labelled_pods.GROUPS}group-key": uid}
    assert converted(worker("a", meta={"labels": labels})) == ()


def test_a_number_of_jobs_that_cannot_be_used_is_not_waited_for() -> None:
    for jobs in ("", "many", "-1", "9" * 5000):
        found = converted(member("a-0", meta={"labels": labelled_pods.job_set("a", jobs=jobs)}), now_s=NOW_S)
        assert [one.least for one in found] == [1]


def test_pods_without_names_in_their_labels_have_a_gang() -> None:
    labels = {f"{labelled_pods.JOB_SET}jobset-uid": "uid-1"}
    assert [one.name for one in converted(member("a-0", meta={"labels": labels}))] == ["default/uid-1"]
    labels = {f"{labelled_pods.GROUPS}group-key": "key-1"}
    assert [one.name for one in converted(worker("a", meta={"labels": labels}))] == ["default/key-1"]


def test_a_podgroup_or_a_request_has_precedence() -> None:
    assert converted(member("a-0", schedulingGroup={"podGroupName": "train"})) == ()
    assert converted(member("a-0", meta={"annotations": {CONSUMES: "train"}})) == ()


def test_sources_that_are_switched_off() -> None:
    some = (member("a-0"), worker("serve-1"))
    assert [one.source for one in converted(*some, sources=frozenset({JOB_SET}))] == [JOB_SET]
    only_groups = converted(*some, sources=frozenset({LEADER_WORKER_SET}))
    assert [one.source for one in only_groups] == [LEADER_WORKER_SET]
    assert converted(*some, sources=frozenset()) == ()


def test_pods_of_a_daemonset_are_no_members() -> None:
    """No node is launched for them, so the others would wait for ever."""
    assert converted(member("a-0", meta=owned("DaemonSet", "agent"))) == ()
