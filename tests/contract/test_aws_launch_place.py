"""Whether an EC2NodeClass can be launched from, and the subnet, tags and labels of its instances, over the wire."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from aws_environment import REGION, run
from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.model import resources
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2 import setup as ec2_setup
from launch_environment import LaunchEnvironment, capacity_type

ON_DEMAND = capacity_type("on-demand")
IN_A = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-west-2a"]}


def region_with_subnets(*free: int) -> LaunchEnvironment:
    """A region whose zone us-west-2a has one subnet for each of these numbers of free addresses."""
    plain = ec2_setup.plain(REGION)
    first = next(s for s in plain.subnets if s.zone_id == "usw2-az2" and s.account == ec2_setup.ACCOUNT)
    made = [
        replace(first, id=f"subnet-{n:017x}", cidr=f"10.{100 + n}.0.0/20", addresses=count)
        for n, count in enumerate(free, start=1)
    ]
    others = [s for s in plain.subnets if s is not first]
    return LaunchEnvironment(subnets=(*made, *others))


def subnets(env: LaunchEnvironment) -> list[str]:
    """The subnet of each instance, in the order of launch."""
    return [ec2_instance.subnet_id[-1] for ec2_instance in env.ec2_instances]


def changed(node_class: EC2NodeClass, **meta: Any) -> EC2NodeClass:
    return msgspec.structs.replace(node_class, metadata=msgspec.structs.replace(node_class.metadata, **meta))


# --- Readiness of the class ---------------------------------------------------------------------------


def outcome(env: LaunchEnvironment, node_class: EC2NodeClass) -> Instance | Exception:
    (found,) = env.launch(env.requests(node_class, ON_DEMAND))
    return found


@pytest.mark.fact("aws-1.6.5", "aws-5.1.1")
def test_launch_from_a_deleting_class_fails_with_insufficient_capacity() -> None:
    env = LaunchEnvironment()
    node_class = env.resolve(env.node_class())
    found = outcome(env, changed(node_class, deletion_timestamp=datetime(2026, 11, 15, tzinfo=UTC)))
    assert type(found) is errors.InsufficientCapacity
    assert "being deleted" in str(found)
    assert env.ec2_instances == []


@pytest.mark.fact("aws-1.6.6")
def test_launch_from_an_unready_class_fails_with_not_ready() -> None:
    env = LaunchEnvironment()
    resolved = env.resolve(env.node_class())
    unready = env.resolve(env.node_class(role="NoSuchRole"))
    without_conditions = msgspec.structs.replace(
        resolved, status=msgspec.structs.replace(resolved.status, conditions=())
    )
    for node_class, words in (
        (unready, "is not Ready"),
        (without_conditions, "is not known yet"),
        (changed(resolved, generation=2), "was changed"),
    ):
        found = outcome(env, node_class)
        assert type(found) is errors.NotReady
        assert words in str(found)
    assert env.ec2_instances == []
    assert isinstance(outcome(env, resolved), Instance)


@pytest.mark.fact("aws-5.4.2")
def test_launch_from_a_class_without_subnets_fails_with_not_ready() -> None:
    env = LaunchEnvironment()
    resolved = env.resolve(env.node_class())
    requests = env.requests(resolved, ON_DEMAND)
    bare = msgspec.structs.replace(resolved, status=msgspec.structs.replace(resolved.status, subnets=()))
    (found,) = env.launch([replace(request, node_class=bare) for request in requests])
    assert type(found) is errors.NotReady
    assert "has no subnets" in str(found)


# --- Which subnet -----------------------------------------------------------------------------------


@pytest.mark.fact("aws-5.4.1")
def test_subnet_with_most_free_addresses_after_launches_in_flight_is_used() -> None:
    """An m5.large runs 29 pods, and each pod uses one address."""
    env = region_with_subnets(200, 250)
    node_class = env.resolve(env.node_class())
    for _ in range(4):
        env.one(node_class, ON_DEMAND, IN_A, types=("m5.large",))
    assert subnets(env) == ["2", "2", "1", "2"]


@pytest.mark.fact("aws-5.4.1")
def test_launch_reserves_addresses_only_in_the_subnet_that_it_used() -> None:
    env = region_with_subnets(200, 250)
    node_class = env.resolve(env.node_class())
    before = env.discovery.addresses.free()
    instance = env.one(node_class, ON_DEMAND)
    left = env.discovery.addresses.free()
    (instance_type,) = env.types(node_class, instance.instance_type)
    ec2_instance = env.ec2_instance(instance)
    reserved = {key: before[key] - left[key] for key in before if before[key] != left[key]}
    assert reserved == {ec2_instance.subnet_id: instance_type.capacity[resources.PODS]}


def test_failed_launch_reserves_no_addresses() -> None:
    env = region_with_subnets(200, 250)
    node_class = env.resolve(env.node_class())
    requests = env.requests(node_class, ON_DEMAND)
    before = env.discovery.addresses.free()
    env.ec2.region.faults.add(faults.NoCapacity(times=99))
    (found,) = env.launch(requests)
    assert isinstance(found, errors.InsufficientCapacity)
    assert env.discovery.addresses.free() == before


def test_reserved_addresses_are_released_by_a_later_read_of_the_subnets() -> None:
    env = region_with_subnets(200, 250)
    node_class = env.resolve(env.node_class())
    ec2_instance = env.ec2_instance(env.one(node_class, ON_DEMAND, IN_A, types=("m5.large",)))
    for seconds, left in ((60, 250 - 1 - 29), (61, 250 - 1)):
        env.clock.advance(seconds)
        run(env.discovery.schedule.step())
        assert env.discovery.addresses.free()[ec2_instance.subnet_id] == left


# --- Request and result of a launch -------------------------------------------------------------------


@pytest.mark.fact("aws-5.7.1")
def test_fleet_requests_one_instance_per_claim_and_tags_all_resources() -> None:
    env = LaunchEnvironment()
    node_class = env.resolve(env.node_class(tags={"team": "ml"}))
    env.launch(env.requests(node_class, ON_DEMAND, count=3))
    (fleet,) = env.fleets()
    assert fleet["TargetCapacitySpecification"]["TotalTargetCapacity"] == 3
    tagged = {spec["ResourceType"]: spec["Tags"] for spec in fleet["TagSpecifications"]}
    assert set(tagged) == {"instance", "volume", "fleet"}
    wanted = {"team": "ml", "karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default"}
    for tags in tagged.values():
        assert wanted.items() <= {tag["Key"]: tag["Value"] for tag in tags}.items()
    assert all(wanted.items() <= ec2_instance.tags.items() for ec2_instance in env.ec2_instances)


@pytest.mark.fact("aws-5.1.2", "NC-14", "R-32")
def test_launch_returns_the_labels_and_annotations_of_its_claim() -> None:
    env = LaunchEnvironment()
    node_class = env.resolve(env.node_class())
    instance = env.one(node_class, ON_DEMAND)
    ec2_instance = env.ec2_instance(instance)
    labels, annotations = dict(instance.labels), dict(instance.annotations)
    assert labels["node.kubernetes.io/instance-type"] == ec2_instance.instance_type
    assert labels["karpenter.k8s.aws/instance-family"] == "m5"
    assert labels["karpenter.sh/nodepool"] == "default"
    assert annotations["karpenter.k8s.aws/instance-profile-name"] == ec2_instance.spec.profile
    assert annotations["karpenter.k8s.aws/ec2nodeclass-hash-version"] == "holdfast-v2"
    assert annotations["karpenter.k8s.aws/ec2nodeclass-hash"]
