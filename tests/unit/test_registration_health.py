"""Whether the machines of a NodePool become nodes: the last launches, and what they say."""

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
    ("outcomes", "says"),
    [
        ("", None),
        ("f", None),
        ("s", SUCCESS),
        ("sf", None),
        ("ff", FAILURE),
        ("ffss", FAILURE),
        ("ffsss", SUCCESS),
        ("fsssf", None),  # the oldest of five is forgotten
        ("fsssff", FAILURE),
    ],
)
def test_two_failures_among_the_last_four_are_too_many(outcomes: str, says: Outcome | None) -> None:
    history = NO_LAUNCHES
    for letter in outcomes:
        history = history.with_outcome(SUCCESS if letter == "s" else FAILURE)
    assert history.verdict == says


@pytest.mark.fact("P-17")
def test_a_verdict_that_was_written_down_is_recalled() -> None:
    assert registration_health.from_condition(healthy=True).verdict == SUCCESS
    unhealthy = registration_health.from_condition(healthy=False, reason="Denied", message="no")
    assert unhealthy.verdict == Outcome(registered=False, reason="Denied", message="no")
    assert unhealthy.with_outcome(SUCCESS).verdict == unhealthy.verdict


def claim(ends: str = "", **statuses: str) -> NodeClaim:
    """Conditions since ten o'clock; it ends at `ends`."""
    found: list[dict[str, Any]] = [
        {"type": type_, "status": status, "reason": "Why", "lastTransitionTime": "2026-11-15T10:00:00Z"}
        for type_, status in statuses.items()
    ]
    meta = {"deletionTimestamp": f"2026-11-15T{ends}Z"} if ends else {}
    return nodeclaim("c", meta, {"conditions": found})


@pytest.mark.fact("P-17")
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (None, claim(Registered="True"), None),  # counted before the program started
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
def test_only_a_change_that_was_seen_says_something(
    before: NodeClaim | None, after: NodeClaim | None, says: str | None
) -> None:
    found = registrations.outcome(before, after)
    assert (found and (found.reason or "success")) == says
