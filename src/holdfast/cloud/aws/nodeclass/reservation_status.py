"""Computes the reservations of a class: active ones, upcoming ones, and problems.

Called by `resolve`, which writes the result into the class's status; all other code uses that status. Pure. Only active
reservations are in `capacityReservations` (Q-4). A selected reservation that cannot be used becomes a problem with its
reason, instead of failing every launch (AW-05, AW-06). A term without a match is a problem and not an error, because
on-demand and spot launches must continue.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass import status as wire
from holdfast.api.ec2nodeclass.selectors import CapacityReservationSelectorTerm
from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.reservations import capacity_reservation, selection
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.model.reservations import Ended, Reclaiming, State, window
from holdfast.state.conversion import times

_MESSAGES_MOST: Final = 20
_CRITERIA: Final = ("open", "targeted")
_WINDOWS: Final = "Windows"


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """The reservations of a class."""

    active: tuple[wire.CapacityReservation, ...]  # sorted by id
    upcoming: tuple[wire.UpcomingCapacityReservation, ...]
    free: int  # free slots of the active reservations
    problems: tuple[str, ...]

    @property
    def message(self) -> str:
        shown = list(self.problems[:_MESSAGES_MOST])
        more = len(self.problems) - len(shown)
        return "; ".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def resolve(
    node_class: EC2NodeClass,
    known: Sequence[CapacityReservation],
    *,
    zones: AbstractSet[str] | None,
    placement_group: str,
    now_s: int,
) -> ReservationStatus:
    """`zones` are those of the class's subnets, None if the subnets could not be read; `placement_group` is the name of
    the class's placement group, if any."""
    terms = node_class.spec.capacity_reservation_selector_terms
    selected = [one for one in known if selection.matches_any(terms, one.traits)]
    problems = list(_terms_without(terms, known))
    active, upcoming, free = [], [], 0
    for one in selected:
        problem = _misfit(one, node_class, placement_group) or _over(one, now_s)
        if problem:
            problems.append(f"{one.id} cannot be used: {problem}")
        elif _upcoming(one, now_s):
            upcoming.append(one)
        else:
            active.append(one)
            free += one.model.available
            if zones is not None and one.zone not in zones:
                problems.append(f"{one.id} cannot be used yet: the class has no subnet in {one.zone}")
    return ReservationStatus(
        tuple(_entry(one, now_s) for one in active),
        tuple(_announced(one) for one in upcoming if one.start_s is not None),
        free,
        tuple(problems),
    )


def _terms_without(
    terms: Sequence[CapacityReservationSelectorTerm], known: Sequence[CapacityReservation]
) -> Iterator[str]:
    for term in terms:
        if any(selection.matches(term, one.traits) for one in known):
            continue
        if term.id:
            yield f"EC2 has no reservation {term.id}, or does not show it to this account"
        else:
            yield f"no reservation has {_words(term)}; this account sees {len(known)}"


def _words(term: CapacityReservationSelectorTerm) -> str:
    parts = [f"tag {key}={value}" for key, value in sorted(term.tags.items())]
    if term.owner_id:
        parts.append(f"owner {term.owner_id}")
    if term.instance_match_criteria:
        parts.append(f"match criteria {term.instance_match_criteria}")
    return " and ".join(parts) or "every reservation"


def _misfit(one: CapacityReservation, node_class: EC2NodeClass, placement_group: str) -> str:
    """Why no instance of the class can ever be launched into the reservation; empty if one can."""
    family = families.of(node_class)
    platform = _WINDOWS if family.windows_build else capacity_reservation.LINUX
    if one.kind not in capacity_reservation.TIE_RANKS:
        return f"its type {one.kind!r} is not supported"
    if one.match_criteria not in _CRITERIA:
        return f"its match criteria {one.match_criteria!r} are new to Holdfast"
    if one.outpost:
        return "it is on an Outpost"
    if not one.launchable:
        return "EC2 says that its UltraServer cannot be launched into now"
    if family.name != families.CUSTOM and one.platform != platform:
        return f"it is for {one.platform}, and images of {family.name} are {platform}"
    if one.placement_group != placement_group:
        mine = f"in placement group {placement_group}" if placement_group else "in no placement group"
        its = f"in placement group {one.placement_group}" if one.placement_group else "outside of it"
        return f"the class launches {mine}, the reservation is {its}"
    return ""


def _over(one: CapacityReservation, now_s: int) -> str:
    if one.model.state is State.GONE:
        return f"it is {one.state}"
    if isinstance(window(one.model, now_s), Ended):
        return f"it ended at {times.text(one.end_s or 0)}"
    if one.model.state is State.PENDING and one.start_s is None:
        return f"it is {one.state}"
    return ""


def _upcoming(one: CapacityReservation, now_s: int) -> bool:
    return one.model.state is State.PENDING or (one.model.start_s is not None and one.model.start_s > now_s)


def _entry(one: CapacityReservation, now_s: int) -> wire.CapacityReservation:
    reclaiming = isinstance(window(one.model, now_s), Reclaiming)
    return wire.CapacityReservation(
        id=one.id,
        availability_zone=one.zone,
        instance_type=one.instance_type,
        instance_match_criteria=one.match_criteria,
        owner_id=one.owner,
        reservation_type=one.kind,
        state="expiring" if reclaiming and one.kind == capacity_reservation.CAPACITY_BLOCK else "active",
        interruptible=one.interruptible,
        end_time=None if one.end_s is None else datetime.fromtimestamp(one.end_s, UTC),
    )


def _announced(one: CapacityReservation) -> wire.UpcomingCapacityReservation:
    assert one.start_s is not None
    return wire.UpcomingCapacityReservation(
        id=one.id,
        type=one.kind,
        start_time=datetime.fromtimestamp(one.start_s, UTC),
        count=one.total,
        instance_type=one.instance_type,
        availability_zone=one.zone,
    )
