"""Fault simulations with gangs and ProvisioningRequests: those with seeds from `GANGS` on.

They last ten minutes. Gangs of PodGroups, JobSets and LeaderWorkerSets and single pods compete with requests for the slots
of reservations. Requests and PodGroups are deleted and created again under the same name, templates of pods are missing,
and the usual faults happen. No budget and no PodDisruptionBudget keeps a node, so that no empty node may be left at the
end.
"""

from collections.abc import Iterator
from typing import Any, Final

from checker.dice import Dice
from fault_simulation import generate
from fault_simulation.generate import BLOCK_TYPE, TYPES, ZONES, App, FaultSchedule, Pool, Request, Slots, Step
from holdfast.sim.ec2 import faults as ec2

GANGS: Final = 3_000_000
GANGS_S: Final = 600
SOURCES: Final = ("PodGroup", "JobSet", "LeaderWorkerSet")
OWN: Final = "atomic.holdfast.dev"
ATOMIC: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK: Final = "check-capacity.autoscaling.x-k8s.io"
_SIZES: Final = generate.PODS_MILLIS[:3]
_ALL: Final = (100, ({"nodes": "100%"},))


def schedule(seed: int) -> FaultSchedule:
    dice = Dice(seed)
    slots = tuple(_slots(dice, number) for number in range(dice.number(1, 3)))
    pools = tuple(_pool(dice, number, slots) for number in range(dice.number(1, 2)))
    gangs = tuple(_gang(dice, number) for number in range(dice.number(1, 3)))
    single = tuple(_single(dice, number) for number in range(dice.number(0, 2)))
    requests = tuple(_request(dice, number) for number in range(dice.number(1, 3)))
    users = tuple(App(one.name, 0, one.cpu_millis, (), tolerates=False, consumes=True) for one in requests)
    steps = [step for request in requests for step in _life(dice, request)]
    steps += [_change(dice, slots, (*gangs, *single)) for _ in range(dice.number(4, 12))]
    steps += [generate.process_fault(dice, GANGS_S) for _ in range(dice.number(0, 5))]
    return FaultSchedule(
        seed=seed,
        slots=slots,
        pools=pools,
        apps=(*gangs, *single, *users),
        steps=tuple(sorted(steps, key=lambda step: step.at_s)),
        ec2_faults=tuple(_ec2_fault(dice) for _ in range(dice.number(0, 3))),
        replicas=2 if dice.chance(0.15) else 1,
        lasts_s=GANGS_S,
        requests=requests,
    )


def _slots(dice: Dice, number: int) -> Slots:
    is_block = dice.chance(0.3)
    instance_type = dice.pick(TYPES)
    return Slots(
        name=f"slots-{number}",
        instance_type=BLOCK_TYPE if is_block else instance_type,
        zone=dice.pick(tuple(ZONES)),
        total=dice.number(1, 6),
        elsewhere=0,
        starts_s=dice.pick((0, 0, dice.number(30, GANGS_S))),
        open=False,
        ends_s=dice.number(300, 6 * 3600) if is_block else None,
        block=is_block,
    )


def _pool(dice: Dice, number: int, slots: tuple[Slots, ...]) -> Pool:
    wanted = dice.pick((*[("reserved",)] * 4, ("reserved", "on-demand"), ("on-demand",)))
    selected = dice.some(slots) if "reserved" in wanted else []
    if any(
        one.block for one in selected
    ):  # a request that a block does not last for is not launched on demand
        wanted = ("reserved",)
    away_max, budgets = _ALL
    return Pool(
        name=f"pool-{number}",
        instance_types=(*TYPES, *((BLOCK_TYPE,) if any(one.block for one in selected) else ())),
        capacity_types=wanted,
        slots=tuple(one.name for one in selected),
        weight=dice.pick((0, 0, 10)),
        vcpu_limit=dice.pick((None, None, None, 8, 24)),
        tainted=False,
        away_max=away_max,
        budgets=budgets,
    )


def _gang(dice: Dice, number: int) -> App:
    source, size = dice.pick(SOURCES), dice.number(1, 5)
    return App(
        name=f"gang-{number}",
        replicas=size,
        cpu_millis=dice.pick((*_SIZES, *_SIZES[1:])),
        selector=(),
        tolerates=False,
        gang=source,
        least=size,
    )


def _single(dice: Dice, number: int) -> App:
    return App(f"app-{number}", dice.number(0, 4), dice.pick(_SIZES), (), tolerates=False)


def _request(dice: Dice, number: int) -> Request:
    return Request(
        name=f"request-{number}",
        count=dice.number(1, 5),
        cpu_millis=dice.pick(_SIZES),
        class_name=dice.pick((OWN, OWN, OWN, ATOMIC, CHECK)),
        run_time_s=dice.pick((None, None, 600, 7200, 86_400)),
        is_in_one_zone=dice.chance(0.3),
        valid_for_s=dice.pick((None, None, None, 120, 600)),
        is_used=dice.chance(0.7),
    )


def _life(dice: Dice, request: Request) -> Iterator[Step]:
    """A request is created before or after its template, and may be deleted, or replaced under the same name."""
    at_s = dice.number(5, GANGS_S // 2)
    template_s = dice.pick((*[at_s - 1] * 5, at_s + dice.number(1, 20), None))
    if template_s is not None:
        yield Step(template_s, "template", (request.name,))
    yield Step(at_s, "create request", (request.name,))
    match dice.pick(("stay", "stay", "end", "replace", "replace", "replace", "replace without template")):
        case "end":
            yield Step(dice.number(at_s, GANGS_S), "end request", (request.name,))
        case "replace":
            yield Step(dice.number(at_s, GANGS_S), "replace request", (request.name,))
        case "replace without template":
            replaced_s = dice.number(at_s, GANGS_S)
            yield Step(replaced_s, "drop template", (request.name,))
            yield Step(replaced_s, "replace request", (request.name,))


def _change(dice: Dice, slots: tuple[Slots, ...], apps: tuple[App, ...]) -> Step:
    at_s = dice.number(5, GANGS_S)
    what = dice.pick(
        ("scale", "scale", "scale", "replace group", "delete pod", "delete claim", "delete node", "kill instance",
         "take", "give", "grow")
    )  # fmt: skip
    match what:
        case "scale":
            return Step(at_s, what, (dice.pick(apps).name, dice.number(0, 6)))
        case "replace group":
            groups = [one for one in apps if one.gang == "PodGroup"] or apps  # no PodGroup of the name exists
            return Step(at_s, what, (dice.pick(groups).name, dice.number(0, 30)))
        case "take" | "give" | "grow":
            return Step(at_s, what, (dice.pick(slots).name, dice.number(1, 2)))
        case _:
            return Step(at_s, what, (dice.number(0, 99),))


def _ec2_fault(dice: Dice) -> ec2.Fault:
    """Half of them are about the calls that launch a gang."""
    if dice.chance(0.5):
        return generate.ec2_fault(dice)
    from_s = dice.number(0, GANGS_S - 60)
    operation = dice.pick(("RunInstances", "CreateFleet", "TerminateInstances"))
    about: dict[str, Any] = {
        "from_s": from_s,
        "until_s": from_s + dice.number(10, 60),
        "operation": operation,
    }
    return dice.pick(
        (ec2.Lost(**about, times=dice.number(1, 3)), ec2.Broken(**about), ec2.Throttled(**about))
    )
