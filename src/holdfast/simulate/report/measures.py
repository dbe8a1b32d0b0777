"""What a report compares: the measures of a result, and their median and spread over the seeds of a variant.

Called by `document`, `tables`, `comparison`, `bars`, `tiles` and `cli.report_page`. The names are the columns of variants.csv.
"""

import enum
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.simulation_results import SimulationResult
from holdfast.simulate.report.study import Variant

Value = Callable[[SimulationResult], float]


class Unit(enum.Enum):
    USD = "usd"
    HOURS = "hours"
    SECONDS = "seconds"
    PERCENT = "percent"
    COUNT = "count"


class Better(enum.Enum):
    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = ""


@dataclass(frozen=True, slots=True)
class Measure:
    name: str
    label: str
    group: str
    unit: Unit
    value: Value
    better: Better = Better.NEITHER
    is_optional: bool = False  # a table leaves it out if it is 0 everywhere


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    smallest: float
    largest: float

    @property
    def is_exact(self) -> bool:
        return self.smallest == self.largest


def spread(measure: Measure, variant: Variant) -> Spread:
    return spread_of([measure.value(one) for one in variant.results])


def spread_of(values: Sequence[float]) -> Spread:
    return Spread(float(statistics.median(values)), float(min(values)), float(max(values)))


def difference(measure: Measure, variant: Variant, base: Variant) -> float | None:
    """The median less that of the base, or None if the two are not comparable."""
    if not variant.is_comparable(base):
        return None
    return spread(measure, variant).median - spread(measure, base).median


def _used_percent(result: SimulationResult) -> float:
    paid = sum(one.slot_hours for one in result.reservations)
    return 100 * sum(one.used_hours for one in result.reservations) / paid if paid > 0 else 0.0


def _dollars(name: str, label: str, value: Value, better: Better, *, is_optional: bool = False) -> Measure:
    return Measure(name, label, "Dollars", Unit.USD, value, better, is_optional)


def _slots(name: str, label: str, value: Value, better: Better, *, is_optional: bool = False) -> Measure:
    return Measure(name, label, "Slot-hours of reservations", Unit.HOURS, value, better, is_optional)


def _waiting(name: str, label: str, value: Value, *, is_optional: bool = False) -> Measure:
    return Measure(name, label, "Pods' waiting time", Unit.SECONDS, value, Better.LOWER, is_optional)


def _pods(name: str, label: str, value: Value, better: Better, *, is_optional: bool = False) -> Measure:
    return Measure(name, label, "Pods", Unit.COUNT, value, better, is_optional)


def _nodes(name: str, label: str, value: Value, better: Better, *, is_optional: bool = False) -> Measure:
    return Measure(name, label, "Nodes", Unit.COUNT, value, better, is_optional)


_LOWER, _NEITHER = Better.LOWER, Better.NEITHER

USD_TOTAL: Final = _dollars("usd_total", "Total", lambda one: one.dollars.total, _LOWER)
USD_IDLE: Final = _dollars(
    "usd_reserved_idle", "Reserved, idle", lambda one: one.dollars.reserved_idle, _LOWER
)
USD_ON_DEMAND: Final = _dollars("usd_on_demand", "On-demand", lambda one: one.dollars.on_demand, _LOWER)
USD_SPOT: Final = _dollars("usd_spot", "Spot", lambda one: one.dollars.spot, _NEITHER)
USD_USED: Final = _dollars(
    "usd_reserved_used", "Reserved, used", lambda one: one.dollars.reserved_used, _NEITHER
)
USD_ELSEWHERE: Final = _dollars(
    "usd_reserved_elsewhere",
    "Reserved, used elsewhere",
    lambda one: one.dollars.reserved_elsewhere,
    _NEITHER,
    is_optional=True,
)
USD_SAVINGS_PLAN: Final = _dollars(
    "usd_savings_plan", "Savings Plan", lambda one: one.dollars.savings_plan, _NEITHER, is_optional=True
)
IDLE_HOURS: Final = _slots(
    "idle_hours", "Idle", lambda one: sum(each.idle_hours for each in one.reservations), _LOWER
)
USED_PERCENT: Final = Measure(
    "used_percent", "Used share", "Slot-hours of reservations", Unit.PERCENT, _used_percent, Better.HIGHER
)
WAITING_P50: Final = _waiting("waiting_p50_s", "Median (p50)", lambda one: one.pods.waiting.p50)
WAITING_P99: Final = _waiting("waiting_p99_s", "p99", lambda one: one.pods.waiting.p99)
WAITING_LONGEST: Final = _waiting("waiting_longest_s", "Longest", lambda one: one.pods.waiting.longest)
EVICTED: Final = _pods("pods_evicted", "Evicted", lambda one: one.pods.evicted, _LOWER)
UNPLACED: Final = _pods("pods_unplaced", "Waiting at the end", lambda one: one.unplaced_total, _LOWER)
DISRUPTED: Final = _nodes(
    "nodes_disrupted", "Disrupted", lambda one: sum(one.nodes.disrupted.values()), _LOWER
)
NODES_MOST: Final = _nodes("nodes_most", "Most at one time", lambda one: one.nodes.most, _NEITHER)

_FIXED: Final = (
    USD_TOTAL,
    USD_USED,
    USD_IDLE,
    USD_ELSEWHERE,
    USD_ON_DEMAND,
    USD_SPOT,
    USD_SAVINGS_PLAN,
    _slots("slot_hours", "Paid for", lambda one: sum(each.slot_hours for each in one.reservations), _NEITHER),
    _slots("used_hours", "Used", lambda one: sum(each.used_hours for each in one.reservations), _NEITHER),
    _slots(
        "elsewhere_hours",
        "Used elsewhere",
        lambda one: sum(each.elsewhere_hours for each in one.reservations),
        _NEITHER,
        is_optional=True,
    ),
    IDLE_HOURS,
    USED_PERCENT,
    WAITING_P50,
    _waiting("waiting_p90_s", "p90", lambda one: one.pods.waiting.p90, is_optional=True),
    WAITING_P99,
    WAITING_LONGEST,
    _pods("pods_created", "Created", lambda one: one.pods.created, _NEITHER),
    _pods("pods_started", "Started", lambda one: one.pods.started, _NEITHER),
    EVICTED,
    _pods("pods_lost", "Lost with their node", lambda one: one.pods.lost, _LOWER, is_optional=True),
    UNPLACED,
    _nodes("nodes_launched", "Launched", lambda one: one.nodes.launched, _NEITHER),
    _nodes("nodes_terminated", "Terminated", lambda one: one.nodes.terminated, _NEITHER),
    _nodes(
        "launches_failed", "Launches failed", lambda one: one.nodes.launches_failed, _LOWER, is_optional=True
    ),
    NODES_MOST,
    DISRUPTED,
)


def all_measures(results: Iterable[SimulationResult]) -> Sequence[Measure]:
    """The fixed measures, then one for each disruption reason and each called API that a result has."""
    known = tuple(results)
    reasons = sorted({reason for one in known for reason in one.nodes.disrupted})
    apis = sorted({api for one in known for api in one.calls})
    return (*_FIXED, *map(_disrupted, reasons), *map(_calls, apis))


def _disrupted(reason: str) -> Measure:
    return _nodes(
        f"disrupted_{reason}", f"Disrupted: {reason}", lambda one: one.nodes.disrupted.get(reason, 0), _LOWER
    )


def _calls(api: str) -> Measure:
    return Measure(f"calls_{api}", f"Calls to {api}", "Calls", Unit.COUNT, lambda one: one.calls.get(api, 0))
