"""The story: what users of the cluster do, act by act, in the demo's own time.

Played by `holdfast demo`. Nobody ends nodes here: those that nothing runs on any more are ended by the program itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.api import conditions
from holdfast.api.nodepool import NodePool
from holdfast.demo.stage import TAG, Stage
from holdfast.sim.cluster.kinds import Deployment
from holdfast.sim.ec2 import control, setup
from holdfast.sim.ec2.entities import CAPACITY_BLOCK

BLOCK_S: Final = 52 * 60  # it is drained 40 minutes before its end, and EC2 takes it back 10 minutes later
SPOT: Final = "spot"

_DISCOVERY: Final = [{"tags": {"karpenter.sh/discovery": setup.CLUSTER}}]
_POOLS: Final = 2
_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Act:
    at_s: float
    says: str
    replicas: Mapping[str, int]
    interrupts: str = ""  # the lifecycle of an instance that EC2 takes back


ACTS: Final = (
    Act(1, "web wants 3 pods; three m5.xlarge slots are paid for", {"web": 3}),
    Act(75, "api wants 2 pods of 6 processors; two c5.2xlarge slots are paid for", {"api": 2}),
    Act(140, "a training job wants 8 GPUs; a capacity block has them, but not for long", {"train": 1}),
    Act(220, "a busy hour: web wants 5 pods, two more than there are slots", {"web": 5}),
    Act(285, "EC2 takes a spot instance back in two minutes: its pods run elsewhere before", {}, SPOT),
    Act(330, "a quiet hour: web wants 1 pod; nodes that fall empty are ended", {"web": 1}),
    Act(520, "busy again: web wants 4 pods; the free slots come first", {"web": 4}),
    Act(640, "quiet: web wants 2 pods", {"web": 2}),
)
EVERY_S: Final = 300  # after the last act: busy and quiet hours in turn
BUSY: Final = {"web": 5}
QUIET: Final = {"web": 2}


class Story:
    def __init__(self, stage: Stage, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._say = say
        self._played = 0
        self._turns = 0

    async def begin(self) -> None:
        for document in (_node_class(), _general(), _training()):
            await self._stage.world.create(document)
        for name, pod in _WORKLOADS.items():
            await self._stage.world.create(_deployment(name, pod))
        self._say("EC2 is being asked for instance types, prices and images")

    @property
    def can_go_on(self) -> bool:
        """Whether nodes can be launched yet."""
        return sum(_is_ready(pool) for pool in self._stage.app.caches.of(NodePool)) == _POOLS

    async def go_on(self, elapsed_s: float) -> None:
        """Plays what is due."""
        if not self._played:
            self._date_the_block()
        while self._played < len(ACTS) and ACTS[self._played].at_s <= elapsed_s:
            if not self._interrupt(ACTS[self._played].interrupts):
                break  # until there is such an instance
            await self._play(ACTS[self._played])
            self._played += 1
        if self._played == len(ACTS) and elapsed_s > ACTS[-1].at_s + EVERY_S * (self._turns + 1):
            self._turns += 1
            is_busy = self._turns % 2 == 1
            says = "busy: web wants 5 pods" if is_busy else "quiet: web wants 2 pods"
            await self._play(Act(elapsed_s, says, BUSY if is_busy else QUIET))

    async def _play(self, act: Act) -> None:
        self._say(act.says)
        for name, replicas in act.replicas.items():
            deployment = await self._stage.world.kube.get(Deployment, name, "default")
            await self._stage.world.kube.patch(deployment, {"spec": {"replicas": replicas}})

    def _date_the_block(self) -> None:
        """It is to end while somebody watches, however long the start took."""
        ec2 = self._stage.world.cloud.ec2.world
        block = next(one for one in ec2.reservations if one.kind == CAPACITY_BLOCK)
        control.set_end(ec2, block.id, self._stage.clock.now_s() + BLOCK_S)

    def _interrupt(self, lifecycle: str) -> bool:
        """Whether there was an instance to take back, where one is to be."""
        ec2 = self._stage.world.cloud.ec2.world
        found = next((one for one in control.running(ec2) if one.lifecycle == lifecycle), None)
        if lifecycle and found is not None:
            control.interrupt_spot(ec2, found.id)
        return not lifecycle or found is not None


def _is_ready(pool: NodePool) -> bool:
    ready = conditions.find(pool.status.conditions, conditions.READY)
    return ready is not None and ready.status == "True"


# --- What is written to the cluster -------------------------------------------------------------------


def _node_class() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": f"KarpenterNodeRole-{setup.CLUSTER}",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": _DISCOVERY,
            "securityGroupSelectorTerms": _DISCOVERY,
            "capacityReservationSelectorTerms": [{"tags": TAG}],
        },
    }


def _general() -> dict[str, Any]:
    return _pool(
        "general",
        {
            "karpenter.sh/capacity-type": ["reserved", "spot", "on-demand"],
            "karpenter.k8s.aws/instance-family": ["m5", "c5"],
        },
    )


def _training() -> dict[str, Any]:
    taint = {"key": _GPU, "effect": "NoSchedule"}
    return _pool("training", {"karpenter.sh/capacity-type": ["reserved"]}, taints=[taint])


def _pool(name: str, allowed: Mapping[str, list[str]], **spec: Any) -> dict[str, Any]:
    requirements = [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements, **spec}},
            "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "50%"}]},
        },
    }


_WORKLOADS: Final[Mapping[str, dict[str, Any]]] = {
    "web": {"requests": {"cpu": "3", "memory": "12Gi"}},
    "api": {"requests": {"cpu": "6", "memory": "8Gi"}},
    "train": {"requests": {"cpu": "64", _GPU: "8"}, "limits": {_GPU: "8"}},
}


def _deployment(name: str, resources: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app": name}
    pod = {
        "containers": [{"name": "main", "image": f"example/{name}:1", "resources": resources}],
        "tolerations": [{"key": _GPU, "operator": "Exists"}] if _GPU in resources["requests"] else [],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
