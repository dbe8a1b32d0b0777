"""Doing it twice does it once: lost answers, crashes, stale reads, partial answers."""

import asyncio
import base64
import dataclasses

import msgspec
import pytest
import structlog

from aws_launch_world import LaunchWorld, capacity_type
from aws_world import run
from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.sim.ec2 import faults

ON_DEMAND = capacity_type("on-demand")


@pytest.fixture
def world() -> LaunchWorld:
    return LaunchWorld()


def ids(found: list[Instance | Exception]) -> list[str]:
    assert all(isinstance(each, Instance) for each in found), found
    return [each.provider_id for each in found if isinstance(each, Instance)]


def lost(world: LaunchWorld, operation: str = "CreateFleet") -> None:
    world.ec2.world.faults.add(faults.Lost(operation=operation, times=1))


def stale(world: LaunchWorld, seconds: int) -> None:
    """From now on DescribeInstances shows what was true so long ago."""
    world.ec2.world.faults.add(faults.Stale(operation="DescribeInstances", lag_s=seconds))


def test_a_lost_answer_and_a_retry_are_one_instance(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    lost(world)
    (first,) = world.launch(requests)
    assert isinstance(first, errors.Unreachable)
    assert len(ids(world.launch(requests))) == 1
    assert len(world.machines) == 1


def test_a_lost_answer_that_nobody_can_see_yet_is_one_instance(world: LaunchWorld) -> None:
    """The tags are not described yet; the client token finds it."""
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    lost(world)
    world.launch(requests)
    stale(world, 60)
    assert len(ids(world.launch(requests))) == 1
    assert len(world.machines) == 1


def labelled(request: LaunchRequest, found: Instance | Exception) -> LaunchRequest:
    """The claim after its first write: it has the labels of its machine, and nothing says yet that it has one."""
    assert isinstance(found, Instance)
    assert isinstance(request.claim, NodeClaim)
    labels = {**request.claim.metadata.labels, **dict(found.labels)}
    meta = msgspec.structs.replace(request.claim.metadata, labels=labels)
    return dataclasses.replace(request, claim=msgspec.structs.replace(request.claim, metadata=meta))


def test_a_claim_that_could_be_written_only_half_is_told_the_same_before_anybody_can_see_it(
    world: LaunchWorld,
) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    told = world.launch(requests)
    stale(world, 60)
    assert world.launch([labelled(requests[0], told[0])]) == told
    assert len(world.machines) == 1


def test_a_crash_before_a_claim_was_written_whole_is_one_instance_once_it_can_be_seen(
    world: LaunchWorld,
) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    told = world.launch(requests)
    world.new_process()
    stale(world, 5)
    assert ids(world.launch([labelled(requests[0], told[0])])) == ids(told)
    assert len(world.machines) == 1


@pytest.mark.parametrize("operation", ["DescribeInstances", "CreateFleet"])
def test_what_an_earlier_call_launched_stays_unknown_while_ec2_does_not_answer(
    world: LaunchWorld, operation: str
) -> None:
    """Nobody may take it for an answer, and launch another one."""
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    lost(world)
    world.launch(requests)
    stale(world, 60)
    world.ec2.world.faults.add(faults.Throttled(operation=operation))
    (found,) = world.launch(requests)
    assert isinstance(found, errors.Unreachable)


@pytest.mark.fact("aws-9.1.2", "NC-5")
def test_a_fleet_of_fifty_whose_answer_is_lost_and_a_crash_are_fifty_instances(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=50)
    lost(world)
    assert all(isinstance(each, errors.Unreachable) for each in world.launch(requests))
    assert len(world.machines) == 50
    world.new_process()
    found = ids(world.launch(requests))
    assert len(set(found)) == 50
    assert len(world.machines) == 50
    assert len(world.fleets()) == 1


def test_a_crash_after_some_claims_were_told_gives_the_others_the_rest(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=5)
    told = ids(world.launch(requests))[:2]
    world.new_process()
    rest = ids(world.launch(requests[2:], owned=told))
    assert not set(rest) & set(told)
    assert len({*rest, *told}) == len(world.machines) == 5


def test_a_claim_that_asks_again_is_told_the_same(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=3)
    found = ids(world.launch(requests))
    assert ids(world.launch(requests[1:])) == found[1:]
    assert ids(world.launch(requests[:1])) == found[:1]
    assert len(world.machines) == 3


def test_a_claim_that_asks_with_another_token_gets_another_instance(world: LaunchWorld) -> None:
    (request,) = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    first = ids(world.launch([request]))
    second = ids(world.launch([dataclasses.replace(request, token=world.ids.token())]))
    assert first != second
    assert len(world.machines) == 2


def test_an_answer_whose_instances_other_claims_own_launches_others(world: LaunchWorld) -> None:
    """EC2 repeats its answer to a call of the same name; the next try has another name."""
    node_class = world.resolve(world.node_class())
    requests = world.requests(node_class, ON_DEMAND, count=2)
    told = ids(world.launch(requests))
    world.new_process()
    others = [dataclasses.replace(each, claim=world.claim(ON_DEMAND)) for each in requests]
    found = ids(world.launch(others, owned=told))
    assert len({*found, *told}) == 4 == len(world.machines)


def test_an_instance_is_adopted_by_a_claim_that_has_none(world: LaunchWorld) -> None:
    node_class = world.resolve(world.node_class())
    first = world.requests(node_class, ON_DEMAND)
    second = world.requests(node_class, ON_DEMAND, token=first[0].token, types=("m5.large",))
    told = ids(world.launch(first))
    lost(world)
    assert isinstance(world.launch(second)[0], errors.Unreachable)
    found = ids(world.launch([*first, *second]))
    assert found[0] == told[0] != found[1]
    assert len(world.machines) == 2


def test_a_crash_while_only_some_machines_can_be_seen_launches_none_twice(world: LaunchWorld) -> None:
    """Fewer claims are left than the first call was for, so the call differs; what it launched is waited for."""
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=5)
    lost(world)
    world.launch(requests)
    owned = [f"aws:///us-west-2a/{machine.id}" for machine in world.machines[:2]]
    world.new_process()
    world.ec2.world.faults.add(faults.Stale(operation="DescribeInstances", lag_s=600, times=1))
    assert len(ids(world.launch(requests[2:], owned=owned))) == 3
    assert len(world.machines) == 5


