"""Results of made-up simulations, for tests of the report."""

import math
import random
from typing import Any

import msgspec

from holdfast.api.simulation_results import (
    Dollars,
    Event,
    NodesResult,
    OnDemandUse,
    PodsResult,
    ReservationResult,
    SimulationResult,
    Sizing,
    SizingResult,
    Timeline,
    Unplaced,
    Waiting,
)

BEGINS = 1_794_787_200  # 2026-11-16T00:00:00Z, a Monday
WEEK_S = 7 * 86_400
DAY_S = 86_400
STEP_S = 300
ODCR = "cr-0a1b2c3d4e5f60718"
BLOCK = "cr-0b2c3d4e5f6071829"
SHARED = "cr-0c3d4e5f607182930"
MARKUP = "</style><script>alert('variant')</script><img src=x onerror=alert(1)>"
HOSTILE = (
    MARKUP,
    "=HYPERLINK(1)",
    '" onload="alert(2)',
    "&lt;b&gt;",
    "\u202eright",
    "a\x00b\x1b[31m",
    "x" * 300,
)


def result(variant: str = "base", seed: int = 1, **fields: Any) -> SimulationResult:
    """A small result: one day, four steps, one reservation."""
    known: dict[str, Any] = {
        "study": "small",
        "input": "sha256:0011223344556677",
        "variant": variant,
        "seed": seed,
        "holdfast": "0.9.0",
        "begins": BEGINS,
        "ends": BEGINS + DAY_S,
        "until": BEGINS + DAY_S,
        "dollars": Dollars(total=100.0 + seed, reserved_used=60.0, reserved_idle=20.0, on_demand=20.0 + seed),
        "reservations": (reservation(),),
        "pods": PodsResult(
            created=10, started=10, evicted=2, waiting=Waiting(p50=40, p90=70, p99=95, longest=120)
        ),
        "nodes": NodesResult(launched=4, terminated=3, most=3, disrupted={"Empty": 2, "Drifted": 1}),
        "calls": {"aws": 40, "kubernetes": 900},
        "timeline": timeline(4, 6 * 3600),
    }
    return SimulationResult(**known | fields)


def reservation(**fields: Any) -> ReservationResult:
    known: dict[str, Any] = {
        "id": ODCR,
        "kind": "default",
        "instance_type": "m5.xlarge",
        "zone": "us-west-2a",
        "total": 4,
        "begins": BEGINS,
        "ends": BEGINS + DAY_S,
        "slot_hours": 96.0,
        "used_hours": 72.0,
        "idle_hours": 24.0,
        "usd": 18.43,
        "idle_usd": 4.61,
    }
    return ReservationResult(**known | fields)


def timeline(count: int, step: int = STEP_S) -> Timeline:
    whole, money = (1,) * count, (1.5,) * count
    return Timeline(
        begins=BEGINS,
        step=step,
        reserved_nodes=whole,
        on_demand_nodes=whole,
        spot_nodes=(0,) * count,
        pods_running=(5,) * count,
        pods_waiting=(0,) * count,
        usd_reserved_used=money,
        usd_reserved_idle=money,
        usd_on_demand=money,
        usd_spot=(0.0,) * count,
        slots_used={ODCR: (3,) * count} if count else {},
    )


# --- A week ----------------------------------------------------------------------------------------------

_SLOTS = {ODCR: 12, BLOCK: 4, SHARED: 6}
_PRICES = {ODCR: 0.768, BLOCK: 39.33, SHARED: 3.06}
_TYPES = {ODCR: "m5.4xlarge", BLOCK: "p4d.24xlarge", SHARED: "g5.8xlarge"}
_WINDOWS = {ODCR: (0, 7 * 24), BLOCK: (60, 108), SHARED: (24, 7 * 24)}  # hours
_ON_DEMAND_USD, _SPOT_USD = 0.9, 0.31


