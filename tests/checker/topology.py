"""Domains and how many pods are in them: what the topology rules and admission both count with."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from checker import labels, machines
from checker.case import Case, Located, Place
from checker.labels import Term, Value
from checker.shapes import Neighbours, Shape, Spread
from holdfast import names
from holdfast.api import aws

Neighbourhood: TypeAlias = dict[Neighbours, Counter[str]]  # pods that a term speaks of, by domain


def universe(case: Case, spread: Spread, shape: Shape, *, deleted: bool = False) -> set[str]:
    """Every domain that could have a pod: of all that a NodePool which serves the pod can launch, whatever is available
    (S-75), and of the nodes that the constraint looks at. With `deleted`, also of nodes that are being deleted: a planner may
    count on them or not."""
    found: set[Value] = set()
    for pool in case.world.pools.values():
        if labels.untolerated(shape.tolerations, pool.taints):
            continue
        for machine in case.pool_machines[pool.name]:
            terms = shape.terms if spread.honors_affinity else [()]
            kept = (machines.narrow(machine, term) for term in terms)
            found |= {value for one in kept if one is not None for value in one.values(spread.key)}
    for place in case.nodes():
        stays = place.node is not None and not place.node.deleting
        if (stays or deleted) and counts_in(spread, shape, place):
            found |= place.domains(spread.key)
    return {value for value in found if value is not None}


def counts_in(spread: Spread, shape: Shape, place: Place) -> bool:
    """Whether the constraint of such a pod looks at this place (nodeAffinityPolicy, nodeTaintsPolicy)."""
    if spread.honors_taints and labels.untolerated(shape.tolerations, place.taints):
        return False
    if not spread.honors_affinity:
        return True
    return place.chosen is not None and any(machines.possibly(place.chosen, term) for term in shape.terms)


def always_counts(case: Case, spread: Spread, shape: Shape, place: Place) -> bool:
    """Whether the constraint looks at this place whatever machine it becomes. What the planner pins at the
    very end does not help: until then a claim may still become another type, or move into a slot."""
    if place.pool is None or place.node is not None or not spread.honors_affinity:
        return counts_in(spread, shape, place)
    late = (names.INSTANCE_TYPE, names.CAPACITY_TYPE, *aws.RESERVED_CAPACITY_LABELS)
    wanted = [one for one in place.wanted if one.key not in late]
    possible = [kept for m in case.pool_machines[place.pool.name] if (kept := machines.narrow(m, wanted))]
    if place.claim.get("reservationID") is not None:
        possible = [machine for machine in possible if machine.reservation is not None]
    return counts_in(spread, shape, place) and all(
        any(machines.surely(machine, term) for term in shape.terms) for machine in possible
    )


@dataclass(slots=True)
class Tally:
    """Pods that a spread constraint counts, by domain: all, those that count in any case, those there before,
    and those planned."""

    everyone: Counter[str] = field(default_factory=Counter)
    surely: Counter[str] = field(default_factory=Counter)  # whatever the claims of the plan become
    before: Counter[str] = field(default_factory=Counter)
    planned: dict[str, list[Located]] = field(default_factory=dict)


def tally(case: Case, spread: Spread, shape: Shape, changed: Place | None = None) -> Tally:
    """`changed` is a claim as it would be with one more pod: its other pods are counted there."""
    found = Tally()
    looked_at: dict[str, tuple[bool, bool]] = {}
    for one in case.located():
        if one.pod.shape.namespace != shape.namespace or not case.matches(spread.selector, one.pod.shape):
            continue
        place = changed if changed and changed.name == one.place.name else one.place
        if place.name not in looked_at:
            looked_at[place.name] = counts_in(spread, shape, place), always_counts(case, spread, shape, place)
        domain = place.domain(spread.key)
        counts, always = looked_at[place.name]
        if not counts or domain is None:
            continue
        found.everyone[domain] += 1
        found.surely[domain] += always
        if one.planned:
            found.planned.setdefault(domain, []).append(one)
        else:
            found.before[domain] += 1
    return found


def least(spread: Spread, counted: Counter[str], domains: set[str], term: Term) -> int:
    """The global minimum: over the domains that the pod may be in, or over all of them where its own choice
    of nodes is to be ignored; 0 with too few of them, and always of hostnames, where another node can be
    opened (S-79)."""
    if spread.key == names.HOSTNAME:
        return 0
    own = [one for one in term if one.key == spread.key and spread.honors_affinity]
    allowed = [domain for domain in domains if all(labels.holds(one, domain) for one in own)]
    if len(allowed) < spread.min_domains:
        return 0
    return min((counted[domain] for domain in allowed), default=0)


def allows(shape: Shape, key: str, domain: Value) -> bool:
    """Whether a pod's own node terms let it be in a domain."""
    return any(all(labels.holds(one, domain) for one in term if one.key == key) for term in shape.terms)


def settled(place: Place, key: str) -> Value:
    """The one domain that a place will surely be in; None while it could be in several."""
    domains = place.domains(key)
    return next(iter(domains)) if len(domains) == 1 else None


def neighbour_domains(case: Case, wanted: Neighbours, found: Iterable[Located]) -> Counter[str]:
    """Pods that an affinity term speaks of, by the domain they will surely be in."""
    counted: Counter[str] = Counter()
    for one in found:
        domain = settled(one.place, wanted.key)
        if domain is not None and case.is_neighbour(wanted, one.pod.shape):
            counted[domain] += 1
    return counted


def begins(case: Case, shape: Shape, place: Place, wanted: Neighbours, found: Counter[str]) -> bool:
    """Whether a pod may be the first of its kind: it is its own neighbour, and it may be in none of the
    domains where there is one already (S-81)."""
    elsewhere = any(allows(shape, wanted.key, domain) for domain, count in found.items() if count)
    return not elsewhere and case.is_neighbour(wanted, shape) and place.domain(wanted.key) is not None
