"""Launches are idempotent in spite of lost answers, crashes, stale reads and partial answers."""

import asyncio
import base64
import dataclasses
from datetime import UTC, datetime

import msgspec
import pytest
import structlog

from aws_environment import run
from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.sim.ec2 import faults
from launch_environment import LaunchEnvironment, capacity_type

ON_DEMAND = capacity_type("on-demand")


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def ids(found: list[Instance | Exception]) -> list[str]:
    assert all(isinstance(each, Instance) for each in found), found
    return [each.provider_id for each in found if isinstance(each, Instance)]


def lose_answer(env: LaunchEnvironment, operation: str = "CreateFleet") -> None:
    env.ec2.region.faults.add(faults.Lost(operation=operation, times=1))


def make_reads_stale(env: LaunchEnvironment, seconds: int) -> None:
    """From now on DescribeInstances returns the state of so many seconds ago."""
    env.ec2.region.faults.add(faults.Stale(operation="DescribeInstances", lag_s=seconds))


def test_retry_after_a_lost_answer_launches_no_second_instance(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    lose_answer(env)
    (first,) = env.launch(requests)
    assert isinstance(first, errors.Unreachable)
    assert len(ids(env.launch(requests))) == 1
    assert len(env.ec2_instances) == 1


def test_retry_launches_no_second_instance_before_the_first_is_described(env: LaunchEnvironment) -> None:
    """The tags are not described yet; EC2 finds the instance by the client token."""
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    lose_answer(env)
    env.launch(requests)
    make_reads_stale(env, 60)
    assert len(ids(env.launch(requests))) == 1
    assert len(env.ec2_instances) == 1


def with_labels(request: LaunchRequest, found: Instance | Exception) -> LaunchRequest:
    """The claim after its first write: it has the labels of its instance, and no status yet."""
    assert isinstance(found, Instance)
    assert isinstance(request.claim, NodeClaim)
    labels = {**request.claim.metadata.labels, **dict(found.labels)}
    meta = msgspec.structs.replace(request.claim.metadata, labels=labels)
    return dataclasses.replace(request, claim=msgspec.structs.replace(request.claim, metadata=meta))


def test_half_written_claim_gets_its_instance_again_before_it_is_described(
    env: LaunchEnvironment,
) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    first = env.launch(requests)
    make_reads_stale(env, 60)
    assert env.launch([with_labels(requests[0], first[0])]) == first
    assert len(env.ec2_instances) == 1


def test_half_written_claim_gets_its_instance_again_after_a_restart(
    env: LaunchEnvironment,
) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    first = env.launch(requests)
    env.new_process()
    make_reads_stale(env, 5)
    assert ids(env.launch([with_labels(requests[0], first[0])])) == ids(first)
    assert len(env.ec2_instances) == 1


@pytest.mark.parametrize("operation", ["DescribeInstances", "CreateFleet"])
def test_retry_is_unreachable_while_ec2_does_not_answer_about_the_first_launch(
    env: LaunchEnvironment, operation: str
) -> None:
    """Any other error would let the caller launch a second instance."""
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    lose_answer(env)
    env.launch(requests)
    make_reads_stale(env, 60)
    env.ec2.region.faults.add(faults.Throttled(operation=operation))
    (found,) = env.launch(requests)
    assert isinstance(found, errors.Unreachable)


@pytest.mark.fact("aws-9.1.2", "NC-5")
def test_lost_answer_for_fifty_claims_and_a_restart_launch_fifty_instances(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=50)
    lose_answer(env)
    assert all(isinstance(each, errors.Unreachable) for each in env.launch(requests))
    assert len(env.ec2_instances) == 50
    env.new_process()
    found = ids(env.launch(requests))
    assert len(set(found)) == 50
    assert len(env.ec2_instances) == 50
    assert len(env.fleets()) == 1


def test_after_a_restart_the_remaining_claims_get_the_remaining_instances(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=5)
    owned = ids(env.launch(requests))[:2]
    env.new_process()
    rest = ids(env.launch(requests[2:], owned=owned))
    assert not set(rest) & set(owned)
    assert len({*rest, *owned}) == len(env.ec2_instances) == 5


def test_repeated_launch_of_a_claim_returns_the_same_instance(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=3)
    found = ids(env.launch(requests))
    assert ids(env.launch(requests[1:])) == found[1:]
    assert ids(env.launch(requests[:1])) == found[:1]
    assert len(env.ec2_instances) == 3


def test_launch_with_another_token_launches_another_instance(env: LaunchEnvironment) -> None:
    (request,) = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    first = ids(env.launch([request]))
    second = ids(env.launch([dataclasses.replace(request, token=env.ids.token())]))
    assert first != second
    assert len(env.ec2_instances) == 2


def test_instances_of_other_claims_are_not_reused_for_the_same_token(env: LaunchEnvironment) -> None:
    """EC2 repeats its answer to a call with the same token; the next try has another token."""
    node_class = env.resolve(env.node_class())
    requests = env.requests(node_class, ON_DEMAND, count=2)
    owned = ids(env.launch(requests))
    env.new_process()
    requests_of_other_claims = [dataclasses.replace(each, claim=env.claim(ON_DEMAND)) for each in requests]
    found = ids(env.launch(requests_of_other_claims, owned=owned))
    assert len({*found, *owned}) == 4 == len(env.ec2_instances)


def test_instance_of_a_repeated_answer_is_assigned_to_one_claim(env: LaunchEnvironment) -> None:
    """EC2 repeats its answer to the same call. The first claims are not written yet, so no claim owns the instances."""
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=2)
    first = ids(env.launch(requests))
    others = [dataclasses.replace(each, claim=env.claim(ON_DEMAND)) for each in requests]
    second = ids(env.launch(others))
    assert len({*first, *second}) == 4 == len(env.ec2_instances)


