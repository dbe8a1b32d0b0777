"""The kube-scheduler: binds each pod to the best node that it fits on, or reports why it fits on none.

It schedules one pod at a time, by priority and age. New pods are tried at once. Pods that did not fit are tried again
when something changed that may help, at most once per second. A node that the same filter refuses does not help, as with
the queueing hints of kube-scheduler: then the message in the pod's condition has the counts of its last attempt. It does
not preempt.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping
from typing import Final

from holdfast import errors
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Binding, ObjectReference
from holdfast.runtime.results import Key
from holdfast.sim.cluster import gang_scheduling, pods, scheduling_volumes
from holdfast.sim.cluster.engine import Engine
from holdfast.sim.cluster.gang_scheduling import Gang, Gangs
from holdfast.sim.cluster.kinds import Claim, CSINode, Namespace, Node, Pod, StorageClass, Volume
from holdfast.sim.cluster.node_infos import NodeInfos, offer
from holdfast.sim.cluster.placements import Placements, Refusal

NAME: Final = "default-scheduler"
_AGAIN_S: Final = 1.0
# Every change of these kinds may make a pod schedulable.
_HELPS: Final = (Namespace, CSINode, Claim, Volume, StorageClass)


class Scheduler:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kube = engine.kube
        self._caches = engine.caches
        self._node_infos = NodeInfos(engine.caches)
        self._placements = Placements(self._node_infos)
        # The labels of each namespace.
        self._spaces = {space.metadata.name: space.metadata.labels for space in self._caches.of(Namespace)}
        self._new: dict[Key, None] = {}
        self._waiting: dict[Key, Refusal | None] = {}  # pods that did not fit
        self._tried: dict[Key, Refusal | None] = {}  # those that are tried now
        self._helped = False  # whether a change since then may make them fit
        self._woken = asyncio.Event()
        self._caches.of(Pod).subscribe(self._pod_changed)
        self._caches.of(Node).subscribe(self._node_changed)
        self._caches.of(Namespace).subscribe(self._namespace_changed)
        self._gangs = Gangs(engine.caches)
        self._gangs.subscribe(self._help)
        for kind in _HELPS:
            self._caches.of(kind).subscribe(lambda _before, _after: self._help())

    async def run(self) -> None:
        tried_s = -_AGAIN_S
        while True:
            await self._woken.wait()
            self._woken.clear()
            self._tried, self._new = dict.fromkeys(self._new), {}
            await self._try(self._tried)
            if not self._helped:
                continue
            wait_s = tried_s + _AGAIN_S - self._engine.clock.monotonic_s()
            if wait_s > 0:
                await self._engine.clock.sleep(wait_s)
            tried_s = self._engine.clock.monotonic_s()
            self._helped = False
            self._tried, self._waiting = self._waiting, {}
            await self._try(self._tried)

    async def _try(self, attempts: Mapping[Key, Refusal | None]) -> None:
        """Schedules the pods. A pod whose last refusal persists is not tried."""
        found = []
        for key, refusal in attempts.items():
            pod = self._caches.of(Pod).get(key)
            if pod is not None and refusal is not None and refusal.persists and _is_mine(pod):
                self._waiting[key] = refusal
            elif pod is not None:
                found.append(pod)
        tried: set[tuple[str, str]] = set()  # gangs
        for pod in sorted(found, key=_turn):
            key = (pod.metadata.namespace, pod.metadata.name)
            current, refusal = self._caches.of(Pod).get(key), attempts[key]
            if current is not None and _is_mine(current):
                gang = self._gangs.of(current)
                if gang is not None:
                    self._waiting[key] = None
                    if gang.name not in tried:
                        tried.add(gang.name)
                        await self._schedule_gang(gang)
                    continue
                if refusal is not None and refusal.persists:  # the pods before it took what was free
                    self._waiting[key] = refusal
                    continue
                try:
                    await self._schedule(current)
                except errors.NotFound:
                    self._node_infos.remove(current)
                except errors.HoldfastError as error:
                    # The pod changed, or the API server did not answer: retry later.
                    if isinstance(error, errors.Unreachable) and await self._is_bound(current):
                        continue  # the response was lost, and the pod is counted on its node
                    self._node_infos.remove(current)
                    self._waiting[key] = None
                    self._help()

    async def _schedule(self, pod: Pod) -> None:
        volumes = scheduling_volumes.find(pod, self._caches)
        placement = self._placements.find(pod, volumes, self._spaces)
        if not placement.node:
            self._waiting[pod.metadata.namespace, pod.metadata.name] = placement.refusal
            await self._refuse(pod, placement.why)
        elif volumes.unbound:
            self._waiting[pod.metadata.namespace, pod.metadata.name] = None
            await self._select(volumes, placement.node)
        else:
            await self._bind(pod, placement.node)

    async def _schedule_gang(self, gang: Gang) -> None:
        """Binds all members that fit if these are enough. Members with unbound volumes are not supported."""
        if not gang.is_complete:
            return
        placed: list[tuple[Pod, str]] = []
        refused: list[tuple[Pod, str]] = []
        for pod in sorted(filter(_is_mine, gang.unbound), key=_turn):
            volumes = scheduling_volumes.find(pod, self._caches)
            placement = self._placements.find(pod, volumes, self._spaces)
            if placement.node:
                self._node_infos.add(pod, placement.node)
                placed.append((pod, placement.node))
            else:
                refused.append((pod, placement.why))
        is_scheduled = not gang.needs_more(len(placed))
        if not is_scheduled:
            for pod, _ in placed:
                self._node_infos.remove(pod)
            refused += [(pod, gang_scheduling.WAITING) for pod, _ in placed]
            placed = []
        for pod, node in placed:
            self._gangs.assumed.add(pod.metadata.uid)
            await self._try_again_on_error(pod, self._bind(pod, node))
        for pod, why in refused:
            await self._try_again_on_error(pod, self._refuse(pod, why))
        status = gang_scheduling.condition(gang, self._engine, is_scheduled=is_scheduled)
        if status is not None and gang.group is not None and (placed or refused):
            with contextlib.suppress(errors.HoldfastError):
                await self._kube.patch(gang.group, status, status=True, only_if_unchanged=True)

    async def _try_again_on_error(self, pod: Pod, write: Awaitable[None]) -> None:
        """A member whose write fails is tried again with its gang."""
        try:
            await write
        except errors.HoldfastError as error:
            if isinstance(error, errors.Unreachable) and await self._is_bound(pod):
                return  # the response was lost, and the pod is counted on its node
            self._node_infos.remove(pod)
            self._gangs.assumed.discard(pod.metadata.uid)
            self._help()

    async def _bind(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        self._node_infos.add(pod, node)
        await self._kube.create(
            Binding(
                metadata=ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid),
                target=ObjectReference(api_version="v1", kind="Node", name=node),
            )
        )

    async def _is_bound(self, pod: Pod) -> bool:
        while True:
            try:
                found = await self._kube.get(Pod, pod.metadata.name, pod.metadata.namespace)
            except errors.NotFound:
                return False
            except errors.HoldfastError:
                await self._engine.clock.sleep(_AGAIN_S)
            else:
                return found.metadata.uid == pod.metadata.uid and bool(pods.node_of(found))

    async def _select(self, volumes: scheduling_volumes.Volumes, node: str) -> None:
        """Sets the selected node on the pod's unbound claims. The pod is tried again when they are bound."""
        for claim, _ in volumes.unbound:
            annotations = {scheduling_volumes.SELECTED_NODE: node}
            if claim.metadata.annotations.get(scheduling_volumes.SELECTED_NODE) is None:
                await self._kube.patch(claim, {"metadata": {"annotations": annotations}})

    async def _refuse(self, pod: Pod, message: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastProbeTime": None,
        }
        before = pods.condition(pod.status, "PodScheduled")
        if all(before.get(name) == value for name, value in condition.items()):
            return
        conditions = pods.with_conditions(pod.status, self._engine.now(), condition)
        await self._kube.patch(
            pod, {"status": {"conditions": conditions}}, status=True, only_if_unchanged=True
        )

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is not None and _is_mine(after):
            key = (after.metadata.namespace, after.metadata.name)
            if before is None or before.metadata.uid != after.metadata.uid or not _is_mine(before):
                self._new[key] = None
                self._woken.set()
            elif before.metadata.labels != after.metadata.labels or before.spec != after.spec:
                for waiting in (self._waiting, self._tried):
                    if key in waiting:
                        waiting[key] = None  # the refusal is one of the old spec
                self._help()
        elif before is not None and pods.node_of(before):
            if after is None or pods.ended(after) or before.metadata.labels != after.metadata.labels:
                self._help()
        elif after is not None and pods.node_of(after):
            self._help()  # another pod may have an affinity to this one

    def _namespace_changed(self, before: Namespace | None, after: Namespace | None) -> None:
        if before is not None:
            self._spaces.pop(before.metadata.name, None)
        if after is not None:
            self._spaces[after.metadata.name] = after.metadata.labels

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or offer(before) != offer(after):
            self._help()

    def _help(self) -> None:
        if self._waiting:
            self._helped = True
            self._woken.set()


def _is_mine(pod: Pod) -> bool:
    return (
        not pods.node_of(pod)
        and pods.active(pod)
        and pod.spec.get("schedulerName", NAME) == NAME
        and not pod.spec.get("schedulingGates")
    )


def _turn(pod: Pod) -> tuple[int, float, Key]:
    created = pod.metadata.creation_timestamp
    age = created.timestamp() if created else 0.0
    return -(pod.spec.get("priority") or 0), age, (pod.metadata.namespace, pod.metadata.name)
