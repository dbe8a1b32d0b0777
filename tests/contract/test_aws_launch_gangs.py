"""NodeClaims of a gang are launched all or none, over the wire: what EC2 is asked for, and what it has launched."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from aws_environment import ZONE_A, ZONE_B
from builders import requirement
from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.sim.ec2 import control, faults
from launch_environment import LaunchEnvironment, capacity_type

RESERVED, ON_DEMAND, SPOT = (capacity_type(one) for one in ("reserved", "on-demand", "spot"))
TAGS = {"team": "ml"}
MINE = {"tags": TAGS}
GPU = ("p5.48xlarge",)
DAY_S = 86_400


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def gang(requests: Sequence[LaunchRequest], name: str = "train") -> list[LaunchRequest]:
    return [dataclasses.replace(one, gang=name) for one in requests]


def plain(env: LaunchEnvironment) -> EC2NodeClass:
    return env.resolve(env.node_class())


def launched(found: Sequence[Instance | Exception]) -> list[str]:
    assert all(isinstance(one, Instance) for one in found), found
    return [one.provider_id for one in found if isinstance(one, Instance)]


def refused(found: Sequence[Instance | Exception]) -> str:
    """The error, which every request got."""
    assert found
    assert all(isinstance(one, errors.InsufficientCapacity) for one in found), found
    return str(found[0])


def block(env: LaunchEnvironment, total: int, **fields: Any) -> str:
    ends_s = env.clock.now_s() + DAY_S
    more: dict[str, Any] = {"kind": "capacity-block", "criteria": "targeted", "end_s": ends_s}
    return env.reserve(GPU[0], total=total, tags=TAGS, **more, **fields).id


def test_gang_in_a_reservation_takes_all_slots_or_none(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    found = env.launch(gang(env.requests(env.selecting(MINE), RESERVED, count=3, slot=slots.id)))
    assert "ReservationCapacityExceeded" in refused(found)
    assert (env.ec2_instances, env.free(slots)) == ([], 2)
    assert len(launched(env.launch(gang(env.requests(env.selecting(MINE), RESERVED, count=2))))) == 2
    assert env.free(slots) == 0


def test_nodes_of_no_gang_get_the_slots_that_there_are(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    found = env.launch(env.requests(env.selecting(MINE), RESERVED, count=3, slot=slots.id))
    assert sum(isinstance(one, Instance) for one in found) == 2


def test_slot_that_another_cluster_takes_during_the_launch_leaves_no_part_of_a_gang(
    env: LaunchEnvironment,
) -> None:
    slots = env.reserve(total=3, tags=TAGS)
    requests = gang(env.requests(env.selecting(MINE), RESERVED, count=3, slot=slots.id))
    env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
    refused(env.launch(requests))
    assert env.ec2_instances == []


@pytest.mark.parametrize("free", [2, 3])
def test_gang_in_a_capacity_block_is_launched_by_one_call_or_not_at_all(
    env: LaunchEnvironment, free: int
) -> None:
    block_id = block(env, 3, elsewhere=3 - free)
    requests = gang(env.requests(env.selecting(MINE), RESERVED, count=3, slot=block_id, types=GPU))
    found = env.launch(requests)
    if free < 3:
        assert "ReservationCapacityExceeded" in refused(found)
        assert env.ec2_instances == []
        return
    assert len(set(launched(found))) == 3
    assert {(one.reservation_id, one.lifecycle) for one in env.ec2_instances} == {
        (block_id, "capacity-block")
    }
    assert {one.launch_token for one in env.described()} == {requests[0].token}
    assert {(one.reservation_id, one.zone) for one in found if isinstance(one, Instance)} == {
        (block_id, "us-west-2a")
    }
    assert not env.fleets()


def test_gang_in_an_interruptible_reservation_takes_all_slots_or_none(env: LaunchEnvironment) -> None:
    source = env.reserve(total=4, tags=TAGS, criteria="targeted")
    lent = control.lend(env.ec2.region, source.id, 2, tags={"team": "lent"})
    node_class = env.selecting({"tags": {"team": "lent"}})
    refused(env.launch(gang(env.requests(node_class, RESERVED, count=3, slot=lent.id))))
    assert env.ec2_instances == []
    found = env.launch(gang(env.requests(node_class, RESERVED, count=2, slot=lent.id)))
    assert len(launched(found)) == 2
    assert {one.reservation_id for one in env.ec2_instances} == {lent.id}


@pytest.mark.parametrize("kind", ["on-demand", "spot"])
def test_gang_without_reservation_is_launched_whole_or_not_at_all(env: LaunchEnvironment, kind: str) -> None:
    env.ec2.region.faults.add(faults.Partial(at_most=2, times=1))
    requests = gang(env.requests(plain(env), capacity_type(kind), count=3))
    refused(env.launch(requests))
    assert env.ec2_instances == []
    retried = gang(env.requests(plain(env), capacity_type(kind), count=3))
    assert len(launched(env.launch(retried))) == 3


def test_gang_is_launched_in_one_zone_if_several_fit(env: LaunchEnvironment) -> None:
    for instance_type in ("m5.large", "m5.xlarge"):
        fault = faults.NoCapacity(instance_type=instance_type, zone_id=ZONE_A, market="on-demand")
        env.ec2.region.faults.add(fault)
    found = env.launch(gang(env.requests(plain(env), ON_DEMAND, count=3)))
    launched(found)
    assert len({one.zone for one in found if isinstance(one, Instance)}) == 1


def test_part_of_a_gang_is_not_launched_after_another_part_failed(env: LaunchEnvironment) -> None:
    """Nodes that differ need a call each. The reservation is tried first, so nothing has to be terminated."""
    slots = env.reserve(total=1, elsewhere=1, tags=TAGS)
    node_class = env.selecting(MINE)
    token = env.ids.token()
    requests = [
        *env.requests(node_class, ON_DEMAND, count=2, token=token),
        *env.requests(node_class, RESERVED, slot=slots.id, token=token),
    ]
    assert "ReservationCapacityExceeded" in refused(env.launch(gang(requests)))
    assert env.ec2_instances == []


def test_gangs_and_single_nodes_of_one_batch_do_not_depend_on_each_other(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    node_class = env.selecting(MINE)
    found = env.launch(
        [
            *gang(env.requests(node_class, RESERVED, count=2, slot=slots.id), "too-large"),
            *gang(env.requests(node_class, ON_DEMAND, count=2), "fits"),
            *env.requests(node_class, ON_DEMAND),
        ]
    )
    refused(found[:2])
    assert len(launched(found[2:])) == len(env.ec2_instances) == 3


@pytest.mark.parametrize("operation", ["CreateFleet", "RunInstances"])
def test_lost_answer_launches_no_second_gang(env: LaunchEnvironment, operation: str) -> None:
    if operation == "RunInstances":
        block_id = block(env, 5)
        requests = gang(env.requests(env.selecting(MINE), RESERVED, count=3, slot=block_id, types=GPU))
    else:
        requests = gang(env.requests(plain(env), ON_DEMAND, count=3))
    env.ec2.region.faults.add(faults.Lost(operation=operation, times=1))
    assert all(isinstance(one, errors.Unreachable) for one in env.launch(requests))
    env.ec2.region.faults.add(faults.Stale(operation="DescribeInstances", lag_s=60))
    assert len(set(launched(env.launch(requests)))) == len(env.ec2_instances) == 3


def test_gang_in_a_block_is_launched_again_after_its_launch_template_was_deleted(
    env: LaunchEnvironment,
) -> None:
    block_id = block(env, 4)
    node_class = env.selecting(MINE)
    for _ in range(2):
        requests = gang(env.requests(node_class, RESERVED, count=2, slot=block_id, types=GPU))
        assert len(launched(env.launch(requests))) == 2
        for template in list(env.ec2.region.templates):
            env.calls_ec2("DeleteLaunchTemplate", LaunchTemplateName=template.name)


def test_fleet_of_a_gang_needs_equal_types_if_its_zones_differ(env: LaunchEnvironment) -> None:
    requests = gang(env.requests(plain(env), ON_DEMAND, count=2, types=("m5.large",)))
    launched(env.launch(requests))
    (fleet,) = env.fleets()
    assert fleet["OnDemandOptions"] == {
        "AllocationStrategy": "prioritized",
        "MinTargetCapacity": 2,
        "SingleInstanceType": True,
    }


def test_gang_whose_zone_is_full_is_refused_by_zone(env: LaunchEnvironment) -> None:
    env.ec2.region.faults.add(faults.NoCapacity(zone_id=ZONE_B, market="on-demand"))
    zone = requirement("topology.kubernetes.io/zone", "In", "us-west-2b")
    found = env.launch(gang(env.requests(plain(env), ON_DEMAND, zone, count=2)))
    assert "InsufficientInstanceCapacity" in refused(found)
    assert env.ec2_instances == []


def test_repeated_launch_of_a_gang_is_not_answered_by_its_earlier_refusal(env: LaunchEnvironment) -> None:
    """The NodeClaims keep their launch token, and EC2 repeats its answer to a client token."""
    slots = env.reserve(total=3, tags=TAGS)
    requests = gang(env.requests(env.selecting(MINE), RESERVED, count=3, slot=slots.id))
    rejected = faults.NoCapacity(market="reserved", code="InvalidParameterValue", times=2)
    env.ec2.region.faults.add(rejected)
    for _ in range(2):
        assert not any(isinstance(one, Instance) for one in env.launch(requests))
    assert len(set(launched(env.launch(requests)))) == 3 == len(env.ec2_instances)


def test_run_of_a_gang_states_the_tags_of_everything_that_it_creates(env: LaunchEnvironment) -> None:
    """The policy requires them, and EC2 does not document whether those of the launch template count."""
    block_id = block(env, 2)
    launched(env.launch(gang(env.requests(env.selecting(MINE), RESERVED, count=2, slot=block_id, types=GPU))))
    (run,) = [call.params for call in env.endpoint.log if call.operation == "RunInstances"]
    tagged = [one["ResourceType"] for one in run["TagSpecifications"]]
    assert tagged == ["instance", "network-interface", "volume"]
