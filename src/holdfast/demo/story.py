"""The story: scales workloads step by step and interrupts a spot instance, in the demo's time.

It deletes no nodes: Holdfast consolidates the empty ones. It never undoes what a user did: a Deployment whose spec
another client has changed, or that was deleted, is not scaled any more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors
from holdfast.api.nodepool import NodePool
from holdfast.demo import manifests
from holdfast.demo.environment import DAY_S, ZONE_A, ZONE_B, Environment, Setup
from holdfast.demo.manifests import GPU, NAMESPACE, TAG
from holdfast.sim.cloud_setup import Reserved
from holdfast.sim.cluster.kinds import Deployment
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import CAPACITY_BLOCK

BLOCK_S: Final = 52 * 60  # drained 40 minutes before its end; EC2 terminates its instances 10 minutes later
SPOT: Final = "spot"

_POOLS: Final = 2
_WAIT_S: Final = (
    600  # for a step that cannot be run, such as the interruption of an instance that never exists
)


@dataclass(frozen=True, slots=True)
class Step:
    at_s: float
    message: str
    workload: str
    replicas: int | None = None  # None: not scaled
    interrupts: str = ""  # the lifecycle of an instance that EC2 interrupts


STEPS: Final = (
    Step(1, "scale web to 3 pods; three m5.xlarge slots are reserved", "web", 3),
    Step(75, "scale api to 2 pods of 6 vCPUs; two c5.2xlarge slots are reserved", "api", 2),
    Step(140, "scale train to 1 pod of 8 GPUs; a capacity block has them until it ends", "train", 1),
    Step(220, "peak: scale web to 5 pods, two more than there are slots", "web", 5),
    Step(
        285,
        "EC2 interrupts a spot instance in two minutes; its node is drained first",
        "web",
        interrupts=SPOT,
    ),
    Step(330, "off-peak: scale web to 1 pod; empty nodes are consolidated", "web", 1),
    Step(520, "peak: scale web to 4 pods; free slots are used first", "web", 4),
    Step(640, "off-peak: scale web to 2 pods", "web", 2),
)
EVERY_S: Final = 300  # after the last step: peak and off-peak alternate
PEAK, OFF_PEAK = 5, 2  # replicas of web


def _reservations(now_s: int) -> tuple[Reserved, ...]:
    return (
        Reserved(instance_type="m5.xlarge", zone_id=ZONE_A, total=3, criteria="targeted", tags=TAG),
        Reserved(instance_type="c5.2xlarge", zone_id=ZONE_B, total=2, criteria="open", tags=TAG),
        Reserved(
            instance_type="p4d.24xlarge",
            zone_id=ZONE_B,
            total=1,
            kind="capacity-block",
            criteria="targeted",
            end_s=now_s + DAY_S,
            tags=TAG,
        ),
    )


SETUP: Final = Setup(_reservations)


class Story:
    def __init__(self, env: Environment, report: Callable[[str], None]) -> None:
        self._env = env
        self._report = report
        self._done = 0  # steps
        self._repeats = 0
        # uid and generation of each Deployment after the last write of the story. The API server increments the
        # generation with every change of the spec.
        self._written: dict[str, tuple[str, int]] = {}

    async def start(self) -> None:
        """Creates the NodePools and the workloads, with no replicas yet."""
        for document in (manifests.node_class(), _general(), _training()):
            await self._env.sandbox.create(document)
        for name, pod in _WORKLOADS.items():
            await self._env.sandbox.create(_deployment(name, pod))
        found = await self._deployments()
        self._written = {name: _version(found[name]) for name in _WORKLOADS}
        self._report("Loading instance types, prices and images from EC2")

    @property
    def is_ready(self) -> bool:
        """Whether all NodePools are Ready, so that nodes can be launched."""
        return sum(manifests.is_ready(pool) for pool in self._env.app.caches.of(NodePool)) >= _POOLS

    async def react(self) -> None:
        """No program beside Holdfast is played."""

    async def advance(self, elapsed_s: float) -> None:
        """Runs the steps that are due, on the workloads that no user has changed."""
        if not self._done:
            self._set_block_end()
        found = await self._deployments()
        self._release_changed(found)
        while self._done < len(STEPS) and STEPS[self._done].at_s <= elapsed_s:
            step = STEPS[self._done]
            if not await self._run(step, found) and elapsed_s < step.at_s + _WAIT_S:
                return  # the next call tries again
            self._done += 1
        if self._done == len(STEPS) and elapsed_s > STEPS[-1].at_s + EVERY_S * (self._repeats + 1):
            is_peak = self._repeats % 2 == 0
            message = "peak: scale web to 5 pods" if is_peak else "off-peak: scale web to 2 pods"
            if await self._run(Step(elapsed_s, message, "web", PEAK if is_peak else OFF_PEAK), found):
                self._repeats += 1

    async def _deployments(self) -> dict[str, Deployment]:
        found = (await self._env.sandbox.kube.list(Deployment)).items
        return {one.metadata.name: one for one in found if one.metadata.namespace == NAMESPACE}

    def _release_changed(self, found: Mapping[str, Deployment]) -> None:
        for name, version in list(self._written.items()):
            if name in found and _version(found[name]) == version:
                continue
            del self._written[name]
            self._report(
                f"Deployment {name} was {_change(found.get(name), version)}; the story leaves it alone"
            )

    async def _run(self, step: Step, found: Mapping[str, Deployment]) -> bool:
        """Whether the step is done. A step on workloads that a user has changed is skipped."""
        if step.workload not in self._written:
            return True
        if step.interrupts and not self._interrupt(step.interrupts):
            return False  # until there is such an instance
        if step.replicas is not None:
            change = {"spec": {"replicas": step.replicas}}
            try:
                written = await self._env.sandbox.kube.patch(
                    found[step.workload], change, only_if_unchanged=True
                )
            except (errors.Conflict, errors.NotFound):
                return False
            self._written[step.workload] = _version(written)
        self._report(step.message)
        return True

    def _set_block_end(self) -> None:
        """Counts the block's end from the first step, however long the start took."""
        ec2 = self._env.sandbox.cloud.ec2.region
        for block in ec2.reservations:
            if block.kind == CAPACITY_BLOCK and block.active:
                control.set_end(ec2, block.id, self._env.clock.now_s() + BLOCK_S)

    def _interrupt(self, lifecycle: str) -> bool:
        """Interrupts an instance of the lifecycle. False: there is none yet."""
        ec2 = self._env.sandbox.cloud.ec2.region
        found = next((one for one in control.running(ec2) if one.lifecycle == lifecycle), None)
        if found is not None:
            control.interrupt_spot(ec2, found.id)
        return found is not None