def test_an_earlier_call_that_got_less_is_made_up_for(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=5)
    lost(world)
    world.ec2.world.faults.add(faults.Partial(at_most=2, times=1))
    world.launch(requests)
    assert len(world.machines) == 2
    world.new_process()
    assert len(set(ids(world.launch(requests)))) == 5
    assert len(world.machines) == 5


@pytest.mark.fact("aws-5.8.11", "aws-9.1.4")
def test_a_partial_answer_is_dealt_out_and_each_of_the_rest_gets_a_reason(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=5)
    world.ec2.world.faults.add(faults.Partial(at_most=3, times=1))
    found = world.launch(requests)
    assert len(ids(found[:3])) == 3
    assert all(type(each) is errors.InsufficientCapacity for each in found[3:])
    assert found[3] is not found[4]
    assert len(world.machines) == 3


@pytest.mark.fact("aws-9.1.2", "aws-9.1.3")
def test_claims_that_ask_for_the_same_share_a_call_and_others_do_not(world: LaunchWorld) -> None:
    node_class = world.resolve(world.node_class())
    token = world.ids.token()
    alike = world.requests(node_class, ON_DEMAND, count=3, token=token)
    other = world.requests(node_class, capacity_type("spot"), count=2, token=token)
    found = world.launch([alike[0], other[0], alike[1], other[1], alike[2]])
    kinds = [each.capacity_type for each in found if isinstance(each, Instance)]
    assert kinds == ["on-demand", "spot", "on-demand", "spot", "on-demand"]
    counts = [fleet["TargetCapacitySpecification"]["TotalTargetCapacity"] for fleet in world.fleets()]
    assert sorted(counts) == [2, 3]
    assert len({each.provider_id for each in found if isinstance(each, Instance)}) == 5


def test_claims_of_one_token_that_are_launched_apart_get_machines_of_their_own(world: LaunchWorld) -> None:
    """EC2 tells the second call what it told the first, since both have one name."""
    one, two = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=2)

    async def apart() -> list[Instance | Exception]:
        first, second = await asyncio.gather(world.cloud.launch([one]), world.cloud.launch([two]))
        return [*first, *second]

    assert len(set(ids(run(apart())))) == len(world.machines) == 2


def test_after_a_crash_a_claim_is_not_told_of_a_machine_that_another_owns(world: LaunchWorld) -> None:
    one, two = world.requests(world.resolve(world.node_class()), ON_DEMAND, count=2)
    (first,) = ids(world.launch([one]))
    world.new_process()
    (second,) = ids(world.launch([two], owned=[first]))
    assert first != second
    assert len(world.machines) == 2


def test_machines_of_one_token_go_to_claims_they_suit(world: LaunchWorld) -> None:
    node_class = world.resolve(world.node_class())
    token = world.ids.token()
    requests = [
        *world.requests(node_class, ON_DEMAND, token=token),
        *world.requests(node_class, capacity_type("spot"), token=token),
    ]
    world.launch(requests)
    world.new_process()
    spot, on_demand = world.launch(list(reversed(requests)))
    assert isinstance(spot, Instance)
    assert isinstance(on_demand, Instance)
    assert (spot.capacity_type, on_demand.capacity_type) == ("spot", "on-demand")
    assert len(world.machines) == 2


