"""nodeclass.status: adds the finalizer of a node class, keeps its status up to date, and finalizes it.

One key for each class. A part of the status that could not be read does not change. Only changes are written. A class
is reconciled each minute, and at the second when a reservation starts, drains or ends. One reconciler handles both the
status and the deletion, so that released resources are never created again.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api import conditions, kinds
from holdfast.api.conditions import Condition
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.reservation_slots import differ_only_in_counts
from holdfast.controllers import status_patch
from holdfast.controllers.nodeclass.termination import Termination
from holdfast.core.reservations import boundaries
from holdfast.ports import Clock, Cloud, Kube, Recorder
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter

PERIOD_S: Final = 60.0
UNKNOWN_PERIOD_S: Final = 5.0  # while a part of the status is unknown


class Status:
    name: Final = "nodeclass.status"

    def __init__(self, *, kube: Kube, cloud: Cloud, caches: Caches, clock: Clock, recorder: Recorder) -> None:
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._recorder = recorder
        self._terms = cloud.node_classes
        self._classes = caches.of(self._terms.kind)
        self._claims = caches.of(NodeClaim)
        self._termination = Termination(kube=kube, cloud=cloud, claims=self._claims, recorder=recorder)

    def watch(self, controller: Controller) -> None:
        """NodeClaims are watched because a deleting class waits for them."""
        controller.watch(
            self._classes, lambda node_class: (key_of(node_class),), unless=differ_only_in_counts
        )
        controller.watch(self._claims, self._class_that_ends)

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        node_class = self._classes.get(key)
        if node_class is None:
            return Done()
        if node_class.metadata.deletion_timestamp is not None:
            return await self._termination.end(node_class)
        node_class = await self._with_finalizer(node_class)
        status = await self._cloud.resolve(node_class)
        did = await status_patch.write(self._kube, node_class, _changes(node_class, status))
        status_patch.emit_events(self._recorder, node_class, _conditions(status))
        return await self._look_again(status, did)

    async def _with_finalizer(self, node_class: Object) -> Object:
        """Adds the finalizer before resources are created for the class, so that they are always released."""
        there = node_class.metadata.finalizers
        if self._terms.finalizer in there:
            return node_class
        change = {"metadata": {"finalizers": [*there, self._terms.finalizer]}}
        return await self._kube.patch(node_class, change, only_if_unchanged=True)

    async def _look_again(self, status: Mapping[str, Any], did: str) -> RequeueAfter:
        ready = conditions.find(_conditions(status), conditions.READY)
        if ready is None or ready.status == conditions.UNKNOWN:
            return RequeueAfter(UNKNOWN_PERIOD_S, "some parts could not be read", did)
        try:
            counts = await self._cloud.reservations()
        except errors.HoldfastError:
            return RequeueAfter(PERIOD_S, "next refresh", did)  # the failure is in the status
        now_s = self._clock.now_s()
        at_s = boundaries.next_change_s(counts.reservations, now_s)
        if at_s is None or at_s - now_s >= PERIOD_S:
            return RequeueAfter(PERIOD_S, "next refresh", did)
        return RequeueAfter(at_s - now_s, "next start, drain or end of a reservation", did)

    def _class_that_ends(self, claim: NodeClaim) -> list[Key]:
        keys = [("", name) for name in self._terms.names(claim.spec.node_class_ref)]
        found = {key: self._classes.get(key) for key in keys}
        return [key for key, one in found.items() if one and one.metadata.deletion_timestamp]


def _changes(node_class: Object, status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The patch; empty if the decoded class stays the same, even if a default is written or left out."""
    there = to_wire(node_class)
    patched = kinds.from_plain({**there, "status": {**there.get("status", {}), **status}}, type(node_class))
    return {} if patched == node_class else status


def _conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    return msgspec.convert(status.get("conditions", ()), tuple[Condition, ...])