def _change(now: Deployment | None, version: tuple[str, int]) -> str:
    is_same = now is not None and now.metadata.uid == version[0] and now.metadata.deletion_timestamp is None
    return "changed" if is_same else "deleted"


def _version(deployment: Deployment) -> tuple[str, int]:
    return deployment.metadata.uid, deployment.metadata.generation


# --- Manifests ----------------------------------------------------------------------------------------


def _general() -> dict[str, Any]:
    return manifests.node_pool(
        "general",
        {
            "karpenter.sh/capacity-type": ["reserved", "spot", "on-demand"],
            "karpenter.k8s.aws/instance-family": ["m5", "c5"],
        },
    )


def _training() -> dict[str, Any]:
    taint = {"key": GPU, "effect": "NoSchedule"}
    return manifests.node_pool("training", {"karpenter.sh/capacity-type": ["reserved"]}, taints=[taint])


_WORKLOADS: Final[Mapping[str, dict[str, Any]]] = {
    "web": {"requests": {"cpu": "3", "memory": "12Gi"}},
    "api": {"requests": {"cpu": "6", "memory": "8Gi"}},
    "train": {"requests": {"cpu": "64", GPU: "8"}, "limits": {GPU: "8"}},
}


def _deployment(name: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    tolerations = [{"key": GPU, "operator": "Exists"}] if GPU in resources["requests"] else []
    return manifests.deployment(name, 0, resources, tolerations=tolerations)
