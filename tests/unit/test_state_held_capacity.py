"""Capacity of a NodeClaim that waits for its slot: which pods may be planned on it."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from holdfast.model.pods import PodView
from holdfast.model.snapshot import ClaimView
from holdfast.model.taints import Toleration, TolerationOperator
from holdfast.state.cluster import held_capacity
from planner_builders import (
    daemon,
    fake_types,
    instance_type,
    node,
    placed,
    pods,
    pool,
    request,
    running,
    shape,
)

TOLERATES_ALL = Toleration(operator=TolerationOperator.EXISTS)


def owned(owner: str, count: int = 1, cpu_millis: int = 1000, **of: Any) -> tuple[PodView, ...]:
    one = shape(cpu_millis, app=owner, **of)
    return tuple(pod._replace(owner=owner) for pod in pods(count, one, owner))


def placements(
    *pending: PodView, on_old: tuple[PodView, ...] = (), rebooting_s: int | None = None, **more: Any
) -> dict[str, tuple[str, ...]]:
    """Pods planned on existing nodes. The capacity of `new` is held for evicted pods of `old`: owners `web` and `bare`."""
    claim = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        0,
        held_for=frozenset({"web", "bare"}),
        rebooting_s=rebooting_s,
    )
    waiting = node("new", cpu=2, claim="new", initialized=False)
    draining = node("old", cpu=2, deleting=True, pods=on_old)
    solve_request = request(
        [pool(types=fake_types(8))], pending, nodes=(waiting, draining), claims=(claim,), **more
    )
    return placed(solve(replace(solve_request, snapshot=held_capacity.tainted(solve_request.snapshot))))


def test_evicted_pods_are_planned_on_the_held_capacity() -> None:
    assert placements(*owned("web", 2)) == {"new": ("web-000000", "web-000001")}


@pytest.mark.parametrize("tolerations", [(), (TOLERATES_ALL,)])
def test_other_pods_are_not_planned_on_held_capacity_whatever_they_tolerate(
    tolerations: tuple[Toleration, ...],
) -> None:
    other = owned("other", cpu_millis=1500, tolerations=tolerations)  # bigger, so it is placed first
    assert placements(*other, *owned("web", 2)) == {"new": ("web-000000", "web-000001")}
    assert placements(*other) == {}


def test_pods_still_on_the_draining_node_are_planned_on_the_held_capacity() -> None:
    alone = running(1, shape(900), "bare")[0]._replace(owner="bare")
    assert placements(*owned("web"), on_old=(alone,)) == {"new": ("bare-000000", "web-000000")}


def test_held_capacity_excludes_the_requests_of_daemon_sets() -> None:
    assert placements(*owned("web", 2), daemon_sets=(daemon(shape(500)),)) == {"new": ("web-000000",)}


def test_a_claim_without_held_for_is_available_to_all_pods() -> None:
    types = [instance_type("big", 8, 16, 0.4)]
    solve_request = request(
        [pool(types=types)], owned("other"), nodes=(node("new", claim="new", initialized=False),)
    )
    assert held_capacity.tainted(solve_request.snapshot) == solve_request.snapshot


def test_pods_wait_for_a_reboot_for_at_most_ten_minutes() -> None:
    web = owned("web", 2)
    assert placements(*web, rebooting_s=0, taken_s=599) == {"new": ("web-000000", "web-000001")}
    assert placements(*web, rebooting_s=0, taken_s=600) == {}
