"""Groups equal pods into classes, and gives each class a ladder of relaxations.

Called by `problem`. As in Karpenter, the largest pods come first, and a preference acts as a requirement until it is
relaxed. A *rung* is the set of constraints of a class after a number of relaxations (S-17, S-28 to S-31).
"""

import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from holdfast import names
from holdfast.core.scheduling.input.request import PreferencePolicy
from holdfast.model import resources
from holdfast.model.pods import (
    PodShape,
    PodTerm,
    PodView,
    PreferredNodeTerm,
    PreferredPodTerm,
    TopologySpread,
)
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.taints import TOLERATE_PREFERENCES, Toleration

W = TypeVar("W", PreferredPodTerm, PreferredNodeTerm)

_AGE: Final = operator.attrgetter("created_s", "uid")


class PodClass(NamedTuple):
    """Pods of one shape and one priority."""

    shape: PodShape
    pods: tuple[PodView, ...]  # oldest first

    @property
    def priority(self) -> int:
        return self.pods[0].priority


@dataclass(frozen=True)
class Rung:
    """The constraints of a class at one level of relaxation."""

    alternatives: tuple[Requirements, ...]  # one of these is required; they decide which domains count
    wanted: tuple[
        Requirements, ...
    ]  # the same with the preferences of this rung; empty: no node satisfies them
    tolerations: tuple[Toleration, ...]
    spreads: tuple[TopologySpread, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    group_quarters: int = 0  # the node needs capacity for this many quarters of the pods that must share it

    @property
    def strict(self) -> Requirements:
        """What is required, in the last alternative."""
        return self.alternatives[-1]


@dataclass(frozen=True)
class Ladder:
    """The rungs of classes that differ only in size."""

    shape: PodShape  # of one of these classes; ignore its requests
    rungs: tuple[Rung, ...]


def group(pending: Iterable[PodView]) -> list[PodClass]:
    """The classes, biggest first: cpu, then memory, then the age of the oldest pod, then its uid."""
    by_shape: dict[tuple[int, int], list[PodView]] = defaultdict(list)
    for pod in pending:
        # By identity, which is fast: `state` interns shapes. Two equal shapes that are not interned are two classes.
        by_shape[id(pod.shape), pod.priority].append(pod)
    classes = [
        PodClass(found[0].shape, tuple(sorted(found, key=_AGE) if len(found) > 1 else found))
        for found in by_shape.values()
    ]
    return sorted(classes, key=_rank)


def _rank(c: PodClass) -> tuple[int, int, int, str]:
    requests, oldest = c.shape.requests, c.pods[0]
    return -requests[resources.CPU], -requests[resources.MEMORY], oldest.created_s, oldest.uid


def ladders(
    classes: Sequence[PodClass], policy: PreferencePolicy, *, tolerate_preferences: bool
) -> tuple[list[Ladder], list[int]]:
    """The different ladders, and the ladder of each class; classes that differ only in size share one."""
    by_identity: dict[tuple[int, ...], int] = {}  # shapes of other sizes mostly share their terms
    by_value: dict[tuple[object, ...], int] = {}
    found: list[Ladder] = []
    of_classes = []
    for c in classes:
        namespace, _, *terms = c.shape
        identity = id(namespace), *map(id, terms)
        known = by_identity.get(identity)
        if known is None:
            known = by_identity[identity] = by_value.setdefault(c.shape.terms, len(found))
            if known == len(found):
                rungs = tuple(ladder(c.shape, policy, tolerate_preferences=tolerate_preferences))
                found.append(Ladder(c.shape, _with_group(c.shape, rungs)))
        of_classes.append(known)
    return found, of_classes


def ladder(shape: PodShape, policy: PreferencePolicy, *, tolerate_preferences: bool) -> Iterator[Rung]:
    """The rungs of a class, from all preferences to only what is required (S-28).

    Karpenter gives up alternatives of node affinity before preferences, and does not try them again. Here every
    alternative is tried at every rung, as kube-scheduler does, so that a slot in the second alternative is used before
    a node is launched on demand in the first. The last rung tolerates PreferNoSchedule taints.
    """
    respected = policy is PreferencePolicy.RESPECT
    preferences = _Preferences(
        affinity=[one.term for one in _heaviest_first(shape.preferred_affinity)] if respected else [],
        anti_affinity=[one.term for one in _heaviest_first(shape.preferred_anti_affinity)]
        if respected
        else [],
        nodes=[one.requirements for one in _heaviest_first(shape.preferred_terms)] if respected else [],
        spreads=[s for s in shape.spreads if not s.required] if respected else [],
        tolerations=shape.tolerations,
    )
    yield _rung(shape, preferences)
    while _relax(preferences):
        yield _rung(shape, preferences)
    if tolerate_preferences:
        tolerant = (*shape.tolerations, TOLERATE_PREFERENCES)
        yield _rung(shape, replace(preferences, tolerations=tolerant))


def _with_group(shape: PodShape, rungs: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """For pods that must share a node with pods of their own group: first a node with capacity for the whole group,
    then for three quarters, and so on; at last for one pod."""
    if not any(is_of_own_group(term, shape) for term in shape.affinity if term.key == names.HOSTNAME):
        return rungs
    return tuple(replace(rung, group_quarters=share) for share in (4, 3, 2, 1, 0) for rung in rungs)


def is_of_own_group(term: PodTerm, shape: PodShape) -> bool:
    """Whether a term of a pod selects the pod itself."""
    return (
        term.selector is not None
        and shape.namespace in term.namespaces
        and term.selector.matches(dict(shape.labels))
    )


@dataclass
class _Preferences:
    affinity: list[PodTerm]
    anti_affinity: list[PodTerm]
    nodes: list[Requirements]
    spreads: list[TopologySpread]
    tolerations: tuple[Toleration, ...]


def _relax(preferences: _Preferences) -> bool:
    """Gives up the next preference in the fixed order; False if none is left."""
    for terms in (preferences.affinity, preferences.anti_affinity, preferences.nodes, preferences.spreads):
        if terms:
            terms.pop(0)
            return True
    return False


def _rung(shape: PodShape, preferences: _Preferences) -> Rung:
    terms = shape.required_terms or (NO_REQUIREMENTS,)
    alternatives = tuple(shape.node_selector.union(term) for term in terms)
    preferred_node = preferences.nodes[0] if preferences.nodes else NO_REQUIREMENTS
    # Checked before they are combined: a combination without values would mean DoesNotExist, not a contradiction.
    wanted = tuple(
        strict.union(preferred_node)
        for term, strict in zip(terms, alternatives, strict=True)
        if shape.node_selector.intersects(term) and strict.intersects(preferred_node)
    )
    return Rung(
        alternatives=alternatives,
        wanted=wanted,
        tolerations=preferences.tolerations,
        spreads=(*(s for s in shape.spreads if s.required), *preferences.spreads),
        affinity=(*shape.affinity, *preferences.affinity),
        anti_affinity=(*shape.anti_affinity, *preferences.anti_affinity),
    )


def _heaviest_first(preferred: Sequence[W]) -> list[W]:
    return sorted(preferred, key=lambda term: -term.weight)
