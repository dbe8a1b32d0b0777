"""How many nodes may be disrupted at once, for which reason, and when."""

import datetime as dt
from dataclasses import replace

import pytest

from disruption_builders import at_most, disruption_input, managed_node
from holdfast import errors
from holdfast.core.disruption import budgets, cron
from holdfast.core.disruption.budgets import RemainingBudget
from holdfast.core.disruption.inputs import Budget, DisruptionReason, NodeFacts, PoolRules

NINE = int(dt.datetime(2026, 11, 16, 9, tzinfo=dt.UTC).timestamp())  # a Monday
HOUR_S = 3600
DAY_S = 24 * HOUR_S


def allowed(
    rules: PoolRules, reason: DisruptionReason = DisruptionReason.DRIFTED, count: int = 10, **more: NodeFacts
) -> int | None:
    nodes = [managed_node(f"n{i}") for i in range(count)]
    return budgets.allowances(disruption_input(*nodes, rules=rules, facts=more), reason)["default"].allowed


@pytest.mark.fact("D-11", "X-6")
@pytest.mark.parametrize(
    ("nodes", "count", "expected"),
    [
        ("10%", 10, 1),
        ("10%", 11, 2),
        ("1%", 1, 1),
        ("100%", 7, 7),
        ("100%", 300, 300),
        ("0%", 7, 0),
        ("3", 10, 3),
        ("0", 9, 0),
    ],
)
def test_percentage_of_a_budget_is_rounded_up(nodes: str, count: int, expected: int) -> None:
    assert allowed(at_most(nodes), count=count) == expected


@pytest.mark.fact("D-10")
def test_not_ready_queued_and_rebooting_nodes_consume_the_budget() -> None:
    assert allowed(at_most("3"), n0=NodeFacts(ready=False), n1=NodeFacts(queued=True)) == 1
    assert allowed(at_most("3"), n0=NodeFacts(rebooting=True)) == 2
    assert allowed(at_most("1"), n0=NodeFacts(ready=False), n1=NodeFacts(ready=False)) == 0


@pytest.mark.fact("D-10")
def test_not_ready_node_consumes_no_budget_for_repair() -> None:
    assert allowed(at_most("3"), DisruptionReason.UNHEALTHY, n0=NodeFacts(ready=False)) == 3
    assert allowed(at_most("3"), DisruptionReason.UNHEALTHY, n0=NodeFacts(queued=True)) == 2


@pytest.mark.fact("D-10")
def test_uninitialized_unmanaged_and_terminating_nodes_are_not_counted() -> None:
    nodes = [
        managed_node("n0"),
        managed_node("n1", initialized=False),
        managed_node("n2", claim=None),
        managed_node("n3", deleting=True),
        managed_node("n4"),
    ]
    found = budgets.allowances(
        disruption_input(*nodes, rules=at_most("50%"), facts={"n4": NodeFacts(ending=True)}),
        DisruptionReason.EMPTY,
    )["default"]
    assert (found.nodes, found.consumed, found.limit, found.allowed) == (2, 1, 1, 0)


@pytest.mark.fact("D-10")
def test_rebooting_node_is_counted_before_it_is_initialized() -> None:
    node = managed_node("n0", initialized=False)
    found = budgets.allowances(
        disruption_input(node, rules=at_most("1"), facts={"n0": NodeFacts(rebooting=True)}),
        DisruptionReason.EMPTY,
    )["default"]
    assert (found.nodes, found.consumed, found.allowed) == (1, 1, 0)


@pytest.mark.fact("D-12")
def test_budget_applies_to_its_reasons_or_without_reasons_to_all() -> None:
    rules = PoolRules(budgets=(Budget("0", frozenset({"Drifted"})), Budget("4"), Budget("6")))
    assert allowed(rules, DisruptionReason.DRIFTED) == 0
    assert allowed(rules, DisruptionReason.EMPTY) == 4
    assert allowed(PoolRules(budgets=(Budget("0", frozenset()),))) is None
    assert allowed(PoolRules(budgets=())) is None


