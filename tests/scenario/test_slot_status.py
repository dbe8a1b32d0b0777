"""Slots of reservations and nodes by capacity type in the status of EC2NodeClasses and NodePools."""

import copy
from typing import Any

import msgspec

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api import crds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodepool import NodePool
from holdfast.sim.ec2 import control

LARGE = instance_types("m5.large")
BOTH = [LARGE, capacity_types("reserved", "on-demand")]


async def only(env: AppEnvironment, kind: type[Any]) -> Any:
    (found,) = await env.all(kind)
    return found.status


def versions(env: AppEnvironment, kind: type[Object]) -> int:
    return len(env.ever(kind))


def test_class_and_nodepool_show_the_slots_of_their_reservations() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=4, elsewhere=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=BOTH)
        await env.node_pool("unreserved", requirements=[LARGE, capacity_types("on-demand")])
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.sleep(120)
        found = (await only(env, EC2NodeClass)).reservation_slots
        assert found.summary == "1/4"
        (one,) = found.reservations
        assert (one.id, one.total, one.used_here, one.used_elsewhere) == (slots.id, 4, 2, 1)
        assert (one.held, one.releasing, one.free) == (0, 0, 1)
        assert one.idle_usd_per_hour == found.idle_usd_per_hour == "0.096"
        pools = {pool.metadata.name: pool.status for pool in await env.all(NodePool)}
        used = pools["default"].reservation_slots
        assert used is not None
        assert [(one.id, one.used, one.free) for one in used.reservations] == [(slots.id, 2, 1)]
        assert pools["default"].nodes_by_capacity_type == {"reserved": 2}
        assert pools["unreserved"].reservation_slots is None
        await env.scale("web", 0)
        await env.sleep(600)
        found = (await only(env, EC2NodeClass)).reservation_slots
        assert (found.summary, found.idle_usd_per_hour) == ("3/4", "0.288")
        pools = {pool.metadata.name: pool.status for pool in await env.all(NodePool)}
        assert pools["default"].nodes_by_capacity_type == {}

    app_environment.run(program)


def test_class_without_reservations_has_no_slots() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=BOTH)
        await env.sleep(60)
        assert (await only(env, EC2NodeClass)).reservation_slots is not None
        env.cancel(slots)
        await env.sleep(120)
        assert (await only(env, EC2NodeClass)).reservation_slots is None
        assert (await only(env, NodePool)).reservation_slots is None

    app_environment.run(program)


def test_slots_are_written_at_most_every_15_s_and_not_in_an_idle_cluster() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=20)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=BOTH)
        await env.sleep(60)
        began = versions(env, EC2NodeClass)
        for number in range(20):
            if number % 2:
                control.take(env.ec2.region, slots.id, 1)  # as another cluster does
            await env.deploy(f"web{number}", 1, cpu="100m")
            await env.sleep(6)
        assert 2 <= versions(env, EC2NodeClass) - began <= 120 / 15 + 1
        await env.sleep(300)
        settled = versions(env, EC2NodeClass), versions(env, NodePool)
        await env.sleep(3600)
        assert (versions(env, EC2NodeClass), versions(env, NodePool)) == settled

    app_environment.run(program)


def test_change_of_slots_triggers_no_reconcile_of_the_nodeclaims_of_the_class() -> None:
    async def program(env: AppEnvironment) -> None:
        def reconciles(controller: str) -> float:
            return sum(
                env.app.metrics.value(
                    "controller_runtime_reconcile_total", {"controller": controller, "result": result}
                )
                or 0
                for result in ("success", "requeue_after", "requeue", "error")
            )

        slots = env.reserve(total=20)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=BOTH)
        await env.deploy("web", 3, cpu="1500m")
        await env.until_running(3)
        await env.sleep(600)

        async def in_ten_minutes(*, changing: bool) -> tuple[int, dict[str, float]]:
            names = ("nodeclaim.lifecycle", "nodeclass.status", "nodeclass.hash", "nodepool.status")
            before, began = {name: reconciles(name) for name in names}, versions(env, EC2NodeClass)
            for _ in range(8):
                if changing:
                    control.take(env.ec2.region, slots.id, 1)
                await env.sleep(75)
            after = {name: reconciles(name) - before[name] for name in names}
            return versions(env, EC2NodeClass) - began, after

        assert reconciles("nodeclaim.lifecycle") > 0
        idle, quiet = await in_ten_minutes(changing=False)
        writes, busy = await in_ten_minutes(changing=True)
        assert (idle, writes) == (0, 8)
        assert busy["nodeclaim.lifecycle"] <= quiet["nodeclaim.lifecycle"] + 3
        assert busy["nodeclass.hash"] == quiet["nodeclass.hash"]
        assert busy["nodeclass.status"] == quiet["nodeclass.status"]

    app_environment.run(program)


def test_restart_does_not_change_the_slots() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=4)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=BOTH)
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.sleep(300)
        before = await only(env, EC2NodeClass)
        began = versions(env, EC2NodeClass)
        await env.restart()
        await env.sleep(300)
        assert await only(env, EC2NodeClass) == before
        assert versions(env, EC2NodeClass) == began

    app_environment.run(program)


def test_fields_that_the_crd_does_not_have_are_sent_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await install_crds_without_slots(env)
        slots = env.reserve(total=4)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(requirements=BOTH)
        await env.sleep(60)
        assert (await only(env, EC2NodeClass)).reservation_slots is None
        assert env.crashing.slot_reports == 2  # one of the class, one of the NodePool
        await env.sleep(600)
        assert env.crashing.slot_reports == 2

    app_environment.run(program)


async def install_crds_without_slots(env: AppEnvironment) -> None:
    """Changes the CRDs to those of a release without these fields."""
    for crd in (crds.ec2nodeclass(), crds.nodepool()):
        old = copy.deepcopy(crd)
        status = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
        for field in ("reservationSlots", "nodesByCapacityType"):
            status.pop(field, None)
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd['metadata']['name']}"
        headers = {"content-type": "application/merge-patch+json"}
        answer = await env.transport.request("PATCH", path, {}, headers, msgspec.json.encode(old))
        assert answer.status == 200, answer.body
