"""Values of users that once stopped the controllers for the whole cluster."""

from typing import Any

import app_environment
import builders
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE
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


async def base(env: AppEnvironment, **disruption: Any) -> None:
    await env.node_class()
    every = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]} | disruption
    await env.node_pool(requirements=[app_environment.instance_types("m5.large")], disruption=every)


def test_pod_with_requests_beyond_64_bits_gets_an_event_and_other_pods_get_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        await base(env)
        await env.create(PODS, pod("huge", {"cpu": "9E"}, {"cpu": "1"}))
        await env.create(
            PODS, pod("deep", {"memory": "9E"}, initContainers=[{"name": "i", "image": "i"}], overhead={})
        )
        await env.deploy("web", 1, cpu="1500m")
        await env.until_running(1)
        await env.restart()
        await env.deploy("late", 1, cpu="1500m")
        await env.until_running(1, "late")
        pods_with_event = {event.involved_object.name for event in await env.events("FailedScheduling")}
        assert {"huge", "deep"} <= pods_with_event
        assert len(env.ec2_instances) == 2

    app_environment.run(program)


def test_budget_of_five_thousand_digits_blocks_only_its_nodepool_until_it_is_fixed() -> None:
    async def program(env: AppEnvironment) -> None:
        await base(env)
        document = builders.nodepool_document(
            "odd", requirements=[app_environment.instance_types("m5.large")], labels={"pool": "odd"}
        )
        bad = [{"nodes": LONG}, {"nodes": "1", "schedule": f"*/{LONG} * * * *", "duration": "1h"}]
        document["spec"]["disruption"] = {"consolidateAfter": "0s", "budgets": bad}
        await env.create("/apis/karpenter.sh/v1/nodepools", document)
        await env.deploy("web", 2, **ONE_PER_NODE, nodeSelector={"karpenter.sh/nodepool": "default"})
        await env.deploy("odd", 1, cpu="1500m", nodeSelector={"pool": "odd"})
        await env.until_running(2)
        await env.until_running(1, "odd")
        for app in ("web", "odd"):
            await env.scale(app, 0)

        async def pools(*expected: str) -> bool:
            return sorted(c.metadata.labels["karpenter.sh/nodepool"] for c in await env.claims()) == list(
                expected
            )

        await env.until(lambda: pools("odd"), within_s=600)
        await env.sleep(120)
        assert await pools("odd")
        pool = await env.kube.get(NodePool, "odd")
        await env.kube.patch(
            pool, {"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}}, only_if_unchanged=True
        )
        await env.until(pools, within_s=600)

    app_environment.run(program)


def test_a_termination_grace_period_beyond_every_date_ends_in_the_year_9999() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(
            requirements=[app_environment.instance_types("m5.large")], terminationGracePeriod="99999999h"
        )
        await env.deploy("web", 1, cpu="1500m")
        await env.until_running(1)
        (claim,) = await env.claims()
        await env.scale("web", 0)
        await env.kube.delete(claim)

        async def ended() -> bool:
            return not await env.claims() and not env.ec2_instances

        await env.until(ended, within_s=600)
        events = await env.events("TerminationGracePeriodExpiring")
        assert "9999-12-31T23:59:59Z" in events[0].message

    app_environment.run(program)


def test_unreadable_nodepool_gets_a_condition_and_other_nodepools_launch_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        await base(env)
        document = builders.nodepool_document(
            "odd", requirements=[app_environment.instance_types("m5.large")]
        )
        document["spec"] |= {"limits": {"cpu": "1e1.5"}, "weight": 100}
        await env.create("/apis/karpenter.sh/v1/nodepools", document)
        await env.deploy("web", 1, cpu="1500m")
        await env.until_running(1)
        (claim,) = await env.claims()
        assert claim.metadata.labels["karpenter.sh/nodepool"] == "default"
        pool = await env.kube.get(NodePool, "odd")
        (condition,) = [one for one in pool.status.conditions if one.type == "ValidationSucceeded"]
        assert condition.status == "False"
        assert "spec.limits.cpu" in (condition.message or "")

    app_environment.run(program)


def test_deleting_an_unreadable_nodeclaim_terminates_its_instance() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, instance = await env.one_node("on-demand")
        store = env.server.registry.store
        stored = store.get("karpenter.sh/nodeclaims", ("", claim.metadata.name))
        assert stored is not None
        document = stored.value()
        document["spec"]["requirements"] = [{"key": "a", "operator": "Gt", "values": ["x"]}]
        document["spec"]["taints"] = [{"key": "t", "effect": "Sometimes"}]
        document["status"]["capacity"] = {"cpu": "many"}
        store.put("karpenter.sh/nodeclaims", document)
        await env.sleep(300)
        await env.deploy("late", 1, cpu="1500m")
        await env.until_running(1, "late")
        assert instance.id in [one.id for one in env.ec2_instances]
        (known,) = [one for one in await env.claims() if one.metadata.name == claim.metadata.name]
        await env.kube.delete(known)

        async def ended() -> bool:
            return await env.is_deleted(type(claim), claim.metadata.name)

        await env.until(ended, within_s=600)
        assert instance.id not in [one.id for one in env.ec2_instances]

    app_environment.run(program)