@pytest.mark.fact("D-11")
@pytest.mark.parametrize(
    ("after_s", "expected"), [(-1, None), (0, 0), (HOUR_S - 1, 0), (HOUR_S, None), (DAY_S, 0)]
)
def test_budget_with_a_schedule_is_active_for_its_duration_after_each_start(
    after_s: int, expected: int | None
) -> None:
    one = Budget("0", schedule="0 9 * * *", duration_s=HOUR_S)
    assert budgets.limit((one,), DisruptionReason.EMPTY, 10, NINE + after_s) == expected


@pytest.mark.fact("D-11")
@pytest.mark.parametrize(
    "schedule",
    [
        "0 25 * * *", "* * * *", "a b c d e", "@never", "5-1 * * * *", "*/0 * * * *", "*/00 * * * *",
        f"*/{'9' * 5000} * * * *", f"{'9' * 5000} * * * *", f"0-{'9' * 5000} * * * *", "*/٣ * * * *",
    ],
)  # fmt: skip
def test_budget_that_cannot_be_parsed_allows_no_disruption(schedule: str) -> None:
    with pytest.raises(errors.InvalidInput):
        cron.parse(schedule)
    assert (
        budgets.limit((Budget("5", schedule=schedule, duration_s=60),), DisruptionReason.EMPTY, 10, NINE) == 0
    )
    assert budgets.limit((Budget("many"),), DisruptionReason.EMPTY, 10, NINE) == 0
    assert budgets.limit((Budget("9" * 5000),), DisruptionReason.EMPTY, 10, NINE) == 0
    assert budgets.limit((Budget("9" * 5000 + "%"),), DisruptionReason.EMPTY, 10, NINE) == 0


def test_each_node_consumes_one_disruption_and_an_unknown_nodepool_has_none() -> None:
    found = budgets.allowances(
        disruption_input(managed_node("n0"), rules=at_most("2")), DisruptionReason.EMPTY
    )
    remaining = RemainingBudget(found)
    assert [remaining.spend("default") for _ in range(3)] == [True, True, False]
    assert not remaining.spend("gone")
    unlimited = RemainingBudget({"default": replace(found["default"], limit=None)})
    assert all(unlimited.spend("default") for _ in range(100))


# --- Schedules ---------------------------------------------------------------------------------------


@pytest.mark.fact("D-11")
@pytest.mark.parametrize(
    ("schedule", "latest"),
    [
        ("0 9 * * mon-fri", NINE),
        ("0 9 * * MON-FRI", NINE),
        ("*/15 * * * *", NINE),
        ("5/20 8 * * *", NINE - 15 * 60),
        ("30 8 * * *", NINE - HOUR_S // 2),
        ("0 10 * * *", NINE - 23 * HOUR_S),
        ("0 9 * * sun", NINE - DAY_S),
        ("0 0 1 * *", NINE - 15 * DAY_S - 9 * HOUR_S),
        ("0 9 15 * ?", NINE - DAY_S),
        ("0 9 13 * mon", NINE),  # day of month or weekday
        ("0 9 13 * sat", NINE - 2 * DAY_S),
        ("0 9 13 * */1", NINE - 3 * DAY_S),  # `*/1` does not restrict the weekday
        ("0,30 6-8 * nov *", NINE - HOUR_S // 2),
        ("@daily", NINE - 9 * HOUR_S),
        ("@midnight", NINE - 9 * HOUR_S),
        ("@hourly", NINE),
        ("@weekly", NINE - DAY_S - 9 * HOUR_S),
        ("@monthly", NINE - 15 * DAY_S - 9 * HOUR_S),
        ("@yearly", NINE - 319 * DAY_S - 9 * HOUR_S),
        ("@annually", NINE - 319 * DAY_S - 9 * HOUR_S),
        ("0 0 31 2 *", None),
    ],
)
def test_latest_start_of_a_schedule(schedule: str, latest: int | None) -> None:
    assert cron.parse(schedule).latest_s(NINE) == latest
