"""reservations.truth: the capacity labels of NodeClaims and Nodes follow what the cloud says of their machines.

Run by the engine under one key, each minute, from one list of all machines. The rules: nothing is disrupted for it; who
is on the way out is told the truth of as well, since a disruption budget may keep it for days; a change is made when two
lists in a row show it, since a list may be from before our last look; a list that could not be read changes nothing;
claim and node are looked at each for itself, so a crash between the two is made good by the next look.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.doors import Doors
from holdfast.core.reservations import truth
from holdfast.model.instances import Instance
from holdfast.model.reservations import State
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state import claims
from holdfast.state.live import Live

KEY: Final[Key] = ("", "truth")
_EVERY_S: Final = 60.0
_AGAIN_S: Final = 10.0  # after a change was seen for the first time


class Truth:
    name: Final = "reservations.truth"

    def __init__(self, *, live: Live, caches: Caches, doors: Doors) -> None:
        self._live = live
        self._claims = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._kube = doors.kube
        self._cloud = doors.cloud
        self._recorder = doors.recorder
        self._seen: dict[str, Instance] = {}  # by provider id, machines that are not what their labels say

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        counts = await self._live.counts()
        gone = frozenset(one.id for one in counts.reservations if one.state is State.GONE)
        machines = await self._cloud.instances()
        changed, seen, failed = 0, dict[str, Instance](), None
        for machine in machines:
            for obj in self._objects(machine):
                change = truth.changes(obj.metadata.labels, machine, self._cloud.labels, gone)
                if change and not _confirms(machine, self._seen.get(machine.provider_id)):
                    seen[machine.provider_id] = machine
                elif change:
                    try:
                        await self._write(obj, machine, change)
                    except errors.HoldfastError as error:
                        seen[machine.provider_id], failed = machine, error  # it keeps nobody else waiting
                    else:
                        changed += 1
        self._seen = seen
        if failed is not None:
            raise errors.Retryable(f"not every label could be written: {failed}") from failed
        did = f"{changed} objects relabelled" if changed else ""
        if seen:
            return RequeueAfter(_AGAIN_S, f"{len(seen)} machines seem to be something else", did)
        return RequeueAfter(_EVERY_S, "the next look at machines", did)

    def _objects(self, machine: Instance) -> Iterator[NodeClaim | Node]:
        """Those that say what a machine is."""
        for claim in self._claims.get(machine.provider_id):
            if self._live.is_ours(claim.spec.node_class_ref):
                yield claim
                yield from (
                    node
                    for node in self._nodes.get(machine.provider_id)
                    if node.metadata.labels.get(names.REGISTERED) == "true"
                )

    async def _write(self, obj: NodeClaim | Node, machine: Instance, change: dict[str, str | None]) -> None:
        metadata: dict[str, Any] = {"labels": change}
        if claims.held_reservation(obj.metadata.annotations) is not None:
            metadata["annotations"] = claims.holding(machine.reservation_id)
        with contextlib.suppress(errors.NotFound):
            await self._kube.patch(obj, {"metadata": metadata})
            self._tell(obj, machine, change)

    def _tell(self, obj: Object, machine: Instance, change: dict[str, str | None]) -> None:
        before = obj.metadata.labels.get(names.CAPACITY_TYPE, "")
        after = change.get(names.CAPACITY_TYPE, before)
        left = obj.metadata.labels.get(self._cloud.labels.reservation_id or "")
        where = f"in {machine.reservation_id}" if machine.reservation_id else "in no reservation any more"
        said = f"its instance is {where}" + (f"; it was in {left}" if left else "")
        if after != before:
            said += f": {before} becomes {after}, and nothing is disrupted"
        self._recorder.event(obj, "ReservationChanged", said)


def _confirms(now: Instance, before: Instance | None) -> bool:
    """Whether a second list says the same; the very same value is from the very same list."""
    return (
        before is not None
        and before is not now
        and (before.capacity_type, before.reservation_id) == (now.capacity_type, now.reservation_id)
    )
