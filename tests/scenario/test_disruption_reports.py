"""Events and metrics of disruption, on pods, nodes, NodeClaims and NodePools."""

import dataclasses
from typing import Any

import msgspec
import pytest

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, drift_all, pool
from holdfast import names
from holdfast.api.nodes import Node
from holdfast.state.conversion import times

REPAIR = dataclasses.replace(
    app_environment.SETTINGS,
    disruption=dataclasses.replace(app_environment.SETTINGS.disruption, node_repair=True),
)
TOLERATED_S = 30 * 60
UNHEALTHY = "karpenter_nodeclaims_unhealthy_disrupted_total"
BY_POOL = "karpenter_voluntary_disruption_decisions_by_nodepool_total"
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


async def set_kernel_ready(env: AppEnvironment, node: Node, status: str) -> None:
    node = await env.kube.get(Node, node.metadata.name)
    now = times.text(env.clock.now_s())
    found = {"type": "KernelReady", "status": status, "reason": "Seen", "lastTransitionTime": now}
    others = [one for one in msgspec.to_builtins(node.status.conditions) if one["type"] != found["type"]]
    change = {"status": {"conditions": [*others, found]}}
    await env.kube.patch(node, change, status=True, only_if_unchanged=True)


@pytest.mark.fact("NC-39", "M-9", "E-4")
def test_repair_is_blocked_while_too_many_nodes_are_unhealthy_and_is_counted_when_it_begins() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        before = {claim.metadata.name for claim in await env.claims()}
        for node in await env.nodes():
            await set_kernel_ready(env, node, "False")
        await env.sleep(TOLERATED_S + 120)
        assert {claim.metadata.name for claim in await env.claims()} == before
        blocked = await env.events("NodeRepairBlocked")
        about = {(event.involved_object.kind, event.involved_object.name) for event in blocked}
        assert about == {
            *(("Node", node.metadata.name) for node in await env.nodes()),
            *(("NodeClaim", name) for name in before),
            ("NodePool", "default"),
        }
        healthy, unhealthy = await env.nodes()
        (claim,) = [c for c in await env.claims() if c.status.node_name == unhealthy.metadata.name]
        await set_kernel_ready(env, healthy, "True")

        async def replaced() -> bool:
            return {c.metadata.name for c in await env.claims()} != before and len(await env.claims()) == 2

        await env.until(replaced, within_s=600)
        await env.until_running(2)
        labels = {"nodepool": "default", "capacity_type": "on-demand", "termination_mode": "graceful"}
        condition = {"condition": "kernel_ready", "image_id": claim.status.image_id or ""}
        assert env.app.metrics.value(UNHEALTHY, labels | condition) == 1
        why = {"reason": "unhealthy", "consolidation_policy": ""}
        assert env.app.metrics.value(DISRUPTED, labels | why) == 1

    app_environment.run(program, settings=REPAIR)


@pytest.mark.fact("D-6", "E-1")
@pytest.mark.parametrize(
    ("value", "protected_s", "is_invalid"),
    [("true", None, False), ("10m", 600, False), ("sometimes", 0, True), ("0s", 0, True)],
)
def test_do_not_disrupt_of_a_pod_accepts_true_or_a_duration(
    value: str, protected_s: int | None, *, is_invalid: bool
) -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE, annotations={names.DO_NOT_DISRUPT: value})
        await env.until_running(1)
        (old,), (pod,) = await env.claims(), await env.running()
        await drift_all(env)

        async def replaced() -> bool:
            return old.metadata.name not in {claim.metadata.name for claim in await env.claims()}

        if protected_s is None:
            await env.sleep(1800)
            assert not await replaced()
        else:
            assert protected_s - 30 < await env.until(replaced, within_s=1200) < protected_s + 300
        invalid_events = await env.events("InvalidDoNotDisruptAnnotation")
        assert bool(invalid_events) is is_invalid
        assert {
            event.involved_object.name
            for event in invalid_events
            if event.involved_object.uid == pod.metadata.uid
        } == ({pod.metadata.name} if is_invalid else set())

    app_environment.run(program)


