"""Rules: spread, affinity and anti-affinity hold once every pod is where the plan puts it.

A planner places one pod after another, and so does kube-scheduler. A rule complains only when no order of
placing could have led to the plan.
"""

from collections import Counter
from collections.abc import Iterator

from checker import topology
from checker.case import Case, Located, Violation
from checker.shapes import Neighbours, Shape, Spread


def spread(case: Case) -> Iterator[Violation]:
    """spread: no domain that the plan adds to is more than maxSkew above the emptiest."""
    done: set[tuple[Shape, Spread, str | None]] = set()
    counted: dict[tuple[Shape, Spread], tuple[topology.Tally, set[str]]] = {}
    for one in _planned(case):
        shape = one.pod.shape
        for wanted in shape.spreads:
            domain, group = one.place.domain(wanted.key), (shape, wanted)
            if (*group, domain) in done:
                continue
            done.add((*group, domain))
            if group not in counted:
                found = topology.tally(case, wanted, shape)
                counted[group] = found, topology.universe(case, wanted, shape)
            if domain is None:
                yield Violation("spread", f"{one.pod.name}: {one.place.name} has no {wanted.key}")
            elif _skew(case, one, wanted, domain, *counted[group]) > wanted.max_skew:
                yield Violation("spread", f"{one.pod.name}: too many pods where {wanted.key} is {domain}")


def _skew(
    case: Case, one: Located, wanted: Spread, domain: str, counted: topology.Tally, domains: set[str]
) -> int:
    """The smallest skew that the last such pod can have met: pods that nothing held back may have come
    after it, and the emptiest domain was no fuller then."""
    shape = one.pod.shape
    minima = [topology.least(wanted, counted.everyone, domains, term) for term in shape.terms]
    if not case.matches(wanted.selector, shape):
        return counted.before[domain] - max(minima)
    free = [o for o in counted.planned.get(domain, ()) if not _held_back_alike(shape, o.pod.shape, wanted)]
    return counted.everyone[domain] - len(free) - max(minima)


def _held_back_alike(shape: Shape, other: Shape, wanted: Spread) -> bool:
    same_nodes = shape.terms == other.terms and shape.tolerations == other.tolerations
    return shape is other or (wanted in other.spreads and same_nodes)


def pinned(case: Case) -> Iterator[Violation]:
    """topology-pinned: a claim whose pods must be in one domain can only become a node there."""
    seen: set[tuple[str, str]] = set()
    for one in _planned(case):
        for key in sorted(one.pod.shape.keys()):
            if (one.place.name, key) in seen or one.place.node is not None:
                continue
            seen.add((one.place.name, key))
            if len(one.place.domains(key)) > 1:
                yield Violation("topology-pinned", f"{one.place.name} may be in several {key}")


def affinity(case: Case) -> Iterator[Violation]:
    """affinity: the pods can be placed one after another so that each finds the neighbours it needs.

    Those that find one without anybody going first may have come at any time, before or after the others.
    Of the rest, somebody must go first, and it may only if no pod that runs, and no pod with the same need,
    is where it could have gone instead.
    """
    coming = [one for one in _planned(case) if one.pod.shape.affinity]
    groups = {wanted for one in coming for wanted in one.pod.shape.affinity}
    running = [one for one in case.located() if not one.planned]
    easy = [one for one in _planned(case) if not one.pod.shape.affinity]
    found = {wanted: topology.neighbour_domains(case, wanted, running + easy) for wanted in groups}
    before = {wanted: topology.neighbour_domains(case, wanted, running) for wanted in groups}
    coming = _join(case, coming, found)
    while first := next((one for one in coming if _begins(case, one, found, before)), None):
        for wanted in groups:
            added = topology.neighbour_domains(case, wanted, [first])
            found[wanted] += added
            before[wanted] += added if wanted in first.pod.shape.affinity else Counter()
        coming = _join(case, [one for one in coming if one is not first], found)
    for one in coming:
        yield Violation("affinity", f"{one.pod.name} does not find its neighbours on {one.place.name}")


def _join(case: Case, coming: list[Located], found: topology.Neighbourhood) -> list[Located]:
    """Places all that find their neighbours, again and again; returns those that do not."""
    while placed := [one for one in coming if all(_joins(one, found, w) for w in one.pod.shape.affinity)]:
        coming = [one for one in coming if one not in placed]
        for wanted in found:
            found[wanted] += topology.neighbour_domains(case, wanted, placed)
    return coming


def _joins(one: Located, found: topology.Neighbourhood, wanted: Neighbours) -> bool:
    domain = one.place.domain(wanted.key)
    return domain is not None and found[wanted][domain] > 0


def _begins(case: Case, one: Located, found: topology.Neighbourhood, before: topology.Neighbourhood) -> bool:
    """The first of its kind needs no neighbour: it is its own, and no other domain would do (S-81)."""
    missing = [wanted for wanted in one.pod.shape.affinity if not _joins(one, found, wanted)]
    return all(topology.begins(case, one.pod.shape, one.place, wanted, before[wanted]) for wanted in missing)


def anti_affinity(case: Case) -> Iterator[Violation]:
    """anti-affinity: no pod is where another cannot stand it, whoever of the two came first."""
    everyone = list(case.located())
    groups = {wanted for one in everyone for wanted in one.pod.shape.anti_affinity}
    for wanted in sorted(groups, key=repr):
        owners = _by_domain(wanted, (one for one in everyone if wanted in one.pod.shape.anti_affinity))
        others = _by_domain(wanted, (o for o in everyone if case.is_neighbour(wanted, o.pod.shape)))
        for domain in sorted(set(owners) & set(others)):
            yield from _quarrels(wanted, domain, owners[domain], others[domain])


def _by_domain(wanted: Neighbours, found: Iterator[Located]) -> dict[str, list[Located]]:
    """Pods by every domain that they might end up in."""
    grouped: dict[str, list[Located]] = {}
    for one in found:
        for domain in one.place.domains(wanted.key):
            if domain is not None:
                grouped.setdefault(domain, []).append(one)
    return grouped


def _quarrels(
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
