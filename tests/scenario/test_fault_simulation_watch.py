"""The checker of the fault simulation reports forbidden actions, done here while the controllers are disconnected.

Two nodes: a small one with a pod, and a big one that is full. DisruptionCommands are as Holdfast writes them.
"""

import json
from collections.abc import Awaitable, Callable

import pytest

import app_environment
import aws_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from fault_simulation.generate import App, FaultSchedule, Pool
from fault_simulation.watch import COMMAND, SLOT, WAITS, WAITS_MAX_S, Watch
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2.entities import Reservation

TYPES = {"small": "m5.large", "big": "m5.xlarge"}
SCHEDULE = FaultSchedule(
    seed=0,
    slots=(),
    pools=tuple(
        Pool(name, (type_,), ("reserved",), (), 0, None, tainted=False) for name, type_ in TYPES.items()
    ),
    apps=(App("web", 1, 1400, (), tolerates=False), App("batch", 1, 3500, (), tolerates=False)),
    steps=(),
    ec2_faults=(),
    replicas=1,
)


class TwoNodes:
    """The two nodes, and the checker."""

    def __init__(self, env: AppEnvironment) -> None:
        self.env = env
        self.watch = Watch(SCHEDULE)

    async def build(self) -> None:
        env = self.env
        self.slots: Reservation = env.reserve("m5.large", 1)
        self.watch.start(env)
        for name, type_ in TYPES.items():
            terms = {"capacityReservationSelectorTerms": [{"id": self.slots.id}]} if name == "small" else {}
            await env.node_class(name, **terms)
            kinds = ("reserved",) if terms else ("on-demand",)
            await env.node_pool(
                name,
                requirements=[instance_types(type_), capacity_types(*kinds)],
                nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
            )
        await env.deploy("web", 1, cpu="1400m")
        await env.deploy("batch", 1, cpu="3500m")
        await env.until_running(1, "web")
        await env.until_running(1, "batch")
        await env.sleep(70)  # past the checker's tolerance for recent changes
        env.line.go_down()
        by_pool = {one.metadata.labels["karpenter.sh/nodepool"]: one for one in await env.claims()}
        self.small, self.big = by_pool["small"], by_pool["big"]
        assert self.watch.problems([]) == []

    async def set_command(self, claim: NodeClaim, reason: str = "Drifted", *replacements: str) -> NodeClaim:
        command = {"id": "1", "reason": reason}
        return await self.annotate(claim, COMMAND, json.dumps(command | {"replacements": replacements}))

    async def annotate(self, claim: NodeClaim, key: str, value: str) -> NodeClaim:
        return await self.env.kube.patch(claim, {"metadata": {"annotations": {key: value}}})


async def deletes_without_a_command(cluster: TwoNodes) -> None:
    await cluster.env.kube.delete(cluster.small)


async def deletes_with_pods_that_fit_on_no_node(cluster: TwoNodes) -> None:
    await cluster.env.kube.delete(await cluster.set_command(cluster.small))


async def replaces_with_a_more_expensive_node(cluster: TwoNodes) -> None:
    await cluster.env.kube.delete(
        await cluster.set_command(cluster.small, "Underutilized", cluster.big.metadata.name)
    )


async def deletes_first_for_a_replacement_in_another_slot(cluster: TwoNodes) -> None:
    waiting_claim = await cluster.annotate(cluster.big, SLOT, "cr-another")
    await cluster.annotate(waiting_claim, WAITS, cluster.small.status.provider_id or "")
    await cluster.env.kube.delete(
        await cluster.set_command(cluster.small, "Drifted", waiting_claim.metadata.name)
    )


async def terminates_with_pods(cluster: TwoNodes) -> None:
    request = {"InstanceIds": [(cluster.small.status.provider_id or "").rpartition("/")[2]]}
    cluster.env.ec2.call("TerminateInstances", request, Caller(aws_environment.ACCOUNT, "", ""))
    condition = {"type": "InstanceTerminating", "status": "True", "reason": "Ended", "message": ""}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    await cluster.env.kube.patch(
        cluster.small, {"status": {"conditions": [condition | since]}}, status=True, only_if_unchanged=True
    )


async def moves_a_pod_twice(cluster: TwoNodes) -> None:
    for claim in (cluster.small, cluster.big):
        await cluster.set_command(claim, "Underutilized")
    for _ in range(2):
        (pod,) = await cluster.env.pods("web")
        await cluster.env.kube.evict("default", pod.metadata.name, pod.metadata.uid)
        await cluster.env.sleep(30)


async def holds_a_slot_twice(cluster: TwoNodes) -> None:
    document = {
        "metadata": {
            "name": "another",
            "labels": {"karpenter.sh/nodepool": "small"},
            "annotations": {SLOT: cluster.slots.id},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "small"},
            "requirements": [capacity_types("reserved")],
        },
    }
    await cluster.env.create("/apis/karpenter.sh/v1/nodeclaims", document)


async def waits_forever(cluster: TwoNodes) -> None:
    await terminates_with_pods(cluster)
    await cluster.annotate(cluster.big, WAITS, cluster.small.status.provider_id or "")
    await cluster.env.sleep(90)
    cluster.env.skip(WAITS_MAX_S)
    cluster.watch.look()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (deletes_without_a_command, "is deleted without a command"),
        (deletes_with_pods_that_fit_on_no_node, "fit on no node when it is deleted"),
        (replaces_with_a_more_expensive_node, "raises 0 to"),
        (deletes_first_for_a_replacement_in_another_slot, "its slot is not held by one claim"),
        (terminates_with_pods, "was terminated under"),
        (moves_a_pod_twice, "was moved again too soon"),
        (holds_a_slot_twice, "and is given to"),
        (waits_forever, "waits for the slot of"),
    ],
)
def test_checker_reports_every_forbidden_action(
    action: Callable[[TwoNodes], Awaitable[None]], message: str
) -> None:
    async def program(env: AppEnvironment) -> None:
        cluster = TwoNodes(env)
        await cluster.build()
        await action(cluster)
        assert any(message in problem for problem in cluster.watch.problems([])), cluster.watch.problems([])

    app_environment.run(program)


def test_checker_reports_a_node_that_is_launched_next_to_a_free_slot() -> None:
    """Without ReservedCapacity, Holdfast uses no slots."""

    async def program(env: AppEnvironment) -> None:
        watch = Watch(SCHEDULE)
        watch.start(env)
        slots = env.reserve("m5.large", 1)
        await env.node_class("small", capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            "small",
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")],
            nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "small"},
        )
        await env.deploy("web", 1, cpu="1400m")
        await env.until_running(1, "web")
        assert [
            problem
            for problem in watch.problems([])
            if f"1 slots of {slots.id} (m5.large) were unused" in problem
        ]
        assert [problem for problem in watch.unused_now() if "runs on demand (m5.large)" in problem]

    app_environment.run(program, settings=app_environment.without_reserved(app_environment.SETTINGS))
