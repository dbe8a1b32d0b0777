"""Known weaknesses of Karpenter that Holdfast does not have, shown with the running controllers."""

import msgspec
import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import ONE_PER_NODE, kinds_of_nodes, pool
from holdfast import names
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim, NodeClaimStatus


@pytest.mark.fact("W-14")
def test_node_of_an_ended_reservation_moves_into_a_slot_of_another_reservation() -> None:
    async def program(env: AppEnvironment) -> None:
        ends_s = env.clock.now_s() + 600
        first, second = env.reserve(total=1, end_s=ends_s), env.reserve(total=1)
        await pool(env, first, second)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert env.in_reservation(first) == 1  # the reservation that ends first is used first
        await env.sleep(ends_s - env.clock.now_s() - 10)
        assert env.in_reservation(first) == 1

        async def moved() -> bool:
            return env.in_reservation(second) == 1 and await kinds_of_nodes(env) == ["reserved"]

        await env.until(moved, within_s=300)
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("W-10")
def test_unlaunched_nodeclaim_does_not_block_provisioning_or_consolidation() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await pool(env, slots)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (first,) = await env.claims()
        annotations = {
            names.RESERVATION_ID: slots.id,
            names.WAITS_FOR_INSTANCE: first.status.provider_id or "",
        }
        meta = ObjectMeta(name="waits", labels=first.metadata.labels, annotations=annotations)
        await env.kube.create(msgspec.structs.replace(first, metadata=meta, status=NodeClaimStatus()))
        await env.sleep(60)
        await env.deploy("bought", 3, **ONE_PER_NODE, nodeSelector={names.CAPACITY_TYPE: "on-demand"})
        assert await env.until_running(3, "bought") < 60
        await env.scale("bought", 0)

        async def fewer() -> bool:
            return len(await env.nodes()) == 1

        await env.until(fewer)
        assert not (await env.kube.get(NodeClaim, "waits")).status.provider_id

    app_environment.run(program)


@pytest.mark.fact("R-31")
def test_nodeclaim_gets_the_labels_of_its_instance_and_keeps_its_own_labels() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.sleep(20)
        spec = {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [instance_types("m5.large"), capacity_types("reserved")],
        }
        own = {"karpenter.k8s.aws/instance-family": "mine", "team": "web"}
        claim = {"metadata": {"name": "by-hand", "labels": own}, "spec": spec}
        await env.create("/apis/karpenter.sh/v1/nodeclaims", claim)

        async def registered() -> bool:
            return bool((await env.kube.get(NodeClaim, "by-hand")).status.node_name)

        await env.until(registered)
        (node,), (found,) = await env.nodes(), await env.claims()
        for labels in (found.metadata.labels, node.metadata.labels):
            assert labels[names.CAPACITY_TYPE] == "reserved"
            assert labels[names.ZONE] == "us-west-2a"
            assert labels[names.INSTANCE_TYPE] == "m5.large"
            assert labels["karpenter.k8s.aws/capacity-reservation-id"] == slots.id
            assert labels.items() >= own.items()

    app_environment.run(program)
