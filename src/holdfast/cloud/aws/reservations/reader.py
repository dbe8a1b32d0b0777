"""Reads capacity reservations: class status, catalog, counts and metrics are functions of one reading.

Called by `discovery`. One paged call lists all reservations that the account can see, in every state; one more call
reads ids that are needed and not listed. A reading is complete or an error. A reservation that cannot be decoded keeps
its last value. So the number of calls grows neither with terms, nor with reservations below a page of a thousand, nor
with nodes (decision 27).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

import structlog

from holdfast import errors, ports
from holdfast.cloud.aws.client import answers, calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation

PERIOD_S: Final = 60.0
UNKNOWN_AGAIN_S: Final = 900.0  # then an id unknown to EC2 is read again
_PAGE: Final = 1000
SLOTS: Final = "holdfast_reservation_slots"
FREE_SLOTS: Final = "holdfast_reservation_free_slots"
_DESCRIBE: Final = "DescribeCapacityReservations"
_LISTED: Final = "CapacityReservations"


@dataclass(frozen=True, slots=True)
class Reading:
    reservations: tuple[CapacityReservation, ...]  # sorted by id
    unknown: frozenset[str]  # needed ids that are unknown to EC2
    read_began_s: int

    def without(self, ids: Iterable[str]) -> frozenset[str]:
        """The ids that this reading does not cover."""
        return frozenset(ids) - {one.id for one in self.reservations} - self.unknown

    def last_turn_s(self, now_s: int) -> int | None:
        """The latest start, or start of a drain, up to now."""
        turns = (turn_s for one in self.reservations for turn_s in capacity_reservation.turns_s(one))
        return max((turn_s for turn_s in turns if turn_s <= now_s), default=None)


def gauges(reading: Reading) -> Mapping[str, dict[tuple[str, ...], float]]:
    """The series of each gauge, by id, instance type and zone of the reservation."""
    by_labels = {(one.id, one.instance_type, one.zone): one for one in reading.reservations}
    return {
        SLOTS: {labels: one.total for labels, one in by_labels.items()},
        FREE_SLOTS: {labels: one.available for labels, one in by_labels.items()},
    }


class Reader:
    def __init__(self, aws: Calls, clock: ports.Clock) -> None:
        self._aws = aws
        self._clock = clock
        self._unknown: dict[str, float] = {}  # by id, when EC2 reported it as unknown
        self._last: Mapping[str, CapacityReservation] = {}  # by id
        self._unreadable: frozenset[str] = frozenset()

    async def read(self, ids: AbstractSet[str] = frozenset()) -> Reading:
        """Reads all reservations that the account can see, and those with these ids."""
        began_s = self._clock.now_s()
        found: list[Any] = await self._aws.pages(calls.EC2, _DESCRIBE, _LISTED, MaxResults=_PAGE)
        by_id = {one.id: one for one in self._readable(found)}
        now_s = self._clock.monotonic_s()
        self._unknown = {
            key: at_s
            for key, at_s in self._unknown.items()
            if key not in by_id and now_s - at_s < UNKNOWN_AGAIN_S
        }
        missing = sorted(ids - by_id.keys() - self._unknown.keys())
        by_id |= {one.id: one for one in await self._by_id(missing)}
        for key in missing:
            if key not in by_id:
                self._unknown[key] = now_s
        self._last = by_id
        found_all = tuple(by_id[key] for key in sorted(by_id))
        return Reading(found_all, frozenset(self._unknown) & ids, began_s)

    def _readable(self, found: Iterable[Mapping[str, Any]]) -> Iterator[CapacityReservation]:
        unreadable = set()
        for raw in found:
            key = raw.get("CapacityReservationId", "")
            try:
                with answers.reading(_DESCRIBE):
                    read = capacity_reservation.from_description(raw)
            except errors.Unreachable as error:
                unreadable.add(key)
                if key not in self._unreadable:
                    structlog.get_logger().error(
                        "reservation cannot be read", reservation=key, error=str(error)
                    )
                if key in self._last:
                    yield self._last[key]
            else:
                yield read
        self._unreadable = frozenset(unreadable)

    async def _by_id(self, ids: Sequence[str]) -> list[CapacityReservation]:
        """Reads all ids in one call. EC2 rejects a call with an unknown id; then each id is read alone."""
        if not ids:
            return []
        try:
            return await self._aws.pages(
                calls.EC2,
                _DESCRIBE,
                _LISTED,
                parse=capacity_reservation.from_description,
                CapacityReservationIds=list(ids),
            )
        except errors.NotFound:
            if len(ids) == 1:
                return []
            return [one for key in ids for one in await self._by_id([key])]