def test_instance_of_a_lost_answer_is_assigned_to_the_claim_without_one(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    first = env.requests(node_class, ON_DEMAND)
    second = env.requests(node_class, ON_DEMAND, token=first[0].token, types=("m5.large",))
    launched = ids(env.launch(first))
    lose_answer(env)
    assert isinstance(env.launch(second)[0], errors.Unreachable)
    found = ids(env.launch([*first, *second]))
    assert found[0] == launched[0] != found[1]
    assert len(env.ec2_instances) == 2


def launch_like_karpenter(env: LaunchEnvironment, request: LaunchRequest) -> list[str]:
    """An instance without the tags of the claim and of the launch token, in a cluster where Holdfast starts now."""
    launched = ids(env.launch([request]))
    untagged = [{"Key": names.LAUNCH_TOKEN}, {"Key": aws.NODECLAIM_TAG}]
    env.calls_ec2("DeleteTags", Resources=[launched[0].rpartition("/")[2]], Tags=untagged)
    env.new_process()
    return launched


def created(request: LaunchRequest, at_s: int) -> LaunchRequest:
    assert isinstance(request.claim, NodeClaim)
    metadata = msgspec.structs.replace(
        request.claim.metadata, creation_timestamp=datetime.fromtimestamp(at_s, UTC)
    )
    return dataclasses.replace(request, claim=msgspec.structs.replace(request.claim, metadata=metadata))


def test_nodeclaim_of_karpenter_gets_the_instance_that_karpenter_launched_for_it(
    env: LaunchEnvironment,
) -> None:
    """Karpenter was stopped after the launch, before it wrote the provider id. A retry gets the same instance."""
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=2)
    launched = launch_like_karpenter(env, requests[0])
    renewed = [created(one, env.clock.now_s() - 20) for one in requests]
    first = ids(env.launch(renewed))
    assert launched[0] in first
    assert len(set(first)) == 2
    assert ids(env.launch(renewed)) == first
    env.new_process()
    assert set(ids(env.launch(renewed))) == set(first)
    assert len(env.ec2_instances) == 2


def test_instance_of_karpenter_that_a_nodeclaim_owns_is_not_adopted(env: LaunchEnvironment) -> None:
    (request,) = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    launched = launch_like_karpenter(env, request)
    renewed = created(dataclasses.replace(request, token=env.ids.token()), env.clock.now_s() - 20)
    assert ids(env.launch([renewed], owned=launched)) != launched
    assert len(env.ec2_instances) == 2


