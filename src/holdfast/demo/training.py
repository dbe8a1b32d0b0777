"""The training story: a team with a capacity block runs jobs of Kueue and a gang, in the demo's time.

Its steps only create objects, as a user does. `kueue` plays the part of Kueue, Holdfast does the rest. The times of the
blocks count from the first step.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.nodepool import NodePool
from holdfast.demo import kueue, manifests
from holdfast.demo.environment import DAY_S, ZONE_A, ZONE_B, Environment, Setup
from holdfast.demo.kueue import Kueue
from holdfast.demo.manifests import GPU, NAMESPACE, TAG
from holdfast.sim import optional_crds
from holdfast.sim.cloud_setup import Reserved
from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.sim.ec2 import control

DRAINED_S: Final = 960  # the first block: it ends 40 minutes later
# The second block. kube-scheduler does not know which node is booked for which Job. The empty nodes of `vision` are
# deleted before that time, so that no pod of `pretrain` is bound to a node that is drained before the pod ends.
STARTS_S: Final = 600
END_S: Final = 1080
SLOTS: Final = 4  # of each block
GANG: Final = 2  # pods
BLOCK_TYPE, ODCR_TYPE = "p5.48xlarge", "g5.48xlarge"  # with 8 GPUs
QUEUE_POOL, EVAL_POOL = "training", "eval"

_DRAIN_S: Final = 40 * 60
_GPUS: Final = {"requests": {"cpu": "90", GPU: "8"}, "limits": {GPU: "8"}}
_SHIFT_S: Final = 8 * 3600


@dataclass(frozen=True, slots=True)
class Step:
    at_s: float
    message: str
    documents: tuple[dict[str, Any], ...] = ()


class TrainingStory:
    def __init__(self, env: Environment, report: Callable[[str], None]) -> None:
        self._env = env
        self._report = report
        self._kueue = Kueue(env, QUEUE_POOL, report)
        self._done = 0  # steps

    async def start(self) -> None:
        """Creates the NodePools."""
        for document in (manifests.node_class(), _queue_pool(), _eval_pool()):
            await self._env.sandbox.create(document)
        self._report("Loading instance types, prices and images from EC2")
        self._report("The demo plays Kueue: a Job has no pods until its ProvisioningRequest is Provisioned")

    @property
    def is_ready(self) -> bool:
        pools = [one for one in self._env.app.caches.of(NodePool) if manifests.is_ready(one)]
        return {QUEUE_POOL, EVAL_POOL} <= {one.metadata.name for one in pools}

    async def react(self) -> None:
        await self._kueue.react()

    async def advance(self, elapsed_s: float) -> None:
        """Runs the steps that are due."""
        if not self._done:
            self._set_block_times()
        while self._done < len(STEPS) and STEPS[self._done].at_s <= elapsed_s:
            step = STEPS[self._done]
            self._done += 1
            self._report(step.message)
            for document in step.documents:
                await self._create(document)

    async def _create(self, document: Mapping[str, Any]) -> None:
        try:
            await self._env.sandbox.create(document)
        except errors.HoldfastError as error:
            self._report(f"{document['kind']} {document['metadata']['name']} is not created: {error}")

    def _set_block_times(self) -> None:
        """Counts the times of the blocks from the first step, however long the start took."""
        ec2, now_s = self._env.sandbox.cloud.ec2.region, self._env.clock.now_s()
        for block in ec2.reservations:
            if block.state == "scheduled":
                control.set_start(ec2, block.id, now_s + STARTS_S)
            elif block.end_s:
                control.set_end(ec2, block.id, now_s + DRAINED_S + _DRAIN_S)


# --- Manifests ----------------------------------------------------------------------------------------


def _reservations(now_s: int) -> tuple[Reserved, ...]:
    return (
        _block(0, now_s + DAY_S),
        _block(now_s + DAY_S, now_s + 2 * DAY_S),
        Reserved(instance_type=ODCR_TYPE, zone_id=ZONE_B, total=GANG, criteria="targeted", tags=TAG),
    )


def _block(start_s: int, end_s: int) -> Reserved:
    return Reserved(
        instance_type=BLOCK_TYPE,
        zone_id=ZONE_A,
        total=SLOTS,
        kind="capacity-block",
        criteria="targeted",
        tags=TAG,
        start_s=start_s,
        end_s=end_s,
    )


def _queue_pool() -> dict[str, Any]:
    """As in docs/training.md: the taint keeps all pods out that do not come from the queue."""
    return manifests.node_pool(
        QUEUE_POOL,
        {"karpenter.sh/capacity-type": ["reserved"], "node.kubernetes.io/instance-type": [BLOCK_TYPE]},
        {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]},
        taints=[{"key": names.BOOKING_TAINT, "effect": "NoSchedule"}],
    )


def _eval_pool() -> dict[str, Any]:
    return manifests.node_pool(
        EVAL_POOL,
        {"karpenter.sh/capacity-type": ["reserved"], "node.kubernetes.io/instance-type": [ODCR_TYPE]},
    )


def _job(name: str, count: int, *, runs_s: int, at_most_s: int | None) -> dict[str, Any]:
    """A suspended Job of the queue. `runs_s`: how long its simulated pods run."""
    container = {"name": "train", "image": f"example/{name}:1", "resources": _GPUS}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": kueue.QUEUE,
            "annotations": {} if at_most_s is None else {kueue.RUN_TIME: str(at_most_s)},
        },
        "spec": {
            "suspend": True,
            "completions": count,
            "parallelism": count,
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": {RUNS_FOR: str(runs_s)}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def _pod_group() -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "eval", "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"gang": {"minCount": GANG}}},
    }


def _member(name: str) -> dict[str, Any]:
    return manifests.deployment(name, 1, _GPUS, schedulingGroup={"podGroupName": "eval"})


STEPS: Final = (
    Step(
        1,
        "Job llama, 3 pods of 8 GPUs for at most 6 minutes: the block has 4 free slots",
        (_job("llama", 3, runs_s=300, at_most_s=360),),
    ),
    Step(
        90,
        "Job vision, 2 pods: the block has one free slot, so nothing is launched",
        (_job("vision", 2, runs_s=120, at_most_s=180),),
    ),
    Step(
        165,
        "Job pretrain, 2 pods for at most 8 hours: longer than the block lasts",
        (_job("pretrain", 2, runs_s=_SHIFT_S, at_most_s=_SHIFT_S),),
    ),
    Step(
        240,
        "Job sweep, 1 pod without a run time: it may use the free slot until the block ends",
        (_job("sweep", 1, runs_s=_SHIFT_S, at_most_s=None),),
    ),
    Step(
        400,
        "PodGroup eval needs 2 pods and has one, so nothing is launched",
        (_pod_group(), _member("eval-leader")),
    ),
    Step(
        450,
        "the second pod of PodGroup eval: both nodes are launched with one call",
        (_member("eval-worker"),),
    ),
    Step(STARTS_S, "the next capacity block starts; pretrain has waited for it"),
    Step(DRAINED_S, "the first block ends in 40 minutes: sweep moves to the next one"),
    Step(END_S, "end of the story; the demo goes on, and starts the Jobs that you add to the queue"),
)
SETUP: Final = Setup(_reservations, (optional_crds.PROVISIONING_REQUESTS, optional_crds.POD_GROUPS))