@pytest.mark.fact("D-6")
@pytest.mark.parametrize(("value", "stays"), [("true", True), ("10m", False)])
def test_do_not_disrupt_of_a_node_accepts_only_true(value: str, *, stays: bool) -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (old,), (node,) = await env.claims(), await env.nodes()
        await env.kube.patch(node, {"metadata": {"annotations": {names.DO_NOT_DISRUPT: value}}})
        await drift_all(env)
        await env.sleep(300)
        assert await env.is_deleted(type(old), old.metadata.name) is not stays

    app_environment.run(program)


@pytest.mark.fact("D-13")
@pytest.mark.parametrize("allowed", ["0", "1"])
def test_nodepool_whose_budgets_allow_no_disruption_has_an_event(allowed: str) -> None:
    async def program(env: AppEnvironment) -> None:
        budgets: list[dict[str, Any]] = [{"nodes": allowed}]
        await pool(env, kinds=("on-demand",), budgets=budgets)
        await env.sleep(30)
        assert await env.events("DisruptionBlocked") == []  # there are no nodes
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.sleep(300)
        pool_events = [
            e for e in await env.events("DisruptionBlocked") if e.involved_object.kind == "NodePool"
        ]
        if allowed == "1":
            assert pool_events == []
            return
        assert {event.involved_object.name for event in pool_events} == {"default"}
        (drifted,) = [event for event in pool_events if "Drifted" in event.message]
        assert drifted.count >= 2
        assert drifted.first_timestamp is not None
        assert drifted.last_timestamp is not None
        repeated_s = (drifted.last_timestamp - drifted.first_timestamp).total_seconds()
        assert repeated_s >= 120 * (drifted.count - 1)

    app_environment.run(program)


@pytest.mark.fact("M-6", "M-9", "X-5")
@pytest.mark.parametrize("reason", ["drifted", "empty", "underutilized"])
def test_disrupted_and_created_nodeclaims_are_counted_by_reason_in_lower_case(reason: str) -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, types=("m5.large", "m5.2xlarge"), kinds=("on-demand",))
        await env.deploy("web", 4, **ONE_PER_NODE)
        await env.until_running(4)
        if reason == "drifted":
            await drift_all(env)
        await env.scale("web", {"drifted": 4, "empty": 0, "underutilized": 1}[reason])

        async def counted() -> bool:
            return bool(env.app.metrics.value(DISRUPTED, labels))

        labels = {
            "reason": reason,
            "nodepool": "default",
            "capacity_type": "on-demand",
            "consolidation_policy": "" if reason == "drifted" else "when_empty_or_underutilized",
            "termination_mode": "graceful",
        }
        await env.until(counted, within_s=900)
        created = {"nodepool": "default", "min_values_relaxed": "false"}
        name = "karpenter_nodeclaims_created_total"
        assert env.app.metrics.value(name, created | {"reason": "provisioned"})
        replaced = env.app.metrics.value(name, created | {"reason": reason})
        assert bool(replaced) is (reason != "empty")
        pods = env.app.metrics.value("karpenter_pods_disruption_initiated_total", labels)
        assert pods is not None
        assert bool(pods) is (reason != "empty")
        decided = {"nodepool": "default", "reason": reason}
        kinds = {"drifted": [""], "empty": ["empty"], "underutilized": ["single", "multi"]}[reason]
        assert any(
            env.app.metrics.value(BY_POOL, decided | {"decision": action, "consolidation_type": kind})
            for kind in kinds
            for action in ("delete", "replace")
        )
        assert (
            env.app.metrics.value("karpenter_voluntary_disruption_eligible_nodes", {"reason": reason})
            is not None
        )

    app_environment.run(program)


def test_node_whose_reasons_alternate_has_few_events() -> None:
    """While nodes start, the pods of a node fit only on these; later on none."""

    async def program(env: AppEnvironment) -> None:
        await pool(env, kinds=("on-demand",))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (first,) = [node.metadata.name for node in await env.nodes()]
        for count in (2, 3, 4, 5):
            await env.scale("web", count)
            await env.sleep(120)
        found = [e for e in await env.events("Unconsolidatable") if e.involved_object.name == first]
        assert found
        assert sum(event.count for event in found) <= 2

    app_environment.run(program)
