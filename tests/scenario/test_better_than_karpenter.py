"""Known weaknesses of Karpenter that Holdfast does not have, shown with the running controllers."""

import msgspec
import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from disruption_world import ONE_PER_NODE, kinds_of_nodes, pool
from holdfast import names
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim, NodeClaimStatus


@pytest.mark.fact("W-14")
def test_node_of_an_ended_reservation_moves_into_a_slot_of_another_reservation() -> None:
    async def program(world: AppWorld) -> None:
        ends_s = world.clock.now_s() + 600
        first, second = world.reserve(total=1, end_s=ends_s), world.reserve(total=1)
        await pool(world, first, second)
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        assert world.in_reservation(first) == 1  # the reservation that ends first is used first
        await world.sleep(ends_s - world.clock.now_s() - 10)
        assert world.in_reservation(first) == 1

        async def moved() -> bool:
            return world.in_reservation(second) == 1 and await kinds_of_nodes(world) == ["reserved"]

        await world.until(moved, within_s=300)
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("W-10")
def test_unlaunched_nodeclaim_does_not_block_provisioning_or_consolidation() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await pool(world, slots)
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        (first,) = await world.claims()
        annotations = {
            names.RESERVATION_ID: slots.id,
            names.WAITS_FOR_INSTANCE: first.status.provider_id or "",
        }
        meta = ObjectMeta(name="waits", labels=first.metadata.labels, annotations=annotations)
        await world.kube.create(msgspec.structs.replace(first, metadata=meta, status=NodeClaimStatus()))
        await world.sleep(60)
        await world.deploy("bought", 3, **ONE_PER_NODE, nodeSelector={names.CAPACITY_TYPE: "on-demand"})
        assert await world.until_running(3, "bought") < 60
        await world.scale("bought", 0)

        async def fewer() -> bool:
            return len(await world.nodes()) == 1

        await world.until(fewer)
        assert not (await world.kube.get(NodeClaim, "waits")).status.provider_id

    app_world.run(program)


@pytest.mark.fact("R-31")
def test_nodeclaim_gets_the_labels_of_its_instance_and_keeps_its_own_labels() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await world.sleep(20)
        spec = {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [instance_types("m5.large"), capacity_types("reserved")],
        }
        own = {"karpenter.k8s.aws/instance-family": "mine", "team": "web"}
        claim = {"metadata": {"name": "by-hand", "labels": own}, "spec": spec}
        await world.create("/apis/karpenter.sh/v1/nodeclaims", claim)

        async def registered() -> bool:
            return bool((await world.kube.get(NodeClaim, "by-hand")).status.node_name)

        await world.until(registered)
        (node,), (found,) = await world.nodes(), await world.claims()
        for labels in (found.metadata.labels, node.metadata.labels):
            assert labels[names.CAPACITY_TYPE] == "reserved"
            assert labels[names.ZONE] == "us-west-2a"
            assert labels[names.INSTANCE_TYPE] == "m5.large"
            assert labels["karpenter.k8s.aws/capacity-reservation-id"] == slots.id
            assert labels.items() >= own.items()

    app_world.run(program)
