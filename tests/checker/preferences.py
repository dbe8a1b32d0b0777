"""What a pod asks for while it keeps preferences, step by step, and how many of them its node satisfies.

A *rung* is what is asked after so many preferences were given up (S-28, S-29): at first the heaviest preferred node term,
all preferred pod terms, all ScheduleAnyway constraints, and no taint that is PreferNoSchedule. Then preferred pod affinity
is given up, preferred anti-affinity, node terms, ScheduleAnyway constraints, and at last such taints are tolerated. Unlike
Karpenter, every alternative of required node affinity is tried on each rung (docs/planner.md).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from checker import labels, machines, topology
from checker.case import Case, Located, Place
from checker.labels import Term
from checker.machines import Machine
from checker.shapes import Neighbours, Shape, Spread
from checker.workloads import Pod


@dataclass(frozen=True, slots=True)
class Rung:
    shape: Shape  # with those preferences as requirements that are about other pods
    extra: Term = ()  # the preferred node term, if one is kept: it is asked of the node alone
    avoids_taints: bool = False  # whether PreferNoSchedule taints keep the pod away
    near: tuple[Neighbours, ...] = ()  # preferred affinity and anti-affinity that are kept
    far: tuple[Neighbours, ...] = ()
    spreads: tuple[Spread, ...] = ()  # ScheduleAnyway constraints that are kept


def rungs(case: Case, shape: Shape) -> list[Rung]:
    """From all preferences to none. The last rung is what is required."""
    if shape not in case.rungs_of:
        case.rungs_of[shape] = list(_rungs(case, shape))
    return case.rungs_of[shape]


def required(case: Case, shape: Shape) -> Rung:
    return rungs(case, shape)[-1]


def _rungs(case: Case, shape: Shape) -> Iterator[Rung]:
    respected = case.world.settings.get("preferencePolicy", "Respect") == "Respect"
    near, far = list(shape.preferred_affinity), list(shape.preferred_anti_affinity)
    nodes, spreads = list(shape.preferred_terms), list(shape.preferred_spreads)
    if respected:
        for kept in (near, far, nodes, spreads):
            while kept:
                yield _rung(shape, near, far, nodes, spreads)
                kept.pop(0)
    yield Rung(shape, (), avoids_taints=True)
    if _relaxes_taints(case):
        yield Rung(shape)


def level(case: Case, pod: Pod, place: Place) -> int:
    """The first rung that the pod's node satisfies, now that every pod is placed. Where the order of placing decides, the
    preference counts as satisfied: a ScheduleAnyway constraint on a label that the node has, affinity to pods like itself,
    of which one is the first, affinity to pods of another kind that are pending too, and anti-affinity to those, which may
    have come later. Pods that run were there first. Of two pods of one kind, one came later and gave up its anti-affinity to
    the other."""
    return _level(case, pod, place, place.machines)


def _level(case: Case, pod: Pod, place: Place, possible: list[Machine]) -> int:
    found = rungs(case, pod.shape)
    kept = (i for i, rung in enumerate(found) if _satisfies(case, rung, pod, place, possible))
    return next(kept, len(found) - 1)


def _satisfies(case: Case, rung: Rung, pod: Pod, place: Place, possible: list[Machine]) -> bool:
    if labels.untolerated(pod.shape.tolerations, place.taints, preferences=rung.avoids_taints):
        return False
    if not all(machines.surely(machine, rung.extra) for machine in possible):
        return False
    if any(place.domains(spread.key) == labels.ABSENT for spread in rung.spreads):
        return False
    others = [one for one in case.located() if one.pod is not pod] if rung.near or rung.far else []
    return all(
        _is_among_pending(case, wanted) or _has_neighbour(case, wanted, place, others) for wanted in rung.near
    ) and not any(
        _has_neighbour(
            case, wanted, place, [one for one in others if not one.planned or one.pod.shape is pod.shape]
        )
        for wanted in rung.far
    )


def _is_among_pending(case: Case, wanted: Neighbours) -> bool:
    return any(case.is_neighbour(wanted, shape) for shape in {pod.shape for pod in case.world.pending()})


def _has_neighbour(case: Case, wanted: Neighbours, place: Place, others: list[Located]) -> bool:
    own = place.domains(wanted.key) - {None}
    return any(
        case.is_neighbour(wanted, one.pod.shape) and own & one.place.domains(wanted.key) for one in others
    )


def levels(case: Case) -> dict[Shape, list[int]]:
    """Of each kind of pod with preferences, how many have given up so many of them or fewer. Of pods in one domain that prefer
    to be apart, the first has given up none."""
    found: dict[Shape, list[int]] = {}
    for place in case.places:
        for pod in place.planned:
            rung_count = len(rungs(case, pod.shape))
            if rung_count > 1:
                counts = found.setdefault(pod.shape, [0] * rung_count)
                for index in range(_level_in_order(case, pod, place), rung_count):
                    counts[index] += 1
    for pod in case.world.pending():
        found.setdefault(pod.shape, [0] * len(rungs(case, pod.shape)))
    return found


def _level_in_order(case: Case, pod: Pod, place: Place) -> int:
    """The level if the pods of this kind had come in the order of their names. Of node terms, what the machine satisfies that
    the plan counts on."""
    later = {one.pod for one in case.located() if one.pod.shape is pod.shape and one.pod.name > pod.name}
    places = [
        replace(one, planned=[other for other in one.planned if other not in later]) for one in case.places
    ]
    machine = [place.chosen] if place.chosen else place.machines
    return _level(replace(case, places=places), pod, place, machine)


def unspread(case: Case) -> list[Shape]:
    """Kinds of pods of which some gave up a ScheduleAnyway constraint: one domain has too many of them in the end."""
    return [
        shape
        for shape in {pod.shape for pod in case.world.pending()}
        if any(_is_too_full(case, spread, shape) for spread in shape.preferred_spreads)
    ]


def _is_too_full(case: Case, spread: Spread, shape: Shape) -> bool:
    counted = topology.tally(case, spread, shape).everyone
    domains = topology.universe(case, spread, shape)
    least = max(topology.least(spread, counted, domains, term) for term in shape.terms)
    return max(counted.values(), default=0) - least > spread.max_skew


def forget_spreads(case: Case, shape: Shape) -> None:
    case.rungs_of[shape] = [replace(rung, spreads=()) for rung in rungs(case, shape)]


def forget_other_kinds(case: Case) -> None:
    """Of anti-affinity to pods of other kinds that are pending too, the order of placing decides which pod gives it up."""
    kinds = {pod.shape for pod in case.world.pending()}
    for shape in kinds:
        by_order = {
            wanted
            for wanted in shape.preferred_anti_affinity
            if any(case.is_neighbour(wanted, other) for other in kinds if other is not shape)
        }
        case.rungs_of[shape] = [
            replace(rung, far=tuple(wanted for wanted in rung.far if wanted not in by_order))
            for rung in rungs(case, shape)
        ]


def left_out(case: Case) -> list[int]:
    """How many pods are not placed, from the highest priority to the lowest."""
    names = [one["pod"] for one in case.plan["unplaced"] + case.plan["waiting"]]
    priorities = sorted({pod.shape.priority for pod in case.world.pending()}, reverse=True)
    counted = Counter(case.world.pods[name].shape.priority for name in names)
    return [counted[priority] for priority in priorities]


def _rung(
    shape: Shape, near: list[Neighbours], far: list[Neighbours], nodes: list[Term], spreads: list[Spread]
) -> Rung:
    tied = replace(
        shape,
        affinity=(*shape.affinity, *near),
        anti_affinity=(*shape.anti_affinity, *far),
        spreads=(*shape.spreads, *spreads),
    )
    tied = tied if near or far or spreads else shape
    return Rung(tied, nodes[0] if nodes else (), True, tuple(near), tuple(far), tuple(spreads))


def _relaxes_taints(case: Case) -> bool:
    """PreferNoSchedule is only ever given up when some NodePool has such a taint (S-28, S-50)."""
    pools = (pool for pool in case.world.pools.values() if pool.opens)
    return any(taint["effect"] == "PreferNoSchedule" for pool in pools for taint in pool.taints)
