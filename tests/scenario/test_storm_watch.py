"""Whoever watches storms sees what must not happen: here people do it by hand, while the program is cut off.

Two nodes, a small one with a pod and a big one that is full; an order on a claim is as the program would write it.
"""

import json
from collections.abc import Awaitable, Callable

import pytest

import app_world
import aws_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2.entities import Reservation
from storms.generate import App, Pool, Storm
from storms.watch import COMMAND, SLOT, WAITS, WAITS_MAX_S, Watch

TYPES = {"small": "m5.large", "big": "m5.xlarge"}
STORM = Storm(
    seed=0,
    slots=(),
    pools=tuple(
        Pool(name, (type_,), ("reserved",), (), 0, None, tainted=False) for name, type_ in TYPES.items()
    ),
    apps=(App("web", 1, 1400, (), tolerates=False), App("batch", 1, 3500, (), tolerates=False)),
    steps=(),
    weather=(),
    replicas=1,
)


class Stage:
    """What is on it, and who watches."""

    def __init__(self, world: AppWorld) -> None:
        self.world = world
        self.watch = Watch(STORM)

    async def build(self) -> None:
        world = self.world
        self.slots: Reservation = world.reserve("m5.large", 1)
        self.watch.start(world)
        for name, type_ in TYPES.items():
            terms = {"capacityReservationSelectorTerms": [{"id": self.slots.id}]} if name == "small" else {}
            await world.node_class(name, **terms)
            kinds = ("reserved",) if terms else ("on-demand",)
            await world.node_pool(
                name,
                requirements=[instance_types(type_), capacity_types(*kinds)],
                nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
            )
        await world.deploy("web", 1, cpu="1400m")
        await world.deploy("batch", 1, cpu="3500m")
        await world.until_running(1, "web")
        await world.until_running(1, "batch")
        await world.sleep(70)  # until nobody can say that it was too soon to know
        world.line.go_down()
        by_pool = {one.metadata.labels["karpenter.sh/nodepool"]: one for one in await world.claims()}
        self.small, self.big = by_pool["small"], by_pool["big"]
        assert self.watch.problems([]) == []

    async def order(self, claim: NodeClaim, reason: str = "Drifted", *replacements: str) -> NodeClaim:
        order = {"id": "1", "reason": reason}
        return await self.annotate(claim, COMMAND, json.dumps(order | {"replacements": replacements}))

    async def annotate(self, claim: NodeClaim, key: str, value: str) -> NodeClaim:
        return await self.world.kube.patch(claim, {"metadata": {"annotations": {key: value}}})


async def goes_without_an_order(stage: Stage) -> None:
    await stage.world.kube.delete(stage.small)


async def goes_with_pods_that_fit_nowhere(stage: Stage) -> None:
    await stage.world.kube.delete(await stage.order(stage.small))


async def goes_for_something_dearer(stage: Stage) -> None:
    await stage.world.kube.delete(await stage.order(stage.small, "Underutilized", stage.big.metadata.name))


async def goes_first_for_another_slot(stage: Stage) -> None:
    waits = await stage.annotate(stage.big, SLOT, "cr-another")
    await stage.annotate(waits, WAITS, stage.small.status.provider_id or "")
    await stage.world.kube.delete(await stage.order(stage.small, "Drifted", waits.metadata.name))


async def ends_with_pods_on_it(stage: Stage) -> None:
    called = {"InstanceIds": [(stage.small.status.provider_id or "").rpartition("/")[2]]}
    stage.world.ec2.call("TerminateInstances", called, Caller(aws_world.ACCOUNT, "", ""))
    said = {"type": "InstanceTerminating", "status": "True", "reason": "Ended", "message": ""}
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    await stage.world.kube.patch(
        stage.small, {"status": {"conditions": [said | since]}}, status=True, only_if_unchanged=True
    )


async def moves_a_pod_twice(stage: Stage) -> None:
    for claim in (stage.small, stage.big):
        await stage.order(claim, "Underutilized")
    for _ in range(2):
        (pod,) = await stage.world.pods("web")
        await stage.world.kube.evict("default", pod.metadata.name, pod.metadata.uid)
        await stage.world.sleep(30)


async def gives_a_slot_twice(stage: Stage) -> None:
    document = {
        "metadata": {
            "name": "another",
            "labels": {"karpenter.sh/nodepool": "small"},
            "annotations": {SLOT: stage.slots.id},
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "small"},
            "requirements": [capacity_types("reserved")],
        },
    }
    await stage.world.create("/apis/karpenter.sh/v1/nodeclaims", document)


async def waits_without_end(stage: Stage) -> None:
    await ends_with_pods_on_it(stage)
    await stage.annotate(stage.big, WAITS, stage.small.status.provider_id or "")
    await stage.world.sleep(90)
    stage.world.skip(WAITS_MAX_S)
    stage.watch.look()


@pytest.mark.parametrize(
    ("offence", "says"),
    [
        (goes_without_an_order, "nobody ordered it"),
        (goes_with_pods_that_fit_nowhere, "have no home when it goes"),
        (goes_for_something_dearer, "raises 0 to"),
        (goes_first_for_another_slot, "its slot is not held by one claim"),
        (ends_with_pods_on_it, "was ended under"),
        (moves_a_pod_twice, "was moved again too soon"),
        (gives_a_slot_twice, "and is given to"),
        (waits_without_end, "waits for the slot of"),
    ],
)
def test_what_must_not_happen_is_seen(offence: Callable[[Stage], Awaitable[None]], says: str) -> None:
    async def program(world: AppWorld) -> None:
        stage = Stage(world)
        await stage.build()
        await offence(stage)
        assert any(says in problem for problem in stage.watch.problems([])), stage.watch.problems([])

    app_world.run(program)
