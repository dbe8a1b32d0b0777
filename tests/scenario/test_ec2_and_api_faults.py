"""One kind of fault at a time: EC2 throttles, answers are lost or stale, the API server restarts, watches break.

After the fault there is one instance with one NodeClaim for each pod that needs a node.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.api.serving import faults as api
from holdfast.sim.api.serving.front import Request
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.entities import Reservation

ONE_PER_NODE = {"cpu": "1500m"}
WRITES = ("CreateFleet", "CreateLaunchTemplate", "CreateTags", "TerminateInstances")


def is_write(request: Request) -> bool:
    return request.method != "GET"


def is_watch(request: Request) -> bool:
    return request.query.get("watch") == "true"


def is_list(request: Request) -> bool:
    return request.method == "GET" and not is_watch(request)


async def set_up(env: AppEnvironment) -> Reservation:
    slots = env.reserve(total=2)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    await env.node_pool(requirements=wanted)
    return slots


async def scale_and_delete(env: AppEnvironment) -> None:
    """Deploy three pods, delete one NodeClaim, add a fourth pod."""
    await env.deploy("web", 3, **ONE_PER_NODE)
    await env.until_running(3, within_s=900)
    await env.kube.delete((await env.claims())[0])
    await env.scale("web", 4)
    await env.until_running(4, within_s=900)


async def assert_recovered(env: AppEnvironment, slots: Reservation) -> None:
    """Wait for garbage collection and for moves from on-demand nodes into the slots, then check the state."""
    await env.sleep(300)

    async def is_settled() -> bool:
        found = (env.ec2_instances, await env.claims(), await env.nodes(), await env.running())
        return {len(one) for one in found} == {4} and env.in_reservation(slots) == 2

    await env.until(is_settled, within_s=900)
    owned = {(claim.status.provider_id or "").rpartition("/")[2] for claim in await env.claims()}
    assert owned == {instance.id for instance in env.ec2_instances}
    assert len(env.all_ec2_instances()) == len(env.claims_ever())  # no duplicate launch
    env.ec2.check_all()


@pytest.mark.parametrize("operation", ["", *WRITES, "DescribeInstances", "DescribeCapacityReservations"])
@pytest.mark.parametrize("fault", [faults.Throttled, faults.Lost])
def test_cluster_recovers_after_ec2_throttles_calls_or_loses_answers(
    operation: str, fault: type[faults.OfCall]
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await set_up(env)
        until_s = env.clock.now_s() + 120
        chance = 0.7 if fault is faults.Throttled else 0.4
        env.ec2.region.faults.add(fault(operation=operation, chance=chance, until_s=until_s))
        await scale_and_delete(env)
        await assert_recovered(env, slots)

    app_environment.run(program)


def test_cluster_recovers_after_stale_answers_of_ec2() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await set_up(env)
        env.ec2.region.faults.add(faults.Stale(lag_s=30, until_s=env.clock.now_s() + 300))
        await scale_and_delete(env)
        await assert_recovered(env, slots)

    app_environment.run(program)


@pytest.mark.parametrize(
    ("fault", "which"),
    [
        (api.Refuse("InternalError"), is_write),
        (api.Refuse("Conflict"), is_write),
        (api.Refuse("TooManyRequests", 2), is_write),
        (api.Lose(), is_write),
        (api.Lose(after_effect=True), is_write),
        (api.Delay(3), is_write),
        (api.Cut(1), is_watch),
        (api.Half(400), is_watch),
        (api.Refuse("Expired"), is_watch),
        (api.Stale(15), is_list),
        (api.Half(200), is_list),
    ],
)
def test_cluster_recovers_after_faults_of_the_api_server(
    fault: api.Fault, which: Callable[[Request], bool]
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await set_up(env)
        await env.sleep(5)
        for _ in range(12):
            env.line.add(fault, which, times=2)
        if which is is_list:
            env.line.cut()
            env.line.add(api.Refuse("Expired"), is_watch, times=15)  # so that the controllers list again
        await scale_and_delete(env)
        await assert_recovered(env, slots)

    app_environment.run(program)


@pytest.mark.parametrize("replicas", [1, 2])
def test_cluster_recovers_after_restarts_of_the_api_server(replicas: int) -> None:
    async def program(env: AppEnvironment) -> None:
        for _ in range(1, replicas):
            env.stand_by()
        slots = await set_up(env)
        await env.deploy("web", 3, **ONE_PER_NODE)
        for up_s, down_s in ((2, 5), (1, 20), (15, 40), (8, 3)):
            await env.sleep(up_s)
            env.line.go_down()
            await env.sleep(down_s)
            env.line.come_back()
        await env.until_running(3)
        await env.kube.delete((await env.claims())[0])
        await env.scale("web", 4)
        await env.sleep(4)
        env.line.go_down()
        await env.sleep(30)
        env.line.come_back()
        await env.until_running(4)
        await assert_recovered(env, slots)

    settings = app_environment.SETTINGS
    if replicas > 1:
        settings = dataclasses.replace(settings, election=LeaseSettings("kube-system"))
    app_environment.run(program, settings=settings)


class HalfPaged(NoFaults):
    """DescribeCapacityReservations breaks off after its first page."""

    def fault(self, _: str, operation: str, params: Mapping[str, Any]) -> ApiError | None:
        broken = operation == "DescribeCapacityReservations" and "NextToken" in params
        return ApiError("InternalError", "try later", 500) if broken else None


@pytest.mark.fact("Q-4")
def test_incomplete_list_of_reservations_changes_nothing() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await set_up(env)
        await env.sleep(30)
        for _ in range(1100):  # more than a page
            env.reserve("c5.large", 1)
        env.endpoint.faults = HalfPaged()
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        await env.sleep(300)
        (node_class,) = (await env.kube.list(EC2NodeClass)).items
        assert [one.id for one in node_class.status.capacity_reservations] == [slots.id]
        assert env.in_reservation(slots) == 1

    app_environment.run(program)
