"""What the status of a node class and of a NodePool shows of the slots of their reservations.

The fields are for users: no controller reads them, and one controller writes them every 15 s at most. So a change of
these fields alone triggers no reconcile (`differ_only_in_counts`).
"""

from datetime import datetime
from typing import Annotated, Final

import msgspec

from holdfast.api.meta import Object, Wire
from holdfast.api.schema import about

RESERVATIONS_MAX: Final = 500  # in the status of a node class; each takes about 200 bytes
POOL_RESERVATIONS_MAX: Final = 50  # in the status of a NodePool

_IDLE: Final = "What idle slots cost an hour, in USD at the list price; unset if the price is unknown."
_SUMMARY: Final = "Free slots and all slots, such as 3/10."
_MORE: Final = "How many reservations are not listed here; the sums include them."


class ReservationSlots(Wire, frozen=True, kw_only=True):
    """The slots of one reservation."""

    id: Annotated[str, about("The id of the reservation.")]
    total: Annotated[int, about("How many slots it has.", minimum=0, format="int32")]
    used_here: Annotated[int, about("Slots that instances of this cluster use.", minimum=0, format="int32")]
    used_elsewhere: Annotated[
        int, about("Slots that other clusters and accounts use.", minimum=0, format="int32")
    ]
    held: Annotated[int, about("Slots of NodeClaims that are being launched.", minimum=0, format="int32")]
    releasing: Annotated[
        int, about("Slots whose instances are terminating; some are still in use.", minimum=0, format="int32")
    ]
    free: Annotated[int, about("Slots that a node can be launched into now.", minimum=0, format="int32")]
    idle_usd_per_hour: Annotated[str | None, about(_IDLE)] = msgspec.field(
        default=None, name="idleUSDPerHour"
    )
    end_time: Annotated[datetime | None, about("When it ends, if that is known.")] = None


class NodeClassSlots(Wire, frozen=True, kw_only=True):
    """The slots of all reservations that a node class selects."""

    summary: Annotated[str, about(_SUMMARY)]
    idle_usd_per_hour: Annotated[str | None, about(_IDLE)] = msgspec.field(
        default=None, name="idleUSDPerHour"
    )
    reservations: Annotated[
        tuple[ReservationSlots, ...],
        about("The reservations, by id.", max_items=RESERVATIONS_MAX, list_type="map", list_map_keys=("id",)),
    ] = ()
    more: Annotated[int, about(_MORE, minimum=0, format="int32")] = 0


class PoolReservation(Wire, frozen=True, kw_only=True):
    """The slots of one reservation that a NodePool can use."""

    id: Annotated[str, about("The id of the reservation.")]
    used: Annotated[int, about("Slots that nodes of the NodePool use.", minimum=0, format="int32")]
    free: Annotated[int, about("Slots that a node can be launched into now.", minimum=0, format="int32")]


class NodePoolSlots(Wire, frozen=True, kw_only=True):
    """The slots of all reservations that a NodePool can use. NodePools of one node class share them."""

    summary: Annotated[str, about(_SUMMARY)]
    idle_usd_per_hour: Annotated[str | None, about(_IDLE)] = msgspec.field(
        default=None, name="idleUSDPerHour"
    )
    reservations: Annotated[
        tuple[PoolReservation, ...],
        about(
            "The reservations, by id.",
            max_items=POOL_RESERVATIONS_MAX,
            list_type="map",
            list_map_keys=("id",),
        ),
    ] = ()
    more: Annotated[int, about(_MORE, minimum=0, format="int32")] = 0


def differ_only_in_counts(before: Object, after: Object) -> bool:
    """Whether a change is one of the slots and of the order of the subnets alone, which is by free addresses. The class
    of every node of a cluster changes so every few seconds."""
    return _without_counts(before) == _without_counts(after)


def _without_counts(obj: Object) -> Object:
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")
    status = msgspec.structs.replace(obj.status, reservation_slots=None)  # type: ignore[attr-defined]
    if subnets := getattr(status, "subnets", ()):
        status = msgspec.structs.replace(status, subnets=tuple(sorted(subnets, key=lambda one: one.id)))
    return msgspec.structs.replace(obj, metadata=metadata, status=status)
