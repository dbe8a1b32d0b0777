"""Rules: spread, affinity and anti-affinity hold in the finished plan.

A planner places one pod after another, and so does kube-scheduler. A rule reports a violation only if no order of placing
leads to the plan.
"""

from collections import Counter
from collections.abc import Iterator

from checker import topology
from checker.case import Case, Located, Violation
from checker.shapes import Neighbours, Shape, Spread


def spread(case: Case) -> Iterator[Violation]:
    """spread: no domain to which the plan adds pods is more than maxSkew above the minimum."""
    done: set[tuple[Shape, Spread, str | None]] = set()
    counted: dict[tuple[Shape, Spread], tuple[topology.Tally, set[str]]] = {}
    for one in _planned(case):
        shape = one.pod.shape
        for wanted in shape.spreads:
            domain, group = one.target.domain(wanted.key), (shape, wanted)
            if (*group, domain) in done:
                continue
            done.add((*group, domain))
            if group not in counted:
                found = topology.tally(case, wanted, shape)
                counted[group] = found, topology.universe(case, wanted, shape)
            if domain is None:
                yield Violation("spread", f"{one.pod.name}: {one.target.name} has no {wanted.key}")
            elif _skew(case, one, wanted, domain, *counted[group]) > wanted.max_skew:
                yield Violation("spread", f"{one.pod.name}: too many pods where {wanted.key} is {domain}")


def _skew(
    case: Case, one: Located, wanted: Spread, domain: str, counted: topology.Tally, domains: set[str]
) -> int:
    """The smallest possible skew when the last such pod was placed: pods without the same constraint may have been placed
    after it, and the minimum was not higher then."""
    shape = one.pod.shape
    minima = [topology.least(wanted, counted.all_pods, domains, term) for term in shape.terms]
    if not case.matches(wanted.selector, shape):
        return counted.before[domain] - max(minima)
    free = [
        o for o in counted.planned.get(domain, ()) if not _has_same_constraint(shape, o.pod.shape, wanted)
    ]
    return counted.all_pods[domain] - len(free) - max(minima)


def _has_same_constraint(shape: Shape, other: Shape, wanted: Spread) -> bool:
    same_nodes = shape.terms == other.terms and shape.tolerations == other.tolerations
    return shape is other or (wanted in other.spreads and same_nodes)


def pinned(case: Case) -> Iterator[Violation]:
    """topology-pinned: a claim whose pods must be in one domain can only become a node there."""
    checked_keys: set[tuple[str, str]] = set()
    for one in _planned(case):
        for key in sorted(one.pod.shape.keys()):
            if (one.target.name, key) in checked_keys or one.target.node is not None:
                continue
            checked_keys.add((one.target.name, key))
            if len(one.target.domains(key)) > 1:
                yield Violation("topology-pinned", f"{one.target.name} may be in several {key}")


def affinity(case: Case) -> Iterator[Violation]:
    """affinity: the pods can be placed one after another so that each finds the neighbours it needs.

    Pods that find one at once may have been placed at any time, before or after the others. Of the rest, one pod must be
    the first, which is allowed only if no running pod and no pod with the same term is in a domain that it may use.
    """
    unplaced = [one for one in _planned(case) if one.pod.shape.affinity]
    groups = {wanted for one in unplaced for wanted in one.pod.shape.affinity}
    running = [one for one in case.located() if not one.planned]
    without_affinity = [one for one in _planned(case) if not one.pod.shape.affinity]
    found = {
        wanted: topology.neighbour_domains(case, wanted, running + without_affinity) for wanted in groups
    }
    before = {wanted: topology.neighbour_domains(case, wanted, running) for wanted in groups}
    unplaced = _join(case, unplaced, found)
    while first := next((one for one in unplaced if _may_be_first(case, one, found, before)), None):
        for wanted in groups:
            added = topology.neighbour_domains(case, wanted, [first])
            found[wanted] += added
            before[wanted] += added if wanted in first.pod.shape.affinity else Counter()
        unplaced = _join(case, [one for one in unplaced if one is not first], found)
    for one in unplaced:
        yield Violation("affinity", f"{one.pod.name} does not find its neighbours on {one.target.name}")


def _join(case: Case, unplaced: list[Located], found: topology.Neighbourhood) -> list[Located]:
    """Places repeatedly all pods that find their neighbours; returns those that do not."""
    while placed := [one for one in unplaced if all(_joins(one, found, w) for w in one.pod.shape.affinity)]:
        unplaced = [one for one in unplaced if one not in placed]
        for wanted in found:
            found[wanted] += topology.neighbour_domains(case, wanted, placed)
    return unplaced


def _joins(one: Located, found: topology.Neighbourhood, wanted: Neighbours) -> bool:
    domain = one.target.domain(wanted.key)
    return domain is not None and found[wanted][domain] > 0


def _may_be_first(
    case: Case, one: Located, found: topology.Neighbourhood, before: topology.Neighbourhood
) -> bool:
    """The first pod that its own term selects needs no neighbour."""
    missing = [wanted for wanted in one.pod.shape.affinity if not _joins(one, found, wanted)]
    return all(
        topology.may_be_first(case, one.pod.shape, one.target, wanted, before[wanted]) for wanted in missing
    )


def anti_affinity(case: Case) -> Iterator[Violation]:
    """anti-affinity: no pod is in a domain that the anti-affinity of another pod excludes, in any order of placing."""
    all_pods = list(case.located())
    groups = {wanted for one in all_pods for wanted in one.pod.shape.anti_affinity}
    for wanted in sorted(groups, key=repr):
        owners = _by_domain(wanted, (one for one in all_pods if wanted in one.pod.shape.anti_affinity))
        others = _by_domain(wanted, (o for o in all_pods if case.is_neighbour(wanted, o.pod.shape)))
        for domain in sorted(set(owners) & set(others)):
            yield from _conflicts(wanted, domain, owners[domain], others[domain])


def _by_domain(wanted: Neighbours, found: Iterator[Located]) -> dict[str, list[Located]]:
    """Pods by every domain that they may be in."""
    grouped: dict[str, list[Located]] = {}
    for one in found:
        for domain in one.target.domains(wanted.key):
            if domain is not None:
                grouped.setdefault(domain, []).append(one)
    return grouped


def _conflicts(
    wanted: Neighbours, domain: str, owners: list[Located], others: list[Located]
) -> Iterator[Violation]:
    for owner in owners:
        for other in others:
            if owner.pod is not other.pod and (owner.planned or other.planned):
                what = f"{owner.pod.name} and {other.pod.name} are both where {wanted.key} is {domain}"
                yield Violation("anti-affinity", what)
                return


def _planned(case: Case) -> Iterator[Located]:
    return (one for one in case.located() if one.planned)