def test_restart_with_a_stale_listing_launches_no_instance_twice(env: LaunchEnvironment) -> None:
    """Fewer claims remain than the first call had, so the calls differ; the second waits for the instances of the first."""
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=5)
    lose_answer(env)
    env.launch(requests)
    owned = [f"aws:///us-west-2a/{ec2_instance.id}" for ec2_instance in env.ec2_instances[:2]]
    env.new_process()
    env.ec2.region.faults.add(faults.Stale(operation="DescribeInstances", lag_s=600, times=1))
    assert len(ids(env.launch(requests[2:], owned=owned))) == 3
    assert len(env.ec2_instances) == 5


def test_retry_launches_the_missing_instances_of_a_partial_launch(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=5)
    lose_answer(env)
    env.ec2.region.faults.add(faults.Partial(at_most=2, times=1))
    env.launch(requests)
    assert len(env.ec2_instances) == 2
    env.new_process()
    assert len(set(ids(env.launch(requests)))) == 5
    assert len(env.ec2_instances) == 5


@pytest.mark.fact("aws-5.8.11", "aws-9.1.4")
def test_claims_without_an_instance_of_a_partial_answer_get_an_error_each(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=5)
    env.ec2.region.faults.add(faults.Partial(at_most=3, times=1))
    found = env.launch(requests)
    assert len(ids(found[:3])) == 3
    assert all(type(each) is errors.InsufficientCapacity for each in found[3:])
    assert found[3] is not found[4]
    assert len(env.ec2_instances) == 3


@pytest.mark.fact("aws-9.1.2", "aws-9.1.3")
def test_only_claims_with_equal_requests_share_a_call(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    token = env.ids.token()
    alike = env.requests(node_class, ON_DEMAND, count=3, token=token)
    other = env.requests(node_class, capacity_type("spot"), count=2, token=token)
    found = env.launch([alike[0], other[0], alike[1], other[1], alike[2]])
    kinds = [each.capacity_type for each in found if isinstance(each, Instance)]
    assert kinds == ["on-demand", "spot", "on-demand", "spot", "on-demand"]
    counts = [fleet["TargetCapacitySpecification"]["TotalTargetCapacity"] for fleet in env.fleets()]
    assert sorted(counts) == [2, 3]
    assert len({each.provider_id for each in found if isinstance(each, Instance)}) == 5


def test_claims_of_one_token_in_separate_calls_get_different_instances(env: LaunchEnvironment) -> None:
    """EC2 gives both calls the same answer, because they have the same token."""
    one, two = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=2)

    async def launch_separately() -> list[Instance | Exception]:
        first, second = await asyncio.gather(env.cloud.launch([one]), env.cloud.launch([two]))
        return [*first, *second]

    assert len(set(ids(run(launch_separately())))) == len(env.ec2_instances) == 2


def test_after_a_restart_a_claim_gets_no_instance_of_another_claim(env: LaunchEnvironment) -> None:
    one, two = env.requests(env.resolve(env.node_class()), ON_DEMAND, count=2)
    (first,) = ids(env.launch([one]))
    env.new_process()
    (second,) = ids(env.launch([two], owned=[first]))
    assert first != second
    assert len(env.ec2_instances) == 2


