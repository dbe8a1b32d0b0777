"""Keeps pods out of reservations that end before they do.

Called by `problem`. A pod with a known run time gets a requirement that excludes each reservation whose drain begins
before the pod would end. Pods without one may use every reservation. Only reservations whose instances end with them
count: others keep their instances.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.model import requirement, requirements, wording
from holdfast.model.pods import PodShape, PodView, PreferredNodeTerm, RunTime
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import Snapshot

_UNKNOWN: Final = RunTime()


def with_lasting(pods: Sequence[PodView], snapshot: Snapshot, start_estimate_s: int) -> Sequence[PodView]:
    """The pods, those with a run time with `lasting` in their shapes. Pods of one shape that exclude the same reservations
    keep one shape."""
    key = snapshot.cloud_labels.reservation_id
    if key is None or not any(pod.run_time for pod in pods):
        return pods
    exclusions = _Exclusions(key, snapshot.reservations, snapshot.taken_s + start_estimate_s)
    excluded = [NO_REQUIREMENTS if pod.run_time is None else exclusions.of(pod.run_time) for pod in pods]
    if not any(excluded):
        return pods
    shapes: dict[tuple[int, Requirements], PodShape] = {}
    for pod, own in zip(pods, excluded, strict=True):
        known = id(pod.shape), own
        if known not in shapes:
            named = _named(pod.shape, key, snapshot.reservations)
            shapes[known] = named._replace(lasting=own) if own else named
    return [pod._replace(shape=shapes[id(pod.shape), own]) for pod, own in zip(pods, excluded, strict=True)]


def _named(shape: PodShape, key: str, reservations: Iterable[Reservation]) -> PodShape:
    """The shape with In and all ids instead of Exists on the id of a reservation: on a node with a pod that excludes some,
    Exists and NotIn would be NotIn, which a node outside of reservations satisfies."""

    def named(term: Requirements) -> Requirements:
        own = term.by_key.get(key)
        return term if own is None or own.operator is not Operator.EXISTS else term.add(every)

    terms = (*shape.required_terms, *(one.requirements for one in shape.preferred_terms))
    if not any(key in term for term in terms):
        return shape
    every = requirement.of(key, Operator.IN, sorted(one.id for one in reservations))
    return shape._replace(
        required_terms=tuple(map(named, shape.required_terms)),
        preferred_terms=tuple(
            PreferredNodeTerm(one.weight, named(one.requirements)) for one in shape.preferred_terms
        ),
    )


class _Exclusions:
    """The requirements of one plan, by run time. Run times between the same ends share one."""

    def __init__(self, key: str, reservations: Iterable[Reservation], starts_s: int) -> None:
        """`starts_s`: when a pod that is placed now runs."""
        self._key = key
        ending = [(one.id, drains_s) for one in reservations if (drains_s := drain_s(one)) is not None]
        begins = {one.id: max(starts_s, one.start_s or 0) for one in reservations}
        self._lengths = sorted((drains_s - begins[id_], id_) for id_, drains_s in ending)
        self._ends = sorted((drains_s, id_) for id_, drains_s in ending)
        self._known: dict[tuple[int | None, int | None], Requirements] = {}

    def of(self, run_time: RunTime) -> Requirements:
        lasts_s, ends_s = run_time
        shorter = None if lasts_s is None else bisect_left(self._lengths, (lasts_s, ""))
        earlier = None if ends_s is None else bisect_left(self._ends, (ends_s, ""))
        known = shorter, earlier
        if known not in self._known:
            by_length = {id_ for _, id_ in self._lengths[:shorter]}
            by_end = {id_ for _, id_ in self._ends[:earlier]}
            # With both, the pod ends at the earlier of the two.
            excluded = by_end if shorter is None else by_length if earlier is None else by_length & by_end
            self._known[known] = (
                requirements.of(requirement.of(self._key, Operator.NOT_IN, sorted(excluded)))
                if excluded
                else NO_REQUIREMENTS
            )
        return self._known[known]


def drain_s(reservation: Reservation) -> int | None:
    """When the drain of its nodes begins; None: they are never drained because of it."""
    if reservation.end_s is None or not reservation.drain_lead_s:
        return None
    return reservation.end_s - reservation.drain_lead_s


def why(reservation: Reservation, pods: Iterable[PodView], now_s: int) -> str:
    """Why a reservation ends too soon for pods, as a predicate of the reservation. The times do not change while the pods
    wait, so that they get no new event."""
    drains_s = drain_s(reservation)
    assert drains_s is not None, "only a reservation whose nodes are drained is excluded"
    return f"ends too soon: {_drained_from(drains_s, now_s)}, and the pod {_run_time(pods, now_s)}"


def from_start(reservation: Reservation, pods: Sequence[PodView], now_s: int) -> str:
    """What pods that wait for the start of a reservation need to know, as a predicate of the reservation."""
    assert reservation.start_s is not None, "it starts later"
    slots = wording.count(reservation.total, "slot")
    starts = f"starts at {wording.moment(reservation.start_s, now_s)} (UTC) with {slots}"
    ends_s = [pod.run_time.ends_s if pod.run_time is not None else None for pod in pods]
    if all(one is not None and one <= reservation.start_s for one in ends_s):
        return f"{starts}, after the pod ends: it {_run_time(pods, now_s)}"
    starts += ", and takes nodes from then on"
    drains_s = drain_s(reservation)
    if drains_s is None:
        return starts
    lasts = "it lasts long enough: " if any(pod.run_time for pod in pods) else ""
    return f"{starts}; {lasts}{_drained_from(drains_s, now_s)}, and the pod {_run_time(pods, now_s)}"


def _drained_from(drains_s: int, now_s: int) -> str:
    return f"its nodes are drained from {wording.moment(drains_s, now_s)} on (UTC)"


def _run_time(pods: Iterable[PodView], now_s: int) -> str:
    """The longest run time of these pods, as a predicate of a pod."""
    run_times = [pod.run_time or _UNKNOWN for pod in pods]
    lasts_s = max((one.lasts_s for one in run_times if one.lasts_s is not None), default=None)
    ends_s = max((one.ends_s for one in run_times if one.ends_s is not None), default=None)
    bounds = []
    if lasts_s is not None:
        bounds.append(f"for {wording.duration(lasts_s)}")
    if ends_s is not None:
        bounds.append(f"until {wording.moment(ends_s, now_s)} (UTC)")
    return f"may run {' and '.join(bounds)}" if bounds else "states no run time"
