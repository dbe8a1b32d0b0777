"""Triggers provisioning when there is more free reserved capacity: a slot became free, a reservation started or grew.

Runs every few seconds and when a node class changes, under one key; it reads cached counts from `ports.Cloud`. So pending
pods do not wait for the next periodic reconcile. A reservation counts once the status of a class lists it: a plan that is
triggered earlier cannot use it, and would launch on demand. Pods that are nominated to on-demand or spot capacity are not
planned again.
"""

from collections.abc import Callable
from typing import Final

from holdfast.api.reservation_slots import differ_only_in_counts
from holdfast.model import reservations
from holdfast.ports import Clock, Cloud, ReservationCounts
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState

KEY: Final[Key] = ("", "slots")
_EVERY_S: Final = 5.0


class Slots:
    name: Final = "provisioner.slots"

    def __init__(
        self,
        *,
        cluster_state: ClusterState,
        caches: Caches,
        cloud: Cloud,
        clock: Clock,
        trigger: Callable[[], None],
    ) -> None:
        self._cluster_state = cluster_state
        self._classes = caches.of(cloud.node_classes.kind)
        self._cloud = cloud
        self._clock = clock
        self._trigger = trigger
        self._free: dict[str, int] | None = None  # free slots by reservation at the last run

    def watch(self, controller: Controller) -> None:
        controller.watch(self._classes, lambda _: (KEY,), unless=differ_only_in_counts)
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        free = self._launchable(await self._cluster_state.counts())
        before, self._free = self._free, free
        more = before is not None and any(count > before.get(id_, 0) for id_, count in free.items())
        if more:
            self._trigger()
        return RequeueAfter(_EVERY_S, "next count of free slots", "triggered provisioning" if more else "")

    def _launchable(self, counts: ReservationCounts) -> dict[str, int]:
        now_s = self._clock.now_s()
        selected = {id_ for one in self._classes for id_ in self._cloud.selected_reservations(one)}
        return {
            one.id: one.available if reservations.launches_into(one, now_s) else 0
            for one in counts.reservations
            if one.id in selected
        }
