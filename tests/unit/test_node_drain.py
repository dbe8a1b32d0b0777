"""Which pods of a node go now, and how."""

from typing import Any

import pytest

import objects
from holdfast.api.pods import Pod
from holdfast.controllers import drain
from objects import NOW_S, owned

MINUTE_S = 60


def pod(
    name: str,
    *,
    daemon: bool = False,
    critical: bool = False,
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    made_by = owned("DaemonSet", "ds") if daemon else {}
    if critical:
        spec["priorityClassName"] = "system-node-critical"
    return objects.pod(
        name, {"uid": name, **made_by, **(meta or {})}, {"phase": "Running"}, nodeName="n", **spec
    )


def evicted(*pods: Pod, until_s: int | None = None) -> list[str]:
    return [p.metadata.name for p in drain.drain(pods, now_s=NOW_S, until_s=until_s).evict]


def deleted(*pods: Pod, until_s: int) -> list[tuple[str, int]]:
    found = drain.drain(pods, now_s=NOW_S, until_s=until_s).delete
    return [(p.metadata.name, grace_s) for p, grace_s in found]


@pytest.mark.fact("NC-30")
def test_pods_leave_tier_by_tier() -> None:
    tiers = [
        pod("ordinary"),
        pod("of-daemon", daemon=True),
        pod("critical", critical=True),
        pod("critical-of-daemon", daemon=True, critical=True),
    ]
    for first in range(len(tiers)):
        assert evicted(*reversed(tiers[first:])) == [tiers[first].metadata.name]
    assert drain.drain([], now_s=NOW_S, until_s=None).done


def test_the_biggest_pod_of_a_tier_leaves_first() -> None:
    """kube-scheduler binds its replacement first, which fits in the fewest places."""

    def sized(name: str, cpu: str, memory: str) -> Pod:
        wanted = {"requests": {"cpu": cpu, "memory": memory}}
        return pod(name, containers=[{"name": "main", "resources": wanted}])

    sizes = [
        sized("a", "100m", "1Gi"),
        sized("b", "2", "1Gi"),
        sized("c", "100m", "2Gi"),
        sized("d", "-1x", "1Gi"),
    ]
    assert evicted(*sizes) == ["b", "c", "a", "d"]


@pytest.mark.fact("NC-33")
def test_a_tier_is_waited_for_until_its_last_pod_is_gone() -> None:
    leaving = pod("leaving", meta={"deletionTimestamp": objects.NOW})
    decided = drain.drain([leaving, pod("critical", critical=True)], now_s=NOW_S, until_s=None)
    assert decided.evict == ()
    assert decided.waiting == 2


@pytest.mark.fact("NC-29")
@pytest.mark.parametrize(
    "stays",
    [
        pod("tolerates", tolerations=[{"key": "karpenter.sh/disrupted", "operator": "Exists"}]),
        pod("mirror", meta=owned("Node", "n", "v1")),
        pod("stuck", meta={"deletionTimestamp": objects.AN_HOUR_AGO}),
    ],
    ids=lambda p: p.metadata.name,
)
def test_some_pods_are_not_waited_for(stays: Pod) -> None:
    assert drain.drain([stays], now_s=NOW_S, until_s=None).done


def test_a_pod_that_must_not_be_disrupted_is_waited_for_and_never_evicted() -> None:
    held = pod("held", meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
    decided = drain.drain([held], now_s=NOW_S, until_s=None)
    assert (decided.evict, decided.waiting) == ((), 1)


@pytest.mark.fact("NC-32")
def test_a_pod_whose_grace_period_would_outlast_the_node_is_deleted() -> None:
    slow = pod(
        "slow",
        critical=True,
        terminationGracePeriodSeconds=5 * MINUTE_S,
        meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
    )
    quick = pod("quick", terminationGracePeriodSeconds=30)
    unknown = pod("unknown")
    assert deleted(slow, quick, unknown, until_s=NOW_S + 4 * MINUTE_S) == [("slow", 4 * MINUTE_S)]
    assert deleted(slow, until_s=NOW_S + 5 * MINUTE_S) == []
    assert deleted(quick, slow, unknown, until_s=NOW_S - 10) == [("quick", 1), ("slow", 1)]


@pytest.mark.fact("NC-32")
def test_a_pod_whose_grace_period_outlasts_the_node_gets_a_shorter_one() -> None:
    late = pod(
        "late",
        terminationGracePeriodSeconds=600,
        meta={"deletionTimestamp": "2026-11-15T10:10:00Z"},
    )
    assert deleted(late, until_s=NOW_S + MINUTE_S) == [("late", MINUTE_S)]
    assert deleted(late, until_s=NOW_S + 20 * MINUTE_S) == []
