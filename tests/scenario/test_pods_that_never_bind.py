"""Pods that kube-scheduler never binds to their nodes: launches are bounded, and events name the cause.

The real controllers run in virtual time.
"""

import contextlib
import dataclasses

import msgspec
import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import errors
from holdfast.api import aws
from holdfast.api.nodes import NodeTaint
from holdfast.app.settings import Settings
from holdfast.core.scheduling.input.request import Packing

LARGE = instance_types("m5.large")
TAINT = NodeTaint(key="example.com/quarantine", effect="NoSchedule")
PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def packed(packing: Packing) -> Settings:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    return dataclasses.replace(app_environment.SETTINGS, planning=planning)


async def taint_every_node(env: AppEnvironment, seconds: int) -> None:
    """Taint every new node, as an agent does that the NodePool does not know; the pod does not tolerate the taint."""
    for _ in range(seconds):
        await env.sleep(1)
        for node in await env.nodes():
            if node.metadata.deletion_timestamp is None and TAINT not in node.spec.taints:
                taints = [msgspec.to_builtins(taint) for taint in (*node.spec.taints, TAINT)]
                with contextlib.suppress(errors.Conflict):
                    await env.kube.patch(node, {"spec": {"taints": taints}}, only_if_unchanged=True)


@PACKINGS
def test_launches_for_a_pod_that_never_binds_are_bounded(packing: Packing) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE, capacity_types("on-demand")])
        await env.deploy("web", 1, cpu="1500m")
        await taint_every_node(env, 20 * 60)
        assert 3 <= len(env.all_ec2_instances()) <= 8
        found = [
            event for event in await env.events("FailedScheduling") if "nodes were launched" in event.message
        ]
        assert found
        assert found[0].type == "Warning"

    app_environment.run(program, settings=packed(packing))


def test_pod_is_bound_soon_after_new_nodes_are_no_longer_tainted() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE, capacity_types("on-demand")])
        await env.deploy("web", 1, cpu="1500m")
        await taint_every_node(env, 200)
        await env.until_running(1, within_s=200)
        await env.deploy("more", 1, cpu="1500m")
        await env.until_running(1, "more", within_s=60)

    app_environment.run(program)


@PACKINGS
@pytest.mark.parametrize("key", [aws.PLACEMENT_GROUP_PARTITION, aws.PLACEMENT_GROUP_ID])
def test_pod_that_selects_an_unknown_placement_group_gets_an_event_and_no_node(
    packing: Packing, key: str
) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE, capacity_types("on-demand")])
        await env.deploy("web", 1, cpu="1500m", nodeSelector={key: "3"})
        await env.sleep(300)
        assert env.all_ec2_instances() == []
        messages = [event.message for event in await env.events("FailedScheduling")]
        assert any(key in message for message in messages), messages

    app_environment.run(program, settings=packed(packing))
