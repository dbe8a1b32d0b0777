"""Events of pods and NodePools, and gauges, of provisioning."""

from typing import Any

import pytest

import app_environment
import builders
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import conditions
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod

LARGE = instance_types("m5.large")
IGNORED = "karpenter_scheduler_ignored_pods_count"
UNSCHEDULABLE = "karpenter_scheduler_unschedulable_pods_count"
BY_ZONE = "karpenter_scheduler_pending_pods_by_effective_zone_count"
PROVISIONER = {"controller": "provisioner"}
FILTERED = "NodePool requirements filtered out all compatible available instance types"


def required(*expressions: dict[str, Any], **term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions), **term}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


REJECTED: dict[str, dict[str, Any]] = {
    "restricted": {"nodeSelector": {"karpenter.sh/initialized": "true"}},
    "hostname": {"nodeSelector": {names.HOSTNAME: "n"}},
    "operator": {"affinity": required(builders.requirement("team", "Gt", "b"))},
    "value": {"affinity": required(builders.requirement(names.CAPACITY_TYPE, "In", "cheap"))},
    "fields": {"affinity": required(matchFields=[builders.requirement("metadata.name", "In", "n")])},
    "volume": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}]},
}


@pytest.mark.fact("S-7", "E-1")
def test_pods_with_unsupported_constraints_are_counted_and_have_an_event() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        for name, spec in REJECTED.items():
            await env.deploy(name, 1, cpu="100m", **spec)
        elsewhere = required(builders.requirement(names.NODEPOOL, "DoesNotExist"))
        await env.deploy("elsewhere", 1, cpu="100m", affinity=elsewhere)
        await env.sleep(20)
        assert await env.claims() == []
        assert env.app.metrics.value(IGNORED, {}) == len(REJECTED) + 1
        assert env.app.metrics.value(UNSCHEDULABLE, PROVISIONER) == 0
        app_of = {pod.metadata.name: pod.metadata.labels["app"] for pod in await env.all(Pod)}
        ours = [
            event for event in await env.events("FailedScheduling") if event.source.component == "holdfast"
        ]
        assert {app_of[event.involved_object.name] for event in ours} == set(REJECTED)

    app_environment.run(program)


def test_pod_that_requests_a_resource_of_no_nodepool_has_an_event_that_names_it() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])  # which excludes types with GPUs
        await env.deploy("web", 1, cpu="100m", limits={"nvidia.com/gpu": "1"})
        await env.sleep(20)
        assert await env.claims() == []
        (event,) = [
            event for event in await env.events("FailedScheduling") if event.source.component == "holdfast"
        ]
        text = "no instance type of any ready NodePool has the extended resource nvidia.com/gpu"
        assert (event.type, event.message) == ("Warning", f"NodePool default: {text}")

    app_environment.run(program)


@pytest.mark.fact("S-14")
@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (instance_types("m5.none"), FILTERED),
        (capacity_types("reserved"), FILTERED),  # the class selects no reservation
        (
            instance_types("m5.large", "m5.none") | {"minValues": 2},
            f"{FILTERED} due to minValues incompatibility",
        ),
        (LARGE, None),
    ],
)
def test_nodepool_without_compatible_instance_types_has_an_event(
    requirement: dict[str, Any], message: str | None
) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool("other", requirements=[LARGE])
        await env.deploy("first", 1, cpu="1", nodeSelector={names.NODEPOOL: "other"})
        await env.until_running(1, "first")
        await env.node_pool("tested", requirements=[requirement])
        await env.deploy("small", 1, cpu="100m")
        await env.until_running(1, "small")  # on the node that exists, whatever the NodePools can launch
        assert len(await env.claims()) == 1
        await env.deploy("web", 1, cpu="100m", nodeSelector={names.NODEPOOL: "tested"})
        await env.sleep(30)
        found = await env.events("NoCompatibleInstanceTypes")
        assert {(e.involved_object.kind, e.involved_object.name, e.message) for e in found} == (
            {("NodePool", "tested", message)} if message else set()
        )
        assert len(await env.claims()) == (1 if message else 2)

    app_environment.run(program)


@pytest.mark.fact("S-14")
def test_nodepool_whose_reservation_is_full_has_compatible_instance_types() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1, elsewhere=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, cpu="1")
        await env.sleep(30)
        assert await env.events("NoCompatibleInstanceTypes") == []

    app_environment.run(program)


@pytest.mark.fact("S-86")
def test_pending_pods_are_counted_by_zone() -> None:
    async def program(env: AppEnvironment) -> None:
        def counted(zone: str) -> float | None:
            return env.app.metrics.value(BY_ZONE, PROVISIONER | {"zone": zone})

        await env.node_class()
        await env.node_pool(requirements=[LARGE], limits={"cpu": "0"})
        await env.deploy("a", 2, cpu="1", nodeSelector={names.ZONE: "us-west-2a"})
        await env.deploy("anywhere", 3, cpu="1")
        await env.deploy("nowhere", 1, cpu="1", nodeSelector={names.ZONE: "us-west-2x"})
        await env.sleep(20)
        assert (counted("us-west-2a"), counted("flexible"), counted("none")) == (2, 3, 1)
        await env.scale("a", 0)
        await env.sleep(20)
        assert (counted("us-west-2a"), counted("flexible"), counted("none")) == (0, 3, 1)

    app_environment.run(program)


def test_pods_of_a_nodepool_that_is_not_ready_for_lack_of_instance_types_have_its_reason() -> None:
    """And they are launched for as soon as the catalog has an instance type, without a wait for the condition."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"tags": {"team": "ml"}}])
        await env.node_pool(requirements=[LARGE, capacity_types("reserved")])
        await env.deploy("web", 1, cpu="1")
        await env.sleep(30)
        (pool,) = await env.all(NodePool)
        assert not conditions.holds(pool.status.conditions, "Ready")
        (event,) = [e for e in await env.events("FailedScheduling") if e.source.component == "holdfast"]
        assert event.message == "NodePool default: its node class selects no reservation"
        env.ec2.region.reservations[slots.id].tags["team"] = "ml"
        await env.until_running(1)
        (pool,) = await env.all(NodePool)
        assert conditions.holds(pool.status.conditions, "Ready")

    app_environment.run(program)