def week(variant: str = "base", seed: int = 1, *, less: int = 0, hours: int = 168) -> SimulationResult:
    """A week with a daily curve in steps of five minutes; `less` takes slots out of the largest reservation."""
    dice = random.Random(f"{variant} {seed}")
    count = hours * 3600 // STEP_S
    slots = _SLOTS | {ODCR: _SLOTS[ODCR] - less}
    steps = [_step(position, slots, dice) for position in range(count)]
    used = {key: tuple(one["used"][key] for one in steps) for key in slots}
    found = tuple(_reservation(key, slots[key], used[key], hours) for key in sorted(slots))
    money = {
        name: tuple(round(one[name], 4) for one in steps)
        for name in ("reserved", "idle", "on_demand", "spot")
    }
    dollars = {name: round(sum(values) * STEP_S / 3600, 6) for name, values in money.items()}
    disrupted = {"Underutilized": 31 + seed, "Empty": 22, "Drifted": 6, "BlockEnds": 4, "Interrupted": 3}
    return SimulationResult(
        study="web-and-training",
        input="sha256:5a0c8d1f3b7e2469",
        variant=variant,
        seed=seed,
        holdfast="0.9.0",
        begins=BEGINS,
        ends=BEGINS + WEEK_S,
        until=BEGINS + hours * 3600,
        settings={"packing": "cost", "batchMaxDuration": "10s", "featureGates": "StaticCapacity=true"},
        changes=(f"World/main: reservation {ODCR}: total {_SLOTS[ODCR]} -> {slots[ODCR]}",) if less else (),
        dollars=Dollars(
            total=round(sum(dollars.values()), 6),
            reserved_used=dollars["reserved"],
            reserved_idle=dollars["idle"],
            on_demand=dollars["on_demand"],
            spot=dollars["spot"],
        ),
        reservations=found,
        pods=PodsResult(
            created=18_240 + seed,
            started=18_231,
            evicted=212 + 9 * seed + 30 * less,
            lost=3,
            waiting=Waiting(
                p50=41.5 + seed,
                p90=72,
                p99=131 + 2 * seed,
                longest=1912,
                longest_pod="research/llm-pretrain-0",
            ),
        ),
        nodes=NodesResult(
            launched=402 + seed, terminated=377, launches_failed=5, most=61 + less, disrupted=disrupted
        ),
        unplaced=(
            Unplaced(
                pod="research/huge-0",
                since=BEGINS + 90_000,
                reason="no instance type has enough resources: cpu 9k is requested",
            ),
        ),
        unplaced_total=1,
        on_demand=(
            OnDemandUse(
                instance_type="m5.2xlarge", zone="us-west-2a", usd_per_hour=0.384, changes=((BEGINS, 3),)
            ),
        ),
        calls={"aws": 8_412 + seed, "kubernetes": 96_220},
        events=tuple(_events(dice, hours)),
        timeline=_timeline(steps, used, money),
        notes=("Prices of spot are constant.",),
        study_variants=("base", "three-slots-less"),
        study_seeds=(1, 2, 3),
    )


def study() -> list[SimulationResult]:
    """Two variants with three seeds."""
    return [
        week(variant, seed, less=less)
        for variant, less in (("base", 0), ("three-slots-less", 3))
        for seed in (1, 2, 3)
    ]


SIZING = Sizing(
    results=(
        SizingResult(
            instance_type="m5.2xlarge",
            zone="us-west-2a",
            begins=BEGINS,
            ends=BEGINS + WEEK_S,
            slots=6,
            usd_cost=258.05,
            usd_saved=91.73,
            marginal=(31.2, 24.9, 18.1, 11.0, 5.2, 1.33, -2.4, -9.8, -17.7),
        ),
        SizingResult(
            instance_type="g5.8xlarge",
            zone="us-west-2b",
            begins=BEGINS + DAY_S,
            ends=BEGINS + 3 * DAY_S,
            slots=2,
            usd_cost=117.5,
            usd_saved=12.4,
            marginal=(9.1, 3.3, -4.0),
        ),
    ),
    notes=("g5.xlarge has no reservation price, so it is left out.",),
)


