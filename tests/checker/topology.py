"""Topology domains and the number of pods in them, for the topology rules and for admission."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from checker import labels, node_options
from checker.case import Case, Located, Target
from checker.labels import Term, Value
from checker.shapes import Neighbours, Shape, Spread
from holdfast import names
from holdfast.api import aws

Neighbourhood: TypeAlias = dict[Neighbours, Counter[str]]  # pods that a term selects, by domain


def universe(case: Case, spread: Spread, shape: Shape, *, deleted: bool = False) -> set[str]:
    """Every possible domain: of all options of NodePools that the pod tolerates, available or not (S-75), and of the nodes
    that the constraint counts. With `deleted`, also of nodes that are being deleted: a planner may count them or not."""
    found: set[Value] = set()
    for pool in case.scenario.pools.values():
        if labels.untolerated(shape.tolerations, pool.taints):
            continue
        for option in case.pool_options[pool.name]:
            terms = shape.terms if spread.honors_affinity else [()]
            narrowed_options = (node_options.narrow(option, term) for term in terms)
            found |= {
                value for one in narrowed_options if one is not None for value in one.values(spread.key)
            }
    for target in case.nodes():
        not_deleting = target.node is not None and not target.node.deleting
        if (not_deleting or deleted) and counts_in(spread, shape, target):
            found |= target.domains(spread.key)
    return {value for value in found if value is not None}


def counts_in(spread: Spread, shape: Shape, target: Target) -> bool:
    """Whether the constraint of such a pod counts this target (nodeAffinityPolicy, nodeTaintsPolicy)."""
    if spread.honors_taints and labels.untolerated(shape.tolerations, target.taints):
        return False
    if not spread.honors_affinity:
        return True
    return target.chosen is not None and any(
        node_options.possibly(target.chosen, term) for term in shape.terms
    )


def always_counts(case: Case, spread: Spread, shape: Shape, target: Target) -> bool:
    """Whether the constraint counts this target for every option. Requirements that the planner adds at the very end do not
    count: until then a claim may still become another instance type, or use a slot."""
    if target.pool is None or target.node is not None or not spread.honors_affinity:
        return counts_in(spread, shape, target)
    set_last = (names.INSTANCE_TYPE, names.CAPACITY_TYPE, *aws.RESERVED_CAPACITY_LABELS)
    wanted = [one for one in target.wanted if one.key not in set_last]
    possible = [
        narrowed_options
        for m in case.pool_options[target.pool.name]
        if (narrowed_options := node_options.narrow(m, wanted))
    ]
    if target.claim.get("reservationID") is not None:
        possible = [option for option in possible if option.reservation is not None]
    return counts_in(spread, shape, target) and all(
        any(node_options.surely(option, term) for term in shape.terms) for option in possible
    )


@dataclass(slots=True)
class Tally:
    """Pods that a spread constraint counts, by domain: all, those that count for every option, running ones, and planned
    ones."""

    all_pods: Counter[str] = field(default_factory=Counter)
    surely: Counter[str] = field(default_factory=Counter)  # for every option of the claims
    before: Counter[str] = field(default_factory=Counter)
    planned: dict[str, list[Located]] = field(default_factory=dict)


def tally(case: Case, spread: Spread, shape: Shape, changed: Target | None = None) -> Tally:
    """`changed` is a claim with one more pod; its other pods are counted there."""
    found = Tally()
    counts_by_name: dict[str, tuple[bool, bool]] = {}
    for one in case.located():
        if one.pod.shape.namespace != shape.namespace or not case.matches(spread.selector, one.pod.shape):
            continue
        target = changed if changed and changed.name == one.target.name else one.target
        if target.name not in counts_by_name:
            counts_by_name[target.name] = (
                counts_in(spread, shape, target),
                always_counts(case, spread, shape, target),
            )
        domain = target.domain(spread.key)
        counts, always = counts_by_name[target.name]
        if not counts or domain is None:
            continue
        found.all_pods[domain] += 1
        found.surely[domain] += always
        if one.planned:
            found.planned.setdefault(domain, []).append(one)
        else:
            found.before[domain] += 1
    return found


def least(spread: Spread, counted: Counter[str], domains: set[str], term: Term) -> int:
    """The global minimum: over the domains that the pod may use, or over all of them if nodeAffinityPolicy is Ignore; 0 with
    fewer domains than minDomains, and always 0 for hostnames, since a new node can be launched (S-79)."""
    if spread.key == names.HOSTNAME:
        return 0
    own = [one for one in term if one.key == spread.key and spread.honors_affinity]
    allowed = [domain for domain in domains if all(labels.holds(one, domain) for one in own)]
    if len(allowed) < spread.min_domains:
        return 0
    return min((counted[domain] for domain in allowed), default=0)


def settled(target: Target, key: str) -> Value:
    """The domain of a target; None while it could be in several."""
    domains = target.domains(key)
    return next(iter(domains)) if len(domains) == 1 else None


def neighbour_domains(case: Case, wanted: Neighbours, found: Iterable[Located]) -> Counter[str]:
    """Pods that an affinity term selects, by domain, if their domain is certain."""
    counted: Counter[str] = Counter()
    for one in found:
        domain = settled(one.target, wanted.key)
        if domain is not None and case.is_neighbour(wanted, one.pod.shape):
            counted[domain] += 1
    return counted


def may_be_first(case: Case, shape: Shape, target: Target, wanted: Neighbours, found: Counter[str]) -> bool:
    """Whether a pod may be the first one of an affinity term, as in kube-scheduler: the term selects the pod itself, and no
    domain has a selected pod."""
    return (
        not any(found.values()) and case.is_neighbour(wanted, shape) and target.domain(wanted.key) is not None
    )
