"""Room of a claim that waits for its slot: who may count on it."""

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

ANYWHERE = Toleration(operator=TolerationOperator.EXISTS)


def owned(owner: str, count: int = 1, cpu_millis: int = 1000, **of: Any) -> tuple[PodView, ...]:
    one = shape(cpu_millis, app=owner, **of)
    return tuple(replace(pod, owner=owner) for pod in pods(count, one, owner))


def places(
    *pending: PodView, there: tuple[PodView, ...] = (), rebooting_s: int | None = None, **more: Any
) -> dict[str, tuple[str, ...]]:
    """Where the planner counts on nodes that exist: the room of `new` is held for pods of `old`, those of `web`."""
    claim = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        0,
        held_for=frozenset({"web", "bare"}),
        rebooting_s=rebooting_s,
    )
    waits = node("new", cpu=2, claim="new", initialized=False)
    drains = node("old", cpu=2, deleting=True, pods=there)
    asked = request([pool(types=fake_types(8))], pending, nodes=(waits, drains), claims=(claim,), **more)
    return placed(solve(replace(asked, snapshot=held_capacity.tainted(asked.snapshot))))


def test_pods_that_were_evicted_find_their_room() -> None:
    assert places(*owned("web", 2)) == {"new": ("web-000000", "web-000001")}


@pytest.mark.parametrize("tolerations", [(), (ANYWHERE,)])
def test_others_do_not_count_on_it_whatever_they_tolerate(tolerations: tuple[Toleration, ...]) -> None:
    other = owned("other", cpu_millis=1500, tolerations=tolerations)  # bigger, so it is placed first
    assert places(*other, *owned("web", 2)) == {"new": ("web-000000", "web-000001")}
    assert places(*other) == {}


def test_pods_that_are_still_on_the_node_that_drains_count_on_it() -> None:
    alone = replace(running(1, shape(900), "bare")[0], owner="bare")
    assert places(*owned("web"), there=(alone,)) == {"new": ("bare-000000", "web-000000")}


def test_what_daemon_sets_will_take_of_it_is_not_counted_on() -> None:
    assert places(*owned("web", 2), daemon_sets=(daemon(shape(500)),)) == {"new": ("web-000000",)}


def test_a_claim_that_names_nobody_is_for_everybody() -> None:
    types = [instance_type("big", 8, 16, 0.4)]
    asked = request([pool(types=types)], owned("other"), nodes=(node("new", claim="new", initialized=False),))
    assert held_capacity.tainted(asked.snapshot) == asked.snapshot


def test_a_reboot_is_waited_for_no_longer_than_ten_minutes() -> None:
    web = owned("web", 2)
    assert places(*web, rebooting_s=0, taken_s=599) == {"new": ("web-000000", "web-000001")}
    assert places(*web, rebooting_s=0, taken_s=600) == {}