@pytest.mark.fact("aws-5.1.3")
def test_a_template_that_somebody_deleted_is_made_again(world: LaunchWorld) -> None:
    node_class = world.resolve(world.node_class())
    world.one(node_class, ON_DEMAND)
    for template in list(world.ec2.world.templates):
        world.ec2.world.templates.drop(template.id)
    world.one(node_class, ON_DEMAND)
    assert len(world.machines) == 2


@pytest.mark.fact("AW-10", "aws-5.5.4")
def test_templates_are_made_once_and_kept(world: LaunchWorld) -> None:
    node_class = world.resolve(world.node_class())
    types = world.types(node_class)

    async def both() -> None:
        requests = [world.request(node_class, types, ON_DEMAND) for _ in range(4)]
        await asyncio.gather(*(world.cloud.launch([request]) for request in requests))

    run(both())
    made = len(list(world.ec2.world.templates))
    assert world.asked("CreateLaunchTemplate") == made
    world.clock.advance(86_400)
    world.one(node_class, ON_DEMAND)
    assert world.asked("CreateLaunchTemplate") == made
    world.new_process()
    world.one(node_class, ON_DEMAND)
    assert len(list(world.ec2.world.templates)) == made


@pytest.mark.fact("aws-5.5.6")
@pytest.mark.parametrize("characters", [10, 14_000])
def test_size_of_user_data_is_a_gauge_and_is_logged_close_to_the_limit(
    world: LaunchWorld, characters: int
) -> None:
    node_class = world.resolve(world.node_class(userData="#" * characters))
    with structlog.testing.capture_logs() as logs:
        instance = world.one(node_class, ON_DEMAND)
    size = len(base64.b64decode(world.template(instance)["UserData"]))
    gauge = world.records.gauges["karpenter_ec2nodeclasses_userdata_bytes", (("ec2nodeclass", "default"),)]
    assert gauge == size
    warned = [log for log in logs if log["log_level"] == "warning" and log.get("bytes") == size]
    assert bool(warned) is (size >= 14_745)
    assert (size >= 14_745) is (characters == 14_000)


def test_templates_of_a_deleted_class_are_removed_and_no_others(world: LaunchWorld) -> None:
    node_class, other = (world.resolve(world.node_class(name)) for name in ("default", "other"))
    world.one(node_class, ON_DEMAND)
    world.one(other, ON_DEMAND)
    run(world.cloud.release(node_class))
    left = {template.tags["karpenter.k8s.aws/ec2nodeclass"] for template in world.ec2.world.templates}
    assert left == {"other"}
    run(world.cloud.release(node_class))


@pytest.mark.fact("aws-5.8.9")
def test_no_permission_to_launch_is_the_users_to_mend(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND)
    world.ec2.world.faults.add(faults.Denied(operation="CreateFleet", times=1))
    (found,) = world.launch(requests)
    assert isinstance(found, errors.Unauthorized)


@pytest.mark.fact("aws-5.8.4")
def test_a_pool_that_ec2_has_none_of_is_left_alone_for_a_while(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, types=("m5.large",))
    world.ec2.world.faults.add(faults.NoCapacity(instance_type="m5.large", market="on-demand"))
    (found,) = world.launch(requests)
    assert type(found) is errors.InsufficientCapacity
    unavailable = world.discovery.unavailable.pools.members(world.clock.monotonic_s())
    assert unavailable
    assert {(name, kind) for name, _, kind in unavailable} == {("m5.large", "on-demand")}


@pytest.mark.fact("aws-5.8.5")
def test_an_account_that_may_not_use_spot_is_not_offered_any_for_a_while(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), capacity_type("spot"))
    world.refuses(code="AuthFailure.ServiceLinkedRoleCreationNotPermitted")
    (found,) = world.launch(requests)
    assert type(found) is errors.InsufficientCapacity
    assert world.discovery.unavailable.capacity_types.members(world.clock.monotonic_s()) == {"spot"}


def test_a_code_that_nobody_has_met_is_tried_again_and_counted(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, types=("m5.large",))
    world.refuses(code="BrandNewCode")
    (found,) = world.launch(requests)
    assert type(found) is errors.Retryable
    assert world.records.total("holdfast_aws_unknown_error_codes_total", code="BrandNewCode") > 0
    assert not world.discovery.unavailable.pools.members(world.clock.monotonic_s())


@pytest.mark.fact("aws-5.8.1")
def test_every_error_of_an_answer_is_counted(world: LaunchWorld) -> None:
    requests = world.requests(world.resolve(world.node_class()), ON_DEMAND, types=("m5.large",))
    world.refuses(code="InsufficientInstanceCapacity")
    world.launch(requests)
    counted = {
        zone: world.records.total(
            "karpenter_cloudprovider_instance_launch_failures_total",
            zone=zone,
            zone_id=zone_id,
            capacity_type="on-demand",
            reason="InsufficientInstanceCapacity",
        )
        for zone, zone_id in (("us-west-2a", "usw2-az2"), ("us-west-2b", "usw2-az1"))
    }
    assert counted == {"us-west-2a": 1, "us-west-2b": 1}
