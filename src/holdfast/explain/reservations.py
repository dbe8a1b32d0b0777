"""Rows of reservations from the ledger, and who uses their slots. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast.api.reports import NodeRow, ReservationRow, SlotUse
from holdfast.core.reservations import idle_cost
from holdfast.core.reservations.ledger import Entry
from holdfast.explain import inventory
from holdfast.explain.inventory import usd
from holdfast.model import reservations
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reservations import Draining, Ended, Reclaiming, Reservation, Upcoming
from holdfast.state.cluster.node_prices import Prices

_WINDOWS: Final[Mapping[type[object], str]] = {
    Upcoming: "upcoming",
    reservations.Open: "open",
    Draining: "draining",
    Reclaiming: "reclaiming",
    Ended: "ended",
}
RUNNING: Final = "running"
LAUNCHING: Final = "launching"
RELEASING: Final = "releasing"
INTERRUPTIBLE: Final = "interruptible"
USES_MAX: Final = 200


def rows(
    ledger: Mapping[str, Entry], classes: Mapping[str, Sequence[str]], prices: Prices, now_s: int
) -> tuple[ReservationRow, ...]:
    """`classes`: the node classes that select a reservation, by its id."""
    return tuple(_row(entry, classes.get(id_, ()), prices, now_s) for id_, entry in ledger.items())


def window(one: Reservation, now_s: int) -> str:
    return _WINDOWS[type(reservations.window(one, now_s))]


def _row(entry: Entry, classes: Sequence[str], prices: Prices, now_s: int) -> ReservationRow:
    one = entry.reservation
    idle_nano = idle_cost.idle_nano_usd_per_hour(entry, prices.list_price_nano(one.instance_type), now_s)
    return ReservationRow(
        id=one.id,
        kind=INTERRUPTIBLE if one.interruptible else one.kind,
        instance_type=one.instance_type,
        zone=one.zone,
        owner=one.owner,
        state=one.state_name or one.state,
        window=window(one, now_s),
        total=one.total,
        here=entry.used_here,
        elsewhere=entry.used_elsewhere,
        held=entry.waiting,
        releasing=entry.releasing,
        free=entry.free,
        idle=idle_cost.idle_slots(entry, now_s),
        idle_usd_per_hour=None if idle_nano is None else usd(idle_nano),
        starts=one.start_s,
        drains=one.end_s - one.drain_lead_s if one.end_s is not None and one.drain_lead_s else None,
        reclaims=one.end_s - one.reclaim_lead_s if one.end_s is not None and one.reclaim_lead_s else None,
        ends=one.end_s,
        node_classes=tuple(classes),
    )


def uses(
    ids: AbstractSet[str],
    instances: Iterable[Instance],
    nodes: Iterable[NodeRow],
    by_instance: Mapping[str, str],
) -> dict[str, tuple[SlotUse, ...]]:
    """Who uses the slots of these reservations. `by_instance`: the NodeClaim by provider id. A NodeClaim without an
    instance that is listed is launching."""
    rows_ = {row.node_claim: row for row in nodes if row.reservation in ids and row.node_claim}
    found: defaultdict[str, list[SlotUse]] = defaultdict(list)
    for one in instances:
        if (
            one.reservation_id is not None
            and one.reservation_id in ids
            and one.state is not InstanceState.GONE
        ):
            row = rows_.pop(by_instance.get(one.provider_id, ""), None)
            found[one.reservation_id].append(_use(one, row))
    for row in rows_.values():
        state = LAUNCHING if row.state == inventory.LAUNCHING else RUNNING
        found[row.reservation].append(
            SlotUse(node=_node(row), node_claim=row.node_claim, state=state, since=row.created)
        )
    return {id_: tuple(_sorted(found[id_]))[:USES_MAX] for id_ in sorted(ids)}


def _use(one: Instance, row: NodeRow | None) -> SlotUse:
    return SlotUse(
        node=_node(row) if row is not None else "",
        node_claim=row.node_claim if row is not None else one.claim or "",
        state=RELEASING if one.state is InstanceState.ENDING else RUNNING,
        since=one.launched_s,
    )


def _node(row: NodeRow) -> str:
    return row.name if row.name != row.node_claim else ""


def _sorted(found: list[SlotUse]) -> Iterator[SlotUse]:
    yield from sorted(found, key=lambda use: (use.since or 0, use.node_claim))