def test_instances_of_one_token_are_assigned_to_claims_of_their_capacity_type(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    token = env.ids.token()
    requests = [
        *env.requests(node_class, ON_DEMAND, token=token),
        *env.requests(node_class, capacity_type("spot"), token=token),
    ]
    env.launch(requests)
    env.new_process()
    spot, on_demand = env.launch(list(reversed(requests)))
    assert isinstance(spot, Instance)
    assert isinstance(on_demand, Instance)
    assert (spot.capacity_type, on_demand.capacity_type) == ("spot", "on-demand")
    assert len(env.ec2_instances) == 2


@pytest.mark.fact("aws-5.1.3")
def test_deleted_launch_template_is_created_again(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    env.one(node_class, ON_DEMAND)
    for template in list(env.ec2.region.templates):
        env.ec2.region.templates.drop(template.id)
    env.one(node_class, ON_DEMAND)
    assert len(env.ec2_instances) == 2


@pytest.mark.fact("AW-10", "aws-5.5.4")
def test_launch_templates_are_created_once_and_reused(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    types = env.types(node_class)

    async def launch_concurrently() -> None:
        requests = [env.request(node_class, types, ON_DEMAND) for _ in range(4)]
        await asyncio.gather(*(env.cloud.launch([request]) for request in requests))

    run(launch_concurrently())
    made = len(list(env.ec2.region.templates))
    assert env.asked("CreateLaunchTemplate") == made
    env.clock.advance(86_400)
    env.one(node_class, ON_DEMAND)
    assert env.asked("CreateLaunchTemplate") == made
    env.new_process()
    env.one(node_class, ON_DEMAND)
    assert len(list(env.ec2.region.templates)) == made


@pytest.mark.fact("aws-5.5.6")
@pytest.mark.parametrize("characters", [10, 14_000])
def test_size_of_user_data_is_a_gauge_and_is_logged_close_to_the_limit(
    env: LaunchEnvironment, characters: int
) -> None:
    node_class = env.resolve(env.node_class(userData="#" * characters))
    with structlog.testing.capture_logs() as logs:
        instance = env.one(node_class, ON_DEMAND)
    size = len(base64.b64decode(env.template(instance)["UserData"]))
    gauge = env.records.gauges["karpenter_ec2nodeclasses_userdata_bytes", (("ec2nodeclass", "default"),)]
    assert gauge == size
    warnings = [log for log in logs if log["log_level"] == "warning" and log.get("bytes") == size]
    assert bool(warnings) is (size >= 14_745)
    assert (size >= 14_745) is (characters == 14_000)


def test_release_deletes_only_the_launch_templates_of_the_class(env: LaunchEnvironment) -> None:
    node_class, other = (env.resolve(env.node_class(name)) for name in ("default", "other"))
    env.one(node_class, ON_DEMAND)
    env.one(other, ON_DEMAND)
    run(env.cloud.release(node_class))
    left = {template.tags["karpenter.k8s.aws/ec2nodeclass"] for template in env.ec2.region.templates}
    assert left == {"other"}
    run(env.cloud.release(node_class))


@pytest.mark.fact("aws-5.8.9")
def test_denied_launch_raises_unauthorized(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND)
    env.ec2.region.faults.add(faults.Denied(operation="CreateFleet", times=1))
    (found,) = env.launch(requests)
    assert isinstance(found, errors.Unauthorized)


@pytest.mark.fact("aws-5.8.4")
def test_offering_without_capacity_becomes_unavailable(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, types=("m5.large",))
    env.ec2.region.faults.add(faults.NoCapacity(instance_type="m5.large", market="on-demand"))
    (found,) = env.launch(requests)
    assert type(found) is errors.InsufficientCapacity
    unavailable = env.discovery.unavailable.pools.members(env.clock.monotonic_s())
    assert unavailable
    assert {(name, kind) for name, _, kind in unavailable} == {("m5.large", "on-demand")}


@pytest.mark.fact("aws-5.8.5")
def test_missing_service_linked_role_makes_spot_unavailable(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), capacity_type("spot"))
    env.refuses(code="AuthFailure.ServiceLinkedRoleCreationNotPermitted")
    (found,) = env.launch(requests)
    assert type(found) is errors.InsufficientCapacity
    assert env.discovery.unavailable.capacity_types.members(env.clock.monotonic_s()) == {"spot"}


def test_unknown_error_code_is_retryable_and_counted(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, types=("m5.large",))
    env.refuses(code="BrandNewCode")
    (found,) = env.launch(requests)
    assert type(found) is errors.Retryable
    assert env.records.total("holdfast_aws_unknown_error_codes_total", code="BrandNewCode") > 0
    assert not env.discovery.unavailable.pools.members(env.clock.monotonic_s())


@pytest.mark.fact("aws-5.8.1")
def test_every_error_of_a_fleet_is_counted(env: LaunchEnvironment) -> None:
    requests = env.requests(env.resolve(env.node_class()), ON_DEMAND, types=("m5.large",))
    env.refuses(code="InsufficientInstanceCapacity")
    env.launch(requests)
    counted = {
        zone: env.records.total(
            "karpenter_cloudprovider_instance_launch_failures_total",
            zone=zone,
            zone_id=zone_id,
            capacity_type="on-demand",
            reason="InsufficientInstanceCapacity",
        )
        for zone, zone_id in (("us-west-2a", "usw2-az2"), ("us-west-2b", "usw2-az1"))
    }
    assert counted == {"us-west-2a": 1, "us-west-2b": 1}
