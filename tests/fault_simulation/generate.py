"""A fault simulation from a seed: reservations, NodePools, workloads, changes by users, and faults.

There are three kinds. Most are short, with many faults. Those with seeds from `LONG` on last half an hour, with few faults
and many changes: nodes drift, other accounts use and release slots, the ends of capacity blocks move. So all nodes of a
reservation are replaced, and pods are moved. Those with seeds from `RESTARTS` on last ten minutes: workloads grow and
shrink next to free slots, and the controller crashes at many writes. `generate_gangs` has a fourth kind.

The rules: the same seed gives the same simulation; all faults end with it; and pod sizes either clearly fit an instance
type or clearly do not, so the oracle need not know the allocatable resources of a node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from checker.dice import Dice
from holdfast.sim.api.serving import faults as api
from holdfast.sim.ec2 import faults as ec2

LASTS_S: Final = 300
LONG: Final = 1_000_000
LONG_S: Final = 1800
RESTARTS: Final = 2_000_000
RESTARTS_S: Final = 600
ZONES: Final = {"us-west-2a": "usw2-az2", "us-west-2b": "usw2-az1"}
TYPES: Final = ("m5.large", "m5a.large", "c5.large", "m5.xlarge", "c5.2xlarge")
BLOCK_TYPE: Final = (
    "p5.4xlarge"  # EC2 offers few types in capacity blocks; only NodePools with a block launch it
)
VCPUS: Final = {
    "m5.large": 2,
    "m5a.large": 2,
    "c5.large": 2,
    "m5.xlarge": 4,
    "c5.2xlarge": 8,
    "p5.4xlarge": 16,
}
CAPACITY_TYPES: Final = (
    ("reserved",),
    ("reserved", "on-demand"),
    ("reserved", "spot", "on-demand"),
    ("spot", "on-demand"),
    ("on-demand",),
)
BUDGETS: Final = (  # of NodePools: how many nodes may be disrupted at once, and the budgets
    (100, ({"nodes": "100%"},)),
    (100, ({"nodes": "100%"},)),
    (2, ({"nodes": "2"},)),
    (1, ({"nodes": "1"},)),
    (0, ({"nodes": "0"},)),
    (0, ({"nodes": "0", "schedule": "* * * * *", "duration": "1m"}, {"nodes": "2"})),
    (
        1,
        ({"nodes": "0", "schedule": "@yearly", "duration": "1m"}, {"nodes": "1"}),
    ),  # not at this time of the year
)
PODS_MILLIS: Final = (400, 1400, 2900, 5900, 90_000)  # the last fits nothing


@dataclass(frozen=True, slots=True)
class Slots:
    """A reservation."""

    name: str
    instance_type: str
    zone: str
    total: int
    elsewhere: int
    starts_s: int
    open: bool
    ends_s: int | None = None  # start of the drain of a capacity block, end of any other reservation
    block: bool = False
    interruptible: bool = False  # its owner may reclaim it


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    instance_types: tuple[str, ...]
    capacity_types: tuple[str, ...]
    slots: tuple[str, ...]  # reservations that its class selects
    weight: int
    vcpu_limit: int | None
    tainted: bool
    away_max: int = 100
    budgets: tuple[dict[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class App:
    name: str
    replicas: int
    cpu_millis: int
    selector: tuple[tuple[str, str], ...]
    tolerates: bool
    away_max: int | None = None  # maxUnavailable of its PodDisruptionBudget
    disk: bool = False  # each pod has a zonal volume
    gang: str = ""  # PodGroup, JobSet or LeaderWorkerSet: its pods are a gang
    least: int = 0  # of a PodGroup: minCount
    consumes: bool = False  # its pods use the capacity of the request of the same name


@dataclass(frozen=True, slots=True)
class Request:
    """A ProvisioningRequest."""

    name: str
    count: int
    cpu_millis: int
    class_name: str
    run_time_s: int | None
    is_in_one_zone: bool
    valid_for_s: int | None
    is_used: bool  # pods use it once it is provisioned


@dataclass(frozen=True, slots=True)
class Step:
    at_s: int
    what: str
    about: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    seed: int
    slots: tuple[Slots, ...]
    pools: tuple[Pool, ...]
    apps: tuple[App, ...]
    steps: tuple[Step, ...]
    ec2_faults: tuple[ec2.Fault, ...]  # faults of EC2, in seconds since the start
    replicas: int  # of the controller
    lasts_s: int = LASTS_S
    requests: tuple[Request, ...] = ()


def schedule(seed: int) -> FaultSchedule:
    dice = Dice(seed)
    if seed >= RESTARTS:
        return _restarts(seed, dice)
    return _long(seed, dice) if seed >= LONG else _short(seed, dice)


def _short(seed: int, dice: Dice) -> FaultSchedule:
    slots = tuple(_slots(dice, number) for number in range(dice.number(0, 3)))
    pools = tuple(_pool(dice, number, slots) for number in range(dice.number(1, 3)))
    apps = tuple(_app(dice, number) for number in range(dice.number(1, 5)))
    steps = [_user_change(dice, slots, pools, apps) for _ in range(dice.number(4, 12))]
    steps += [process_fault(dice, LASTS_S) for _ in range(dice.number(1, 8))]
    return FaultSchedule(
        seed=seed,
        slots=slots,
        pools=pools,
        apps=apps,
        steps=tuple(sorted(steps, key=lambda step: step.at_s)),
        ec2_faults=tuple(ec2_fault(dice) for _ in range(dice.number(1, 5))),
        replicas=2 if dice.chance(0.15) else 1,
    )


def _long(seed: int, dice: Dice) -> FaultSchedule:
    slots = tuple(_many_slots(dice, number) for number in range(dice.number(1, 3)))
    pools = tuple(_reserved_pool(dice, number, slots) for number in range(dice.number(1, 2)))
    apps = tuple(_long_app(dice, number) for number in range(dice.number(1, 3)))
    steps = [_long_change(dice, slots, pools, apps) for _ in range(dice.number(6, 12))]
    steps += [_rare_fault(dice) for _ in range(dice.pick((0, 1, 1, 2)))]
    return FaultSchedule(
        seed=seed,
        slots=slots,
        pools=pools,
        apps=apps,
        steps=tuple(sorted(steps, key=lambda step: step.at_s)),
        ec2_faults=tuple(ec2_fault(dice) for _ in range(dice.number(0, 1))),
        replicas=dice.number(1, 2),
        lasts_s=LONG_S,
    )


def _restarts(seed: int, dice: Dice) -> FaultSchedule:
    slots = tuple(_free_slots(dice, number) for number in range(dice.number(1, 2)))
    pools = (_reserved_pool(dice, 0, slots),)
    apps = tuple(_long_app(dice, number) for number in range(dice.number(1, 3)))
    steps = [_growth(dice, slots, pools, apps) for _ in range(dice.number(8, 20))]
    steps += [_crash(dice, dice.number(5, RESTARTS_S)) for _ in range(dice.number(3, 12))]
    return FaultSchedule(
        seed=seed,
        slots=slots,
        pools=pools,
        apps=apps,
        steps=tuple(sorted(steps, key=lambda step: step.at_s)),
        ec2_faults=(),
        replicas=dice.number(1, 2),
        lasts_s=RESTARTS_S,
    )


def _free_slots(dice: Dice, number: int) -> Slots:
    return Slots(
        name=f"slots-{number}",
        instance_type=dice.pick(TYPES),
        zone=dice.pick(tuple(ZONES)),
        total=dice.number(4, 8),
        elsewhere=dice.pick((0, 0, 1)),
        starts_s=0,
        open=False,
    )


def _growth(dice: Dice, slots: tuple[Slots, ...], pools: tuple[Pool, ...], apps: tuple[App, ...]) -> Step:
    at_s = dice.number(5, RESTARTS_S)
    what = dice.pick(("scale", "scale", "scale", "scale", "scale", "delete claim", "drift", "give"))
    match what:
        case "scale":
            return Step(at_s, what, (dice.pick(apps).name, dice.number(0, 8)))
        case "drift":
            return Step(at_s, what, (dice.pick(pools).name, f"since-{at_s}"))
        case "give":
            return Step(at_s, what, (dice.pick(slots).name, 1))
        case _:
            return Step(at_s, what, (dice.number(0, 99),))


def _crash(dice: Dice, at_s: int) -> Step:
    return Step(at_s, "crash", (dice.number(0, 25), dice.chance(0.5), dice.pick((0, 1, 20))))


def _many_slots(dice: Dice, number: int) -> Slots:
    kind = dice.pick(("default", "default", "default", "block", "interruptible"))
    total = dice.number(2, 5)
    instance_type = dice.pick(TYPES)
    return Slots(
        name=f"slots-{number}",
        instance_type=BLOCK_TYPE if kind == "block" else instance_type,
        zone=dice.pick(tuple(ZONES)),
        total=total,
        elsewhere=dice.pick((0, 0, 1, total)) if kind != "interruptible" else 0,
        starts_s=0,
        open=False,
        ends_s=dice.number(600, 3 * LONG_S) if kind == "block" else None,
        block=kind == "block",
        interruptible=kind == "interruptible",
    )


def _reserved_pool(dice: Dice, number: int, slots: tuple[Slots, ...]) -> Pool:
    away_max, budgets = dice.pick(BUDGETS)
    capacity_types, selected = dice.pick(CAPACITY_TYPES[:3]), dice.some(slots)
    return Pool(
        name=f"pool-{number}",
        instance_types=(*TYPES, *_block_types(selected)),
        capacity_types=capacity_types,
        slots=tuple(one.name for one in selected),
        weight=dice.pick((0, 10)),
        vcpu_limit=None,
        tainted=False,
        away_max=away_max,
        budgets=budgets,
    )


def _long_app(dice: Dice, number: int) -> App:
    return App(
        name=f"app-{number}",
        replicas=dice.number(1, 6),
        cpu_millis=dice.pick(PODS_MILLIS[:3]),
        selector=(),
        tolerates=False,
        away_max=dice.pick((None, None, 1, 2)),
        disk=dice.chance(0.1),
    )


def _long_change(
    dice: Dice, slots: tuple[Slots, ...], pools: tuple[Pool, ...], apps: tuple[App, ...]
) -> Step:
    at_s = dice.number(60, LONG_S)
    what = dice.pick(
        ("drift", "drift", "give", "take", "grow", "scale", "scale", "extend", "reclaim", "cancel")
    )
    match what:
        case "scale":
            return Step(at_s, what, (dice.pick(apps).name, dice.number(0, 8)))
        case "drift":
            return Step(at_s, what, (dice.pick(pools).name, f"since-{at_s}"))
        case "extend":
            return Step(at_s, what, (dice.pick(slots).name, dice.number(-900, 3600)))
        case "cancel":
            return Step(at_s, what, (dice.pick(slots).name,))
        case _:
            return Step(at_s, what, (dice.pick(slots).name, dice.number(1, 2)))


def _rare_fault(dice: Dice) -> Step:
    """A fault of a long simulation, at any time."""
    at_s = dice.number(60, LONG_S)
    what = dice.pick(("crash", "crash", "cut", "down", "clock", "answer", "answer"))
    match what:
        case "crash":
            return _crash(dice, at_s)
        case "down":
            return Step(at_s, what, (dice.number(1, 200),))
        case "clock":
            return Step(at_s, what, (dice.number(-120, 120),))
        case "answer":
            fault = api.Refuse(dice.pick(("InternalError", "Timeout")), after_effect=True)
            return Step(at_s, "request", ("write", fault, dice.number(1, 6)))
        case _:
            return Step(at_s, what)


def _slots(dice: Dice, number: int) -> Slots:
    total = dice.number(1, 3)
    block = dice.chance(0.1)
    instance_type = dice.pick(TYPES)
    made = Slots(
        name=f"slots-{number}",
        instance_type=BLOCK_TYPE if block else instance_type,
        zone=dice.pick(tuple(ZONES)),
        total=total,
        elsewhere=dice.number(0, total),
        starts_s=dice.pick((0, 0, 0, dice.number(30, LASTS_S))),
        open=dice.chance(0.2) and not block,
        block=block,
    )
    lasts_s = dice.number(60, LASTS_S) if block or dice.chance(0.2) else None
    return replace(made, ends_s=made.starts_s + lasts_s) if lasts_s is not None else made


def _pool(dice: Dice, number: int, slots: tuple[Slots, ...]) -> Pool:
    selected = dice.some(slots, 0) if slots else []
    wanted = dice.pick(CAPACITY_TYPES)
    away_max, budgets = dice.pick(BUDGETS)
    selected = selected if "reserved" in wanted else []
    return Pool(
        name=f"pool-{number}",
        instance_types=(*dice.some(TYPES), *_block_types(selected)),
        capacity_types=wanted,
        slots=tuple(one.name for one in selected),
        weight=dice.pick((0, 0, 10, 50)),
        vcpu_limit=dice.pick((None, None, None, 2, 8, 16)),
        tainted=dice.chance(0.2),
        away_max=away_max,
        budgets=budgets,
    )


def _block_types(selected: Sequence[Slots]) -> tuple[str, ...]:
    return (BLOCK_TYPE,) if any(one.block for one in selected) else ()


def _app(dice: Dice, number: int) -> App:
    selector: dict[str, str] = {}
    if dice.chance(0.2):
        selector["topology.kubernetes.io/zone"] = dice.pick(tuple(ZONES))
    if dice.chance(0.15):
        selector["karpenter.sh/capacity-type"] = dice.pick(("reserved", "spot", "on-demand"))
    return App(
        name=f"app-{number}",
        replicas=dice.number(0, 4),
        cpu_millis=dice.pick((*PODS_MILLIS[:3], *PODS_MILLIS[:2], *PODS_MILLIS)),
        selector=tuple(selector.items()),
        tolerates=dice.chance(0.3),
        away_max=dice.pick((None, None, 0, 1, 1, 2)),
        disk=dice.chance(0.2),
    )


def _user_change(
    dice: Dice, slots: tuple[Slots, ...], pools: tuple[Pool, ...], apps: tuple[App, ...]
) -> Step:
    """A change by a user, by EC2 or by another account."""
    at_s = dice.number(5, LASTS_S)
    kinds = ["scale", "scale", "scale", "delete pod", "delete claim", "delete node", "kill instance", "drift"]
    what = dice.pick([*kinds, "take", "give", "grow", "cancel"] if slots else kinds)
    match what:
        case "scale":
            return Step(at_s, what, (dice.pick(apps).name, dice.number(0, 6)))
        case "take" | "give" | "grow":
            return Step(at_s, what, (dice.pick(slots).name, dice.number(1, 2)))
        case "cancel":
            return Step(at_s, what, (dice.pick(slots).name,))
        case "drift":
            return Step(at_s, what, (dice.pick(pools).name, f"since-{at_s}"))
        case _:
            return Step(at_s, what, (dice.number(0, 99),))


def process_fault(dice: Dice, lasts_s: int) -> Step:
    """A fault of the controller process or of its connection to the API server."""
    at_s = dice.number(5, lasts_s)
    what = dice.pick(("crash", "crash", "cut", "down", "request", "request", "request"))
    match what:
        case "crash":
            return _crash(dice, at_s)
        case "down":
            return Step(at_s, what, (dice.number(1, 40),))
        case "request":
            return Step(at_s, what, _bad_request(dice))
        case _:
            return Step(at_s, what)


def _bad_request(dice: Dice) -> tuple[Any, ...]:
    which = dice.pick(("write", "write", "write", "status", "list", "watch"))
    fault = dice.pick(
        (
            api.Refuse("InternalError"),
            api.Refuse("Conflict"),
            api.Refuse("TooManyRequests", 2),
            api.Refuse("Timeout"),
            api.Lose(),
            api.Lose(after_effect=True),
            api.Delay(dice.number(1, 20)),
        )
    )
    if which == "watch":
        fault = dice.pick((api.Cut(2), api.Half(300), api.Refuse("Expired"), api.Refuse("InternalError")))
    if which == "list":
        fault = dice.pick((fault, api.Stale(dice.number(1, 20)), api.Half(500)))
    return which, fault, dice.number(1, 6)


def ec2_fault(dice: Dice) -> ec2.Fault:
    """A fault of EC2 with a start and an end."""
    from_s = dice.number(0, LASTS_S - 60)
    about: dict[str, Any] = {"from_s": from_s, "until_s": min(LASTS_S, from_s + dice.number(10, 200))}
    operation = dice.pick(
        ("CreateFleet", "CreateFleet", "TerminateInstances", "DescribeInstances", "CreateTags",
         "DescribeCapacityReservations", "CreateLaunchTemplate", "DescribeSubnets", "")
    )  # fmt: skip
    called = about | {"operation": operation, "chance": dice.pick((0.3, 0.7, 1.0))}
    return dice.pick(
        (
            ec2.Lost(**called | {"times": dice.number(1, 4)}),
            ec2.Throttled(**called),
            ec2.Broken(**called),
            ec2.Denied(**called),
            ec2.Stale(**called | {"operation": ""}, lag_s=dice.number(5, 60)),
            ec2.NoCapacity(**about, instance_type=dice.pick(("", *TYPES)), market=dice.pick(("", "spot"))),
            ec2.NoCapacity(**about, market="reserved"),
            ec2.Partial(**about, at_most=dice.number(0, 2)),
            ec2.NeverBoots(**about, times=dice.number(1, 2)),
            ec2.Silent(**about, times=dice.number(1, 2)),
            ec2.Dies(**about, after_s=dice.number(1, 120), times=dice.number(1, 3)),
        )
    )