def _step(position: int, slots: dict[str, int], dice: random.Random) -> dict[str, Any]:
    hour = position * STEP_S / 3600
    of_day = max(0.0, math.sin((hour % 24 - 7) / 24 * 2 * math.pi)) * (0.45 if hour >= 5 * 24 else 1.0)
    demand = {
        ODCR: 5 + 16 * of_day + dice.uniform(-0.6, 0.6),
        BLOCK: 4.0 if hour > 61 else 0.0,
        SHARED: 2 + 5 * of_day,
    }
    active = {key: _WINDOWS[key][0] <= hour < _WINDOWS[key][1] for key in slots}
    used = {key: min(slots[key], round(max(0.0, demand[key]))) if active[key] else 0 for key in slots}
    over = sum(max(0, round(demand[key]) - used[key]) for key in slots if key != BLOCK)
    spot = min(over, 4)
    return {
        "used": used,
        "reserved": sum(used[key] * _PRICES[key] for key in slots),
        "idle": sum((slots[key] - used[key]) * _PRICES[key] for key in slots if active[key]),
        "on_demand": (over - spot) * _ON_DEMAND_USD,
        "spot": spot * _SPOT_USD,
        "nodes": (sum(used.values()), over - spot, spot),
        "running": 120 + int(900 * of_day) + dice.randrange(20),
        "waiting": dice.randrange(60) if position % 97 == 0 else dice.randrange(4) * (of_day > 0.2),
    }


def _timeline(
    steps: list[dict[str, Any]], used: dict[str, tuple[int, ...]], money: dict[str, tuple[float, ...]]
) -> Timeline:
    return Timeline(
        begins=BEGINS,
        step=STEP_S,
        reserved_nodes=tuple(one["nodes"][0] for one in steps),
        on_demand_nodes=tuple(one["nodes"][1] for one in steps),
        spot_nodes=tuple(one["nodes"][2] for one in steps),
        pods_running=tuple(one["running"] for one in steps),
        pods_waiting=tuple(one["waiting"] for one in steps),
        usd_reserved_used=money["reserved"],
        usd_reserved_idle=money["idle"],
        usd_on_demand=money["on_demand"],
        usd_spot=money["spot"],
        slots_used=used,
    )


def _reservation(key: str, total: int, used: tuple[int, ...], hours: int) -> ReservationResult:
    begins, ends = _WINDOWS[key]
    paid = total * max(0, min(ends, hours) - begins)
    used_hours = sum(used) * STEP_S / 3600
    return ReservationResult(
        id=key,
        kind="capacity-block" if key == BLOCK else "default",
        instance_type=_TYPES[key],
        zone="us-west-2a" if key != BLOCK else "us-west-2b",
        total=total,
        begins=BEGINS + begins * 3600,
        ends=BEGINS + ends * 3600,
        slot_hours=float(paid),
        used_hours=round(used_hours, 4),
        idle_hours=round(paid - used_hours, 4),
        usd=round(paid * _PRICES[key], 4),
        idle_usd=round((paid - used_hours) * _PRICES[key], 4),
    )


def _events(dice: random.Random, hours: int) -> list[Event]:
    known = [
        Event(
            at=BEGINS + 24 * 3600,
            type="reservation-begins",
            text=f"Reservation {SHARED} with 6 slots begins.",
        ),
        Event(
            at=BEGINS + 60 * 3600,
            type="reservation-begins",
            text=f"Capacity block {BLOCK} with 4 slots begins.",
        ),
        Event(
            at=BEGINS + 107 * 3600, type="block-drains", text=f"Nodes of capacity block {BLOCK} are drained."
        ),
        Event(at=BEGINS + 108 * 3600, type="reservation-ends", text=f"Capacity block {BLOCK} ends."),
    ]
    known += [
        Event(at=BEGINS + dice.randrange(168) * 3600, type=kind, text=text)
        for kind, text, count in (
            ("interruption", "Spot instance i-0abc is interrupted.", 3),
            ("launch-failed", "EC2 has no capacity for c5.large in us-west-2c.", 5),
        )
        for _ in range(count)
    ]
    return [one for one in known if one.at < BEGINS + hours * 3600]


def hostile() -> list[SimulationResult]:
    """Every text of a result is hostile, and differs between variants."""
    return [
        result(
            text,
            study=MARKUP,
            holdfast=text,
            settings={text: text},
            changes=(text,),
            notes=(text,),
            reservations=(reservation(id=text, kind=text, instance_type=text, zone=text),),
            nodes=NodesResult(launched=1, disrupted={text: 1}),
            calls={text: 1},
            unplaced=(Unplaced(pod=text, since=BEGINS, reason=text),),
            unplaced_total=1,
            pods=PodsResult(waiting=Waiting(longest=5, longest_pod=text)),
            events=(Event(at=BEGINS + 10, type=text, text=text),),
            timeline=msgspec.structs.replace(timeline(4, 6 * 3600), slots_used={text: (1, 2, 3, 4)}),
        )
        for text in HOSTILE
    ]
