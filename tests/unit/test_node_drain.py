"""Which pods of a draining node are evicted now, and which are deleted."""

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
    owner = owned("DaemonSet", "ds") if daemon else {}
    if critical:
        spec["priorityClassName"] = "system-node-critical"
    return objects.pod(
        name, {"uid": name, **owner, **(meta or {})}, {"phase": "Running"}, nodeName="n", **spec
    )


def evicted(*pods: Pod, until_s: int | None = None) -> list[str]:
    return [p.metadata.name for p in drain.drain(pods, now_s=NOW_S, until_s=until_s).evict]


def deleted(*pods: Pod, until_s: int) -> list[tuple[str, int]]:
    found = drain.drain(pods, now_s=NOW_S, until_s=until_s).delete
    return [(p.metadata.name, grace_s) for p, grace_s in found]


@pytest.mark.fact("NC-30")
def test_pods_are_evicted_tier_by_tier() -> None:
    tiers = [
        pod("ordinary"),
        pod("of-daemon", daemon=True),
        pod("critical", critical=True),
        pod("critical-of-daemon", daemon=True, critical=True),
    ]
    for first in range(len(tiers)):
        assert evicted(*reversed(tiers[first:])) == [tiers[first].metadata.name]
    assert drain.drain([], now_s=NOW_S, until_s=None).done


def test_the_largest_pod_of_a_tier_is_evicted_first() -> None:
    """kube-scheduler then binds its replacement first: the largest pod fits on the fewest nodes."""

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
def test_the_next_tier_waits_until_the_last_pod_terminates() -> None:
    terminating = pod("leaving", meta={"deletionTimestamp": objects.NOW})
    decision = drain.drain([terminating, pod("critical", critical=True)], now_s=NOW_S, until_s=None)
    assert decision.evict == ()
    assert decision.waiting == 2


@pytest.mark.fact("NC-29")
@pytest.mark.parametrize(
    "ignored",
    [
        pod("tolerates", tolerations=[{"key": "karpenter.sh/disrupted", "operator": "Exists"}]),
        pod("mirror", meta=owned("Node", "n", "v1")),
        pod("stuck", meta={"deletionTimestamp": objects.AN_HOUR_AGO}),
    ],
    ids=lambda p: p.metadata.name,
)
def test_the_drain_ignores_tolerating_mirror_and_stuck_pods(ignored: Pod) -> None:
    assert drain.drain([ignored], now_s=NOW_S, until_s=None).done


def test_the_drain_waits_for_a_do_not_disrupt_pod_and_never_evicts_it() -> None:
    protected = pod("held", meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}})
    decision = drain.drain([protected], now_s=NOW_S, until_s=None)
    assert (decision.evict, decision.waiting) == ((), 1)


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
def test_a_terminating_pod_gets_a_shorter_grace_period_if_it_outlasts_the_node() -> None:
    late = pod(
        "late",
        terminationGracePeriodSeconds=600,
        meta={"deletionTimestamp": "2026-11-15T10:10:00Z"},
    )
    assert deleted(late, until_s=NOW_S + MINUTE_S) == [("late", MINUTE_S)]
    assert deleted(late, until_s=NOW_S + 20 * MINUTE_S) == []
