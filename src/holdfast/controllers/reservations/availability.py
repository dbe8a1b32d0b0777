"""reservations.availability: the condition CapacityReservationAvailable of a NodePool (decision 11).

One key for each NodePool. A NodePool can use the reservations that its class selects and its own requirements allow, so
two NodePools of one class can differ. A failed read changes nothing, and Ready is never changed. The cloud sets the
condition of node classes, the launch controller that of NodeClaims.
"""

from typing import Final

from holdfast import errors
from holdfast.api import conditions
from holdfast.api.nodepool import NodePool
from holdfast.controllers import status_patch
from holdfast.controllers.nodepool.classes import PoolClasses
from holdfast.controllers.reservations.usable_slots import UsableSlots
from holdfast.core.reservations import pool_slots
from holdfast.model.reservations import Upcoming, window
from holdfast.ports import Clock, Cloud, Kube, Recorder
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.conversion import reservation_condition

PERIOD_S: Final = 15.0  # counts are read each minute, and sooner after a launch into a full reservation


class Availability:
    name: Final = "reservations.availability"

    def __init__(self, *, kube: Kube, cloud: Cloud, caches: Caches, clock: Clock, recorder: Recorder) -> None:
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._recorder = recorder
        self._classes = PoolClasses(cloud, caches)
        self._pools = caches.of(NodePool)
        self._usable = UsableSlots(cloud.labels.well_known)

    def watch(self, controller: Controller) -> None:
        self._classes.watch(controller)

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        known = self._classes.find(key)
        if known is None or known.node_class is None:
            self._usable.keep({one.metadata.uid for one in self._pools})
            return Done()
        pool = known.pool
        try:
            counts = await self._cloud.reservations()
            types = await self._cloud.instance_types(known.node_class, counts)
            usable = self._usable.of(pool, types)
        except (errors.NotReady, errors.InvalidInput):
            return Done()  # a change of the NodePool or its class triggers the next reconcile
        now_s = self._clock.now_s()
        upcoming = {one.id for one in counts.reservations if isinstance(window(one, now_s), Upcoming)}
        slots = pool_slots.total(usable, upcoming)
        found = conditions.edit(pool, now_s=now_s)
        reservation_condition.put(found, slots.selected, slots.free)
        did = await status_patch.write(self._kube, pool, found.changes)
        status_patch.emit_events(self._recorder, pool, found.all)
        return RequeueAfter(PERIOD_S, "next count of slots", did) if slots.selected else Done(did)
