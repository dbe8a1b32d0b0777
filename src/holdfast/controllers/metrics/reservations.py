"""The slots of reservations by state, what idle ones cost, their end, the pods in them, and how long slots were held.

The ledger is computed from what was last read, so a scrape causes no call of the cloud.
"""

from collections.abc import Callable
from typing import Final

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.core.reservations import idle_cost
from holdfast.core.reservations.ledger import Entry
from holdfast.model.reservations import Reservation
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import pod_states

RESERVATION: Final = ("reservation", "instance_type", "zone")
BY_STATE: Final = "holdfast_reservation_slots_by_state"
IDLE_SLOTS: Final = "holdfast_reservation_idle_slots"
IDLE_COST: Final = "holdfast_reservation_idle_cost_usd_per_hour"
ENDS: Final = "holdfast_reservation_end_timestamp_seconds"
PODS: Final = "holdfast_reservation_pods"
HELD: Final = "holdfast_reservation_held_seconds_total"
METRICS: Final = (
    Metric(
        BY_STATE,
        "gauge",
        "Slots by state: used_here, used_elsewhere, held, releasing, free, upcoming.",
        (*RESERVATION, "state"),
    ),
    Metric(IDLE_SLOTS, "gauge", "Slots that are paid for, and neither used nor held.", RESERVATION),
    Metric(IDLE_COST, "gauge", "What idle slots cost an hour at list price, in USD.", RESERVATION),
    Metric(ENDS, "gauge", "When a reservation ends, in seconds since the epoch.", RESERVATION),
    Metric(PODS, "gauge", "Pods on nodes in a reservation, without those of DaemonSets.", RESERVATION),
    Metric(
        HELD,
        "counter",
        "How long slots were held for NodeClaims until their launch or deletion.",
        ("reservation",),
    ),
)
_NANO: Final = 10**9

Labels = tuple[str, ...]


class ReservationSlots:
    def __init__(
        self, *, cluster_state: ClusterState, caches: Caches, ports: Ports, leads: Callable[[], bool]
    ) -> None:
        self._cluster_state = cluster_state
        self._cloud = ports.cloud
        self._compute = ports.compute
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._leads = leads
        self._holds: dict[str, tuple[str, float]] = {}  # by uid of the NodeClaim: reservation, and since when
        self._pods = caches.of(Pod).index(indexes.by_node)
        key = ports.cloud.labels.reservation_id or ""

        def by_reservation(node: Node) -> Labels:
            return (node.metadata.labels[key],) if key in node.metadata.labels else ()

        self._nodes = caches.of(Node).index(by_reservation)
        caches.of(NodeClaim).subscribe(self._on_claim)

    async def export(self) -> None:
        now_s, prices = self._clock.now_s(), self._cloud.list_prices()
        found: dict[str, dict[Labels, float]] = {
            one: {} for one in (BY_STATE, IDLE_SLOTS, IDLE_COST, ENDS, PODS)
        }
        slots = await self._cluster_state.last_slots()
        ledger = await self._compute.run(self._cluster_state.ledger_of, slots) if slots is not None else {}
        for entry in ledger.values():
            one = entry.reservation
            labels = _labels(one)
            found[BY_STATE] |= {(*labels, state): float(count) for state, count in _by_state(entry)}
            found[IDLE_SLOTS][labels] = idle_cost.idle_slots(entry, now_s)
            cost = _idle_usd(entry, prices.get(one.instance_type), now_s)
            if cost is not None:
                found[IDLE_COST][labels] = cost
            if one.end_s is not None:
                found[ENDS][labels] = one.end_s
            found[PODS][labels] = self._count_pods(one.id)
        for metric, series in found.items():
            self._recorder.replace(metric, series)

    def _count_pods(self, reservation_id: str) -> int:
        return sum(
            pod_states.is_reschedulable(pod, pod_states.owner(pod))
            for node in self._nodes.get(reservation_id)
            for pod in self._pods.get(node.metadata.name)
        )

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        """A slot is held from the creation of a NodeClaim until its instance is launched, or it is deleted."""
        if after is not None and not after.status.provider_id:
            reservation_id = after.metadata.annotations.get(names.RESERVATION_ID)
            if reservation_id:
                self._holds.setdefault(after.metadata.uid, (reservation_id, self._clock.monotonic_s()))
            return
        claim = before if before is not None else after
        hold = self._holds.pop(claim.metadata.uid, None) if claim is not None else None
        if hold is not None and self._leads():
            reservation_id, since_s = hold
            self._recorder.count(HELD, {"reservation": reservation_id}, self._clock.monotonic_s() - since_s)


def _by_state(entry: Entry) -> tuple[tuple[str, int], ...]:
    return (
        ("used_here", entry.used_here),
        ("used_elsewhere", entry.used_elsewhere),
        ("held", entry.waiting),
        ("releasing", entry.releasing),
        ("free", entry.free),
        ("upcoming", entry.upcoming),
    )


def _labels(one: Reservation) -> Labels:
    return one.id, one.instance_type, one.zone


def _idle_usd(entry: Entry, list_price_nano: int | None, now_s: int) -> float | None:
    nano = idle_cost.idle_nano_usd_per_hour(entry, list_price_nano, now_s)
    return None if nano is None else nano / _NANO
