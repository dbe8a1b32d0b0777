"""Whether the instances of a NodePool register as nodes, judged by the last launches."""

from typing import Any

import pytest

from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.lifecycle import registration_health
from holdfast.core.lifecycle.registration_health import NO_LAUNCHES, SUCCESS, Outcome
from holdfast.state.conversion import registrations
from objects import nodeclaim

FAILURE = Outcome(registered=False, reason="RegistrationFailed")


@pytest.mark.fact("P-17")
@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ("", None),
        ("f", None),
        ("s", SUCCESS),
        ("sf", None),
        ("ff", FAILURE),
        ("ffss", FAILURE),
        ("ffsss", SUCCESS),
        ("fsssf", None),  # only the last four launches count
        ("fsssff", FAILURE),
    ],
)
def test_two_failures_among_the_last_four_launches_are_unhealthy(
    outcomes: str, expected: Outcome | None
) -> None:
    history = NO_LAUNCHES
    for letter in outcomes:
        history = history.with_outcome(SUCCESS if letter == "s" else FAILURE)
    assert history.verdict == expected


@pytest.mark.fact("P-17")
def test_the_verdict_is_restored_from_the_condition() -> None:
    assert registration_health.from_condition(healthy=True).verdict == SUCCESS
    unhealthy = registration_health.from_condition(healthy=False, reason="Denied", message="no")
    assert unhealthy.verdict == Outcome(registered=False, reason="Denied", message="no")
    assert unhealthy.with_outcome(SUCCESS).verdict == unhealthy.verdict


def claim(deleted_at: str = "", **statuses: str) -> NodeClaim:
    """A NodeClaim with these conditions since 10:00, deleted at `deleted_at`."""
    found: list[dict[str, Any]] = [
        {"type": type_, "status": status, "reason": "Why", "lastTransitionTime": "2026-11-15T10:00:00Z"}
        for type_, status in statuses.items()
    ]
    meta = {"deletionTimestamp": f"2026-11-15T{deleted_at}Z"} if deleted_at else {}
    return nodeclaim("c", meta, {"conditions": found})


@pytest.mark.fact("P-17")
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, claim(Registered="True"), None),  # counted before the controller started
        (claim(Registered="True"), claim("11:00:00", Registered="True"), None),
        (claim(Registered="Unknown"), claim(Registered="True"), "success"),
        (claim(), claim("11:00:00"), None),
        (claim(Launched="Unknown"), claim("10:04:59", Launched="Unknown"), None),
        (claim(Launched="Unknown"), claim("10:05:00", Launched="Unknown"), "Why"),
        (claim(Launched="True"), claim("11:00:00", Launched="True"), None),
        (
            claim(Launched="True", Registered="Unknown"),
            claim("10:14:59", Launched="True", Registered="Unknown"),
            None,
        ),
        (
            claim(Launched="True", Registered="Unknown"),
            claim("10:15:00", Launched="True", Registered="Unknown"),
            "RegistrationFailed",
        ),
        (  # a deletion is one event, however often the claim changes afterwards
            claim("10:15:00", Launched="True", Registered="Unknown"),
            claim("10:15:00", Launched="True", Registered="Unknown"),
            None,
        ),
        (claim(Launched="True", Registered="Unknown"), None, None),
    ],
)
def test_only_an_observed_change_of_a_nodeclaim_is_an_outcome(
    before: NodeClaim | None, after: NodeClaim | None, expected: str | None
) -> None:
    found = registrations.outcome(before, after)
    assert (found and (found.reason or "success")) == expected
