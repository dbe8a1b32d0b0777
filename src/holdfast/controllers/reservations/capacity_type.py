"""reservations.capacity_type: updates the capacity labels of NodeClaims and Nodes from the actual state of instances.

Runs each minute under one key, from one list of all instances. No node is disrupted for it. Deleting objects are
labelled too, since a PodDisruptionBudget may keep them for days. Labels change when two lists in a row show the change,
since a list may be older than our last write. A failed list changes nothing. NodeClaim and Node are compared
separately, so after a crash between the two writes the next run writes the other one. Labels that agreed are not
compared again before the instance, the NodeClaim or the Node changes.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.core.reservations import capacity_type
from holdfast.model.instances import Instance
from holdfast.model.reservations import State
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import claims

KEY: Final[Key] = ("", "capacity-type")
_EVERY_S: Final = 60.0
_CONFIRM_S: Final = 10.0  # after a list showed a change for the first time


class CapacityType:
    name: Final = "reservations.capacity_type"

    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._kube = ports.kube
        self._cloud = ports.cloud
        self._recorder = ports.recorder
        self._unconfirmed: dict[str, Instance] = {}  # by provider id, instances that differ from their labels
        self._list: tuple[Instance, ...] = ()  # the list that they are from
        self._ended: frozenset[str] = frozenset()
        # By provider id: the labels of its NodeClaim and its Node agree, and did not change since.
        self._agreed: dict[str, Instance] = {}
        self._same: set[int] = set()  # their ids: most instances are not looked at
        caches.of(NodeClaim).subscribe(self._on_change)
        caches.of(Node).subscribe(self._on_change)

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        counts = await self._cluster_state.counts()
        ended = frozenset(one.id for one in counts.reservations if one.state is State.GONE)
        instances = await self._cloud.instances()
        is_new = instances is not self._list  # an identical tuple is the same list
        if ended != self._ended or len(self._agreed) > 2 * len(instances):  # most are not listed any more
            self._ended, self._agreed, self._same = ended, {}, set()
        changed, unconfirmed, failed = 0, dict[str, Instance](), None
        for instance in (one for one in instances if id(one) not in self._same):
            id_ = instance.provider_id
            known = self._agreed.get(id_)
            self._agree(id_, instance)  # a change during a write removes it
            if known == instance:
                continue
            differs = False
            for obj in self._objects(instance):
                change = capacity_type.changes(obj.metadata.labels, instance, self._cloud.labels, ended)
                differs = differs or bool(change)
                if change and not _confirms(instance, self._unconfirmed.get(id_), is_new=is_new):
                    unconfirmed[id_] = instance
                elif change:
                    try:
                        await self._write(obj, instance, change)
                    except errors.HoldfastError as error:
                        unconfirmed[id_], failed = instance, error  # raised at the end
                    else:
                        changed += 1
            if differs:
                self._disagree(id_)
        self._list, self._unconfirmed = instances, unconfirmed
        if failed is not None:
            raise errors.Retryable(f"not every label could be written: {failed}") from failed
        did = f"{changed} objects relabelled" if changed else ""
        if unconfirmed:
            return RequeueAfter(_CONFIRM_S, f"{len(unconfirmed)} instances differ from their labels", did)
        return RequeueAfter(_EVERY_S, "next list of instances", did)

    def _on_change(self, before: NodeClaim | Node | None, after: NodeClaim | Node | None) -> None:
        for obj in (before, after):
            if obj is not None:
                for id_ in indexes.by_provider_id(obj):
                    self._disagree(id_)

    def _agree(self, id_: str, instance: Instance) -> None:
        self._disagree(id_)
        self._agreed[id_] = instance
        self._same.add(id(instance))

    def _disagree(self, id_: str) -> None:
        known = self._agreed.pop(id_, None)
        self._same.discard(id(known))

    def _objects(self, instance: Instance) -> Iterator[NodeClaim | Node]:
        """The NodeClaim and the Node of an instance."""
        for claim in self._claims.get(instance.provider_id):
            if self._cluster_state.is_ours(claim.spec.node_class_ref):
                yield claim
                yield from (
                    node
                    for node in self._nodes.get(instance.provider_id)
                    if node.metadata.labels.get(names.REGISTERED) == "true"
                )

    async def _write(self, obj: NodeClaim | Node, instance: Instance, change: dict[str, str | None]) -> None:
        metadata: dict[str, Any] = {"labels": change}
        if claims.held_reservation(obj.metadata.annotations) is not None:
            metadata["annotations"] = claims.holding(instance.reservation_id)
        with contextlib.suppress(errors.NotFound):
            await self._kube.patch(obj, {"metadata": metadata})
            self._record(obj, instance, change)

    def _record(self, obj: Object, instance: Instance, change: dict[str, str | None]) -> None:
        before = obj.metadata.labels.get(names.CAPACITY_TYPE, "")
        after = change.get(names.CAPACITY_TYPE, before)
        left = obj.metadata.labels.get(self._cloud.labels.reservation_id or "")
        where = f"in {instance.reservation_id}" if instance.reservation_id else "in no capacity reservation"
        message = f"Instance is {where}" + (f", was in {left}" if left else "")
        if after != before:
            message += f"; capacity type changes from {before} to {after} without a disruption"
        self._recorder.event(obj, "ReservationChanged", message)


def _confirms(now: Instance, before: Instance | None, *, is_new: bool) -> bool:
    """Whether a second list shows the same state. `is_new`: `now` is from another list than `before`."""
    return (
        before is not None
        and is_new
        and (before.capacity_type, before.reservation_id) == (now.capacity_type, now.reservation_id)
    )
