"""Values of users that once stopped the controllers for the whole cluster."""

from typing import Any

import app_world
import builders
from app_world import AppWorld
from disruption_world import ONE_PER_NODE
from holdfast.api.nodepool import NodePool

LONG = "9" * 5000
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, *requests: dict[str, str], **spec: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{n}", "image": "i", "resources": {"requests": one}} for n, one in enumerate(requests)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": containers} | spec,
    }


async def base(world: AppWorld, **disruption: Any) -> None:
    await world.node_class()
    every = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]} | disruption
    await world.node_pool(requirements=[app_world.instance_types("m5.large")], disruption=every)


def test_pod_with_requests_beyond_64_bits_gets_an_event_and_other_pods_get_nodes() -> None:
    async def program(world: AppWorld) -> None:
        await base(world)
        await world.create(PODS, pod("huge", {"cpu": "9E"}, {"cpu": "1"}))
        await world.create(
            PODS, pod("deep", {"memory": "9E"}, initContainers=[{"name": "i", "image": "i"}], overhead={})
        )
        await world.deploy("web", 1, cpu="1500m")
        await world.until_running(1)
        await world.restart()
        await world.deploy("late", 1, cpu="1500m")
        await world.until_running(1, "late")
        pods_with_event = {event.involved_object.name for event in await world.events("FailedScheduling")}
        assert {"huge", "deep"} <= pods_with_event
        assert len(world.machines) == 2

    app_world.run(program)


def test_budget_of_five_thousand_digits_blocks_only_its_nodepool_until_it_is_fixed() -> None:
    async def program(world: AppWorld) -> None:
        await base(world)
        document = builders.nodepool_document(
            "odd", requirements=[app_world.instance_types("m5.large")], labels={"pool": "odd"}
        )
        bad = [{"nodes": LONG}, {"nodes": "1", "schedule": f"*/{LONG} * * * *", "duration": "1h"}]
        document["spec"]["disruption"] = {"consolidateAfter": "0s", "budgets": bad}
        await world.create("/apis/karpenter.sh/v1/nodepools", document)
        await world.deploy("web", 2, **ONE_PER_NODE, nodeSelector={"karpenter.sh/nodepool": "default"})
        await world.deploy("odd", 1, cpu="1500m", nodeSelector={"pool": "odd"})
        await world.until_running(2)
        await world.until_running(1, "odd")
        for app in ("web", "odd"):
            await world.scale(app, 0)

        async def pools(*expected: str) -> bool:
            return sorted(c.metadata.labels["karpenter.sh/nodepool"] for c in await world.claims()) == list(
                expected
            )

        await world.until(lambda: pools("odd"), within_s=600)
        await world.sleep(120)
        assert await pools("odd")
        pool = await world.kube.get(NodePool, "odd")
        await world.kube.patch(
            pool, {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}, only_if_unchanged=True
        )
        await world.until(pools, within_s=600)

    app_world.run(program)


def test_a_termination_grace_period_beyond_every_date_ends_in_the_year_9999() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(
            requirements=[app_world.instance_types("m5.large")], terminationGracePeriod="99999999h"
        )
        await world.deploy("web", 1, cpu="1500m")
        await world.until_running(1)
        (claim,) = await world.claims()
        await world.scale("web", 0)
        await world.kube.delete(claim)

        async def ended() -> bool:
            return not await world.claims() and not world.machines

        await world.until(ended, within_s=600)
        events = await world.events("TerminationGracePeriodExpiring")
        assert "9999-12-31T23:59:59Z" in events[0].message

    app_world.run(program)


def test_unreadable_nodepool_gets_a_condition_and_other_nodepools_launch_nodes() -> None:
    async def program(world: AppWorld) -> None:
        await base(world)
        document = builders.nodepool_document("odd", requirements=[app_world.instance_types("m5.large")])
        document["spec"] |= {"limits": {"cpu": "1e1.5"}, "weight": 100}
        await world.create("/apis/karpenter.sh/v1/nodepools", document)
        await world.deploy("web", 1, cpu="1500m")
        await world.until_running(1)
        (claim,) = await world.claims()
        assert claim.metadata.labels["karpenter.sh/nodepool"] == "default"
        pool = await world.kube.get(NodePool, "odd")
        (condition,) = [one for one in pool.status.conditions if one.type == "ValidationSucceeded"]
        assert condition.status == "False"
        assert "spec.limits.cpu" in (condition.message or "")

    app_world.run(program)


def test_deleting_an_unreadable_nodeclaim_terminates_its_instance() -> None:
    async def program(world: AppWorld) -> None:
        claim, instance = await world.one_node("on-demand")
        store = world.server.registry.store
        stored = store.get("karpenter.sh/nodeclaims", ("", claim.metadata.name))
        assert stored is not None
        document = stored.value()
        document["spec"]["requirements"] = [{"key": "a", "operator": "Gt", "values": ["x"]}]
        document["spec"]["taints"] = [{"key": "t", "effect": "Sometimes"}]
        document["status"]["capacity"] = {"cpu": "many"}
        store.put("karpenter.sh/nodeclaims", document)
        await world.sleep(300)
        await world.deploy("late", 1, cpu="1500m")
        await world.until_running(1, "late")
        assert instance.id in [one.id for one in world.machines]
        (known,) = [one for one in await world.claims() if one.metadata.name == claim.metadata.name]
        await world.kube.delete(known)

        async def ended() -> bool:
            return await world.gone(type(claim), claim.metadata.name)

        await world.until(ended, within_s=600)
        assert instance.id not in [one.id for one in world.machines]

    app_world.run(program)
