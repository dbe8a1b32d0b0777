"""Where one more pod fits: on a node, on a claim of the plan, or on a new node of a NodePool.

It is pessimistic on purpose: DaemonSets, limits and PreferNoSchedule are counted as Karpenter's most careful code does, so
a planner should find every target that is found here. Used by the search for targets that a plan overlooked, and by the
naive planner.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from checker import (
    admission,
    daemons,
    labels,
    node_options,
    quantities,
    rules_claims,
    rules_limits,
    rules_pods,
)
from checker.case import Case, Target
from checker.labels import Expression, Taint, Term
from checker.node_options import NodeOption
from checker.preferences import Rung
from checker.quantities import Resources
from checker.scenario import Pool
from checker.shapes import Shape
from holdfast import names


@dataclass(frozen=True, slots=True)
class Way:
    """One alternative of a pod's node affinity, with one alternative of each of its volumes."""

    term: Term
    volumes: (
        Term  # and what else depends on the node alone: the preferred node term, the reservations that last
    )

    @property
    def wanted(self) -> Term:
        return self.term + self.volumes


def ways(case: Case, rung: Rung) -> Iterator[Way]:
    shape = rung.shape
    if shape.invalid:
        return
    found = [case.scenario.storage.volumes.get(f"{shape.namespace}/{claim}") for claim in shape.volumes]
    if None in found:
        return
    alternatives = [volume.terms or ((),) for volume in found if volume is not None]
    for term, *chosen in product(shape.terms, *alternatives):
        yield Way(term, tuple(one for part in chosen for one in part) + rung.extra + shape.lasting)


def on_node(case: Case, rung: Rung, target: Target) -> bool:
    assert target.node is not None
    option, shape = target.options[0], rung.shape
    if target.node.deleting or is_repelled(rung, target.taints):
        return False
    coming = daemons.missing(case, target, all_terms=True)
    wanted = [pod.shape.requests for pod in target.pods] + [daemons.requests(coming), shape.requests]
    if not node_options.fits(option, *wanted) or _clashes(shape, [pod.shape for pod in target.pods]):
        return False
    return rules_pods.attaches(case, [*(pod.shape for pod in target.pods), shape], option) and any(
        node_options.surely(option, way.wanted) and admission.admits(case, shape, target)
        for way in ways(case, rung)
    )


def is_repelled(rung: Rung, taints: Iterable[Taint]) -> bool:
    return bool(labels.untolerated(rung.shape.tolerations, taints, preferences=rung.avoids_taints))


def on_claim(case: Case, rung: Rung, target: Target) -> Iterator[Target]:
    """The claim, narrowed to the options that also fit the pod; its slot does not change."""
    pool, slot, shape = target.pool, target.claim.get("reservationID"), rung.shape
    assert pool is not None
    if is_repelled(rung, target.taints):
        return
    others = [pod.shape for pod in target.planned]
    if _clashes(shape, others):
        return
    for way in ways(case, rung):
        suited = list(fitting(case, pool, target.options, way, [*others, shape]))
        for pins, remaining_options in _settled(case, shape, suited):
            wanted = target.wanted + way.wanted + pins
            narrowed = replace(
                target, options=remaining_options, chosen=cheapest(remaining_options, slot), wanted=wanted
            )
            enough = _enough(case, pool, remaining_options, wanted)
            if narrowed.chosen and enough and admission.admits(case, shape, narrowed):
                yield narrowed


def fresh(
    case: Case, rung: Rung, pool: Pool, remaining_limits: Resources | None, *, reserved: bool
) -> Iterator[Target]:
    """New nodes of a NodePool, in a free slot or not reserved. `remaining_limits` are None without limits."""
    shape = rung.shape
    if is_repelled(rung, pool.taints):
        return
    left = case.slots_left()
    usable = [
        option
        for option in node_options.launchable(case.pool_options[pool.name])
        if (left[option.reservation.id] > 0 if option.reservation else True)
        and (option.reservation is not None) == reserved
        and (remaining_limits is None or _within(option.capacity, remaining_limits))
    ]
    for way in ways(case, rung):
        for pins, remaining_options in _settled(case, shape, list(fitting(case, pool, usable, way, [shape]))):
            name, wanted = f"new claim {len(case.targets)}", way.wanted + pins
            target = Target(
                name, pool.taints, remaining_options, cheapest(remaining_options), pool=pool, wanted=wanted
            )
            if _enough(case, pool, remaining_options, wanted) and admission.admits(case, shape, target):
                yield target


