"""Records a run from the side of EC2 and of the API server: samples of EC2's state, and watches of pods and nodes.

Runs in the event loop of the sandbox. The program under test is not asked.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from bench.duel import settings
from bench.duel.measures import PodTimes, Sample
from holdfast.app.sandbox import Sandbox
from holdfast.runtime.cache import Cache, Handler
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.runtime.reflector import Reflector
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.kinds import Node, Pod
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation
from holdfast.sim.ec2.region_state import RegionState
from recorders import KeepingRecorder


class Recording:
    def __init__(self, env: Sandbox) -> None:
        self._env = env
        self.samples: list[Sample] = []
        self.pods: dict[str, PodTimes] = {}  # by uid
        self.instance_of_node: dict[str, str] = {}
        self.launched: dict[str, Instance] = {}  # instances of NodePools, as they were first sampled
        self.ended: set[str] = set()
        self.reservation_of: dict[str, str] = {}  # by instance: the last one that it was in
        self.lost: set[str] = set()  # pods whose instance ended before they were deleted
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [
            self._watch(Pod, self._pod),
            self._watch(Node, self._node),
            asyncio.create_task(self._sample()),
        ]

    async def stop(self) -> None:
        self.samples.append(self.sample())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- The API server -----------------------------------------------------------------------------

    def _watch(self, kind: type[Any], changed: Handler[Any]) -> "asyncio.Task[None]":
        clock = RealClock()
        cache = Cache(kind, clock=clock)
        cache.subscribe(changed)
        reflector = Reflector(
            cache, kube=self._env.kube, clock=clock, ids=RealIds(), recorder=KeepingRecorder()
        )
        return asyncio.create_task(reflector.run())

    def _pod(self, before: Pod | None, after: Pod | None) -> None:
        now_s, pod = time.monotonic(), after or before
        assert pod is not None
        app = pod.metadata.labels.get("app", "")
        if app not in settings.APPS:
            return
        times = self.pods.setdefault(pod.metadata.uid, PodTimes(pod.metadata.name, app, now_s))
        times.node = pods.node_of(pod) or times.node
        if after is None:
            times.gone_s = now_s
        elif pods.is_terminating(after):
            times.deleting_s = times.deleting_s or now_s
        elif pods.ready(after):
            times.ready_s = times.ready_s or now_s

    def _node(self, _before: Node | None, after: Node | None) -> None:
        if after is not None and after.spec.get("providerID"):
            self.instance_of_node[after.metadata.name] = str(after.spec["providerID"]).rpartition("/")[2]

    # --- EC2 ----------------------------------------------------------------------------------------

    async def _sample(self) -> None:
        while True:
            self.samples.append(self.sample())
            await asyncio.sleep(settings.SAMPLE_S)

    def sample(self) -> Sample:
        region = self._env.cloud.ec2.region
        ours = [one for one in region.instances if settings.POOL_TAG in one.tags]
        self._note(ours)
        running = [one for one in ours if one.is_pending_or_running]
        outside = {one.id: one for one in running if not one.reservation_id}
        known = [
            region.reservations[one] for one in settings.APP_OF_RESERVATION if one in region.reservations
        ]
        return Sample(
            at_s=time.monotonic(),
            free=_count(
                {settings.APP_OF_RESERVATION[one.id]: one.available} for one in known if _can_launch(one)
            ),
            pods_outside=Counter(
                one.app for one in self.pods.values() if one.is_active and self._instance(one) in outside
            ),
            outside=Counter(settings.APP_OF_POOL[one.tags[settings.POOL_TAG]] for one in outside.values()),
            oversold=sum(_oversold(region, one) for one in known),
            in_reservation=Counter(one.reservation_id for one in running if one.reservation_id),
            elsewhere={one.id: one.elsewhere for one in known},
            nodes=Counter(one.tags[settings.POOL_TAG] for one in running),
            vcpus=_count(
                {one.tags[settings.POOL_TAG]: region.types[one.instance_type].vcpus} for one in running
            ),
            ready=Counter(one.app for one in self.pods.values() if one.is_active and one.ready_s is not None),
        )

    def _instance(self, pod: PodTimes) -> str:
        return self.instance_of_node.get(pod.node, "")

    def _note(self, ours: Iterable[Instance]) -> None:
        for one in ours:
            self.launched.setdefault(one.id, one)
            if one.reservation_id:
                self.reservation_of[one.id] = one.reservation_id
            if not one.is_pending_or_running and one.id not in self.ended:
                self.ended.add(one.id)
                self._find_lost(one.id)

    def _find_lost(self, instance: str) -> None:
        self.lost |= {
            uid for uid, pod in self.pods.items() if pod.is_active and self._instance(pod) == instance
        }


def _count(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for one in counts:
        found.update(one)
    return found


def _can_launch(one: Reservation) -> bool:
    """A block counts until 40 minutes before its end, when both programs stop to launch into it."""
    closed = one.kind == CAPACITY_BLOCK and time.time() >= one.end_s - settings.BLOCK_LEAD_S
    return one.active and not closed


def _oversold(region: RegionState, one: Reservation) -> int:
    held = sum(instance.held_reservation_id == one.id for instance in region.instances)
    return max(0, held + one.elsewhere + one.lent - one.total)
