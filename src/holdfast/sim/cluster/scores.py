"""Which of the nodes that fit is best. Callers: `scheduler`.

Each score runs from 0 to 100 and has a weight, as in kube-scheduler. Of equal nodes the first by name wins, where
kube-scheduler rolls dice: a run must replay.
"""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.sim.cluster import labels
from holdfast.sim.cluster.filters import Candidate
from holdfast.sim.cluster.seats import Place

_BEST: Final = 100


def best(who: Candidate, places: Sequence[Place]) -> Place:
    scored = [0.0] * len(places)
    for weight, score in _SCORES:
        found = [score(who, place) for place in places]
        low, high = min(found), max(found)
        for index, value in enumerate(found):
            scored[index] += weight * _BEST * (value - low) / (high - low) if high > low else 0
    for index, place in enumerate(places):
        scored[index] += _least_allocated(who, place)
    return places[max(range(len(places)), key=lambda index: (scored[index], -index))]


def _least_allocated(who: Candidate, place: Place) -> float:
    """How much of processors and memory would still be free; by itself, not compared with others."""
    free = 0.0
    for name in ("cpu", "memory"):
        size = place.allocatable.get(name, 0)
        if size:
            free += max(0.0, (size - place.seat.used[name] - who.requests.get(name, 0)) / size)
    return _BEST * free / 2


def _few_soft_taints(who: Candidate, place: Place) -> float:
    tolerations = who.pod.spec.get("tolerations") or ()
    soft = [taint for taint in labels.taints(place.node) if taint["effect"] == "PreferNoSchedule"]
    return -sum(not labels.tolerates(tolerations, taint) for taint in soft)


def _preferred_node(who: Candidate, place: Place) -> float:
    affinity = (who.pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    meta = place.node.metadata
    return sum(
        int(term["weight"])
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if labels.term_matches(term["preference"], meta.labels, meta.name)
    )


def _preferred_neighbours(who: Candidate, place: Place) -> float:
    found = 0
    for term, counts in who.neighbours.preferences:
        domain = term.domain(place)
        if domain is not None:
            found += term.weight * counts[domain]
    return found


def _spread(who: Candidate, place: Place) -> float:
    return -sum(spread.skew(place) or 0 for spread in who.neighbours.soft_spreads)


_SCORES: Final[tuple[tuple[int, Callable[[Candidate, Place], float]], ...]] = (
    (3, _few_soft_taints),
    (2, _preferred_node),
    (2, _preferred_neighbours),
    (2, _spread),
)