def remaining_limits(case: Case, pool: Pool, *, pessimistic: bool) -> Resources | None:
    """What the limits still allow; None without limits. A planner may count each claim as the largest instance type of the
    NodePool, even if the claim lists only small types in the end."""
    if not pool.limits:
        return None
    added = []
    for target in case.claims():
        if target.pool is pool:
            listed = case.pool_options[pool.name] if pessimistic else target.options
            added.append(quantities.largest(option.capacity for option in listed))
    spent = quantities.total([rules_limits.used(case, pool), *added, {"nodes": len(added) * quantities.ONE}])
    return {name: limit - spent.get(name, 0) for name, limit in pool.limits.items()}


def cheapest(found: list[NodeOption], slot: str | None = None) -> NodeOption | None:
    """With a slot, only options in that reservation."""
    wanted = [m for m in found if slot is None or (m.reservation and m.reservation.id == slot)]
    return min(wanted, key=_order, default=None)


def _order(option: NodeOption) -> tuple[bool, Fraction, str, str]:
    offering = option.offering
    assert offering is not None
    unknown = offering.price is None and offering.reservation is None
    slot = offering.reservation.id if offering.reservation else offering.capacity_type
    return unknown, offering.price or Fraction(0), option.instance_type, f"{offering.zone} {slot}"


def _within(capacity: Resources, left: Resources) -> bool:
    return all(capacity.get(name, 0) <= amount for name, amount in left.items()) and left.get("nodes", 1) > 0


def fitting(
    case: Case, pool: Pool, found: list[NodeOption], way: Way, shapes: list[Shape]
) -> Iterator[NodeOption]:
    wanted = quantities.total(shape.requests for shape in shapes)
    suits: dict[tuple[str, str], bool] = {}
    for option in found:
        assert option.offering is not None, "it can be launched"
        key = name, own = option.instance_type, option.offering.capacity_type
        if key not in suits:
            coming = daemons.most(case, pool, name, frozenset({own}))
            # A planner may decide by instance type, for on-demand and spot together, which ports DaemonSets use.
            alike = frozenset({own}) if own == names.RESERVED else frozenset({names.ON_DEMAND, names.SPOT})
            clash = any(_clashes(shape, daemons.most(case, pool, name, alike)) for shape in shapes)
            fits = not clash and node_options.fits(option, wanted, daemons.requests(coming))
            suits[key] = fits and rules_pods.attaches(case, shapes, option)
        if suits[key] and (narrowed := node_options.narrow(option, way.wanted)):
            yield narrowed


def _settled(case: Case, shape: Shape, found: list[NodeOption]) -> Iterator[tuple[Term, list[NodeOption]]]:
    """The options of each combination of topology domains that matters to the pod."""
    known = sorted(keys(case, shape))
    values = [sorted({v for m in found for v in m.values(key) if v is not None}) for key in known]
    for chosen in product(*values):
        pins = tuple(Expression(key, "In", (value,)) for key, value in zip(known, chosen, strict=True))
        remaining_options = [narrowed for option in found if (narrowed := node_options.narrow(option, pins))]
        if remaining_options:
            yield pins, remaining_options


def keys(case: Case, shape: Shape) -> set[str]:
    """The labels, besides the hostname, whose value decides whether the pod may be on a node."""
    if shape not in case.keys_of:
        own = shape.keys() | {wanted.key for wanted in shape.anti_affinity}
        for other in case.scenario.shapes():
            own |= {wanted.key for wanted in other.anti_affinity if case.is_neighbour(wanted, shape)}
        case.keys_of[shape] = own - {names.HOSTNAME}
    return case.keys_of[shape]


def _enough(case: Case, pool: Pool, remaining_options: list[NodeOption], wanted: Term) -> bool:
    """Whether minValues hold, counted from the values that the remaining options have."""
    types = sorted({option.instance_type for option in remaining_options})
    for one in pool.requirements:
        values = {value for option in remaining_options for value in option.values(one.key)}
        counted = min(len(values), rules_claims.distinct(case, one.key, types, wanted))
        if one.min_values is not None and counted < one.min_values:
            return False
    return True


def _clashes(shape: Shape, others: list[Shape]) -> bool:
    return any(
        rules_pods.clash(one, other) for one in shape.ports for found in others for other in found.ports
    )
