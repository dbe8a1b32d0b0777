"""The order in which a pod's preferences are relaxed, and how many of them its node satisfies.

A *rung* is the set of constraints after some preferences were relaxed (S-28, S-29): at first the preferred node term with
the highest weight, all preferred pod terms, all ScheduleAnyway constraints, and no PreferNoSchedule taint. Then preferred
pod affinity is relaxed, preferred anti-affinity, node terms, ScheduleAnyway constraints, and at last such taints are
tolerated. Unlike Karpenter, every alternative of required node affinity is tried on each rung (docs/planner.md).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from checker import labels, node_options, topology
from checker.case import Case, Located, Target
from checker.labels import Term
from checker.node_options import NodeOption
from checker.shapes import Neighbours, Shape, Spread
from checker.workloads import Pod


@dataclass(frozen=True, slots=True)
class Rung:
    shape: Shape  # with the preferences about other pods as requirements
    extra: Term = ()  # the preferred node term, if there is one: it depends on the node alone
    avoids_taints: bool = False  # whether PreferNoSchedule taints repel the pod
    near: tuple[Neighbours, ...] = ()  # preferred affinity and anti-affinity of this rung
    far: tuple[Neighbours, ...] = ()
    spreads: tuple[Spread, ...] = ()  # ScheduleAnyway constraints of this rung


def rungs(case: Case, shape: Shape) -> list[Rung]:
    """From all preferences to none. The last rung has only the requirements."""
    if shape not in case.rungs_of:
        case.rungs_of[shape] = list(_rungs(case, shape))
    return case.rungs_of[shape]


def required(case: Case, shape: Shape) -> Rung:
    return rungs(case, shape)[-1]


def _rungs(case: Case, shape: Shape) -> Iterator[Rung]:
    respected = case.scenario.settings.get("preferencePolicy", "Respect") == "Respect"
    near, far = list(shape.preferred_affinity), list(shape.preferred_anti_affinity)
    nodes, spreads = list(shape.preferred_terms), list(shape.preferred_spreads)
    if respected:
        for remaining in (near, far, nodes, spreads):
            while remaining:
                yield _rung(shape, near, far, nodes, spreads)
                remaining.pop(0)
    yield Rung(shape, (), avoids_taints=True)
    if _relaxes_taints(case):
        yield Rung(shape)


def level(case: Case, pod: Pod, target: Target) -> int:
    """The first rung that the pod's node satisfies in the finished plan. Where the order of placing decides, the preference
    counts as satisfied: a ScheduleAnyway constraint on a label that the node has, affinity to pods of its own shape, affinity
    to pending pods of another shape, and anti-affinity to those, which may be placed later. Running pods come first. Of two
    pods of one shape, the later one gave up its anti-affinity to the other."""
    return _level(case, pod, target, target.options)


def _level(case: Case, pod: Pod, target: Target, possible: list[NodeOption]) -> int:
    found = rungs(case, pod.shape)
    remaining = (i for i, rung in enumerate(found) if _satisfies(case, rung, pod, target, possible))
    return next(remaining, len(found) - 1)


def _satisfies(case: Case, rung: Rung, pod: Pod, target: Target, possible: list[NodeOption]) -> bool:
    if labels.untolerated(pod.shape.tolerations, target.taints, preferences=rung.avoids_taints):
        return False
    if not all(node_options.surely(option, rung.extra) for option in possible):
        return False
    if any(target.domains(spread.key) == labels.ABSENT for spread in rung.spreads):
        return False
    others = [one for one in case.located() if one.pod is not pod] if rung.near or rung.far else []
    return all(
        _is_among_pending(case, wanted) or _has_neighbour(case, wanted, target, others)
        for wanted in rung.near
    ) and not any(
        _has_neighbour(
            case, wanted, target, [one for one in others if not one.planned or one.pod.shape is pod.shape]
        )
        for wanted in rung.far
    )


def _is_among_pending(case: Case, wanted: Neighbours) -> bool:
    return any(case.is_neighbour(wanted, shape) for shape in {pod.shape for pod in case.scenario.pending()})


def _has_neighbour(case: Case, wanted: Neighbours, target: Target, others: list[Located]) -> bool:
    own = target.domains(wanted.key) - {None}
    return any(
        case.is_neighbour(wanted, one.pod.shape) and own & one.target.domains(wanted.key) for one in others
    )


def levels(case: Case) -> dict[Shape, list[int]]:
    """For each shape with preferences and each rung, how many pods are on that rung or an earlier one. Of pods in one domain
    with preferred anti-affinity, the first has given up nothing."""
    found: dict[Shape, list[int]] = {}
    for target in case.targets:
        for pod in target.planned:
            rung_count = len(rungs(case, pod.shape))
            if rung_count > 1:
                counts = found.setdefault(pod.shape, [0] * rung_count)
                for index in range(_level_in_order(case, pod, target), rung_count):
                    counts[index] += 1
    for pod in case.scenario.pending():
        found.setdefault(pod.shape, [0] * len(rungs(case, pod.shape)))
    return found


def _level_in_order(case: Case, pod: Pod, target: Target) -> int:
    """The level if the pods of this shape are placed in the order of their names. Node terms are checked for the option that
    the plan expects."""
    later = {one.pod for one in case.located() if one.pod.shape is pod.shape and one.pod.name > pod.name}
    targets = [
        replace(one, planned=[other for other in one.planned if other not in later]) for one in case.targets
    ]
    option = [target.chosen] if target.chosen else target.options
    return _level(replace(case, targets=targets), pod, target, option)


def unspread(case: Case) -> list[Shape]:
    """Shapes of which some pods gave up a ScheduleAnyway constraint: one domain has too many of them in the end."""
    return [
        shape
        for shape in {pod.shape for pod in case.scenario.pending()}
        if any(_is_too_full(case, spread, shape) for spread in shape.preferred_spreads)
    ]


def _is_too_full(case: Case, spread: Spread, shape: Shape) -> bool:
    counted = topology.tally(case, spread, shape).all_pods
    domains = topology.universe(case, spread, shape)
    least = max(topology.least(spread, counted, domains, term) for term in shape.terms)
    return max(counted.values(), default=0) - least > spread.max_skew


def forget_spreads(case: Case, shape: Shape) -> None:
    case.rungs_of[shape] = [replace(rung, spreads=()) for rung in rungs(case, shape)]


def forget_other_kinds(case: Case) -> None:
    """Removes anti-affinity to pending pods of other shapes: the order of placing decides which pod gives it up."""
    kinds = {pod.shape for pod in case.scenario.pending()}
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
    priorities = sorted({pod.shape.priority for pod in case.scenario.pending()}, reverse=True)
    counted = Counter(case.scenario.pods[name].shape.priority for name in names)
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
    """PreferNoSchedule is only relaxed if some NodePool has such a taint (S-28, S-50)."""
    pools = (pool for pool in case.scenario.pools.values() if pool.opens)
    return any(taint["effect"] == "PreferNoSchedule" for pool in pools for taint in pool.taints)
