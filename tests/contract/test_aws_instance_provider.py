"""Instances over the wire: described in batches, terminated once, rebooted once, checked for drift."""

import asyncio
import dataclasses
from typing import Any

import msgspec
import pytest

from aws_environment import ACCOUNT, run
from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.model.instances import Instance, InstanceState
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2 import setup as ec2_setup
from launch_environment import LaunchEnvironment, capacity_type
from objects import nodeclaim

ON_DEMAND = capacity_type("on-demand")
MINE = {"tags": {"team": "ml"}}
TAGS = {"team": "ml"}


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def launched(env: LaunchEnvironment, count: int = 1) -> list[Instance]:
    found = env.launch(env.requests(env.resolve(env.node_class()), ON_DEMAND, count=count))
    return [each for each in found if isinstance(each, Instance)]


@pytest.mark.fact("aws-15.1")
def test_instance_has_the_state_type_image_and_labels_of_ec2(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    assert run(env.cloud.instance(instance.provider_id)).state is InstanceState.STARTING
    env.clock.advance(60)
    found = run(env.cloud.instance(instance.provider_id))
    ec2_instance = env.ec2_instance(instance)
    assert found.state is InstanceState.RUNNING
    assert (found.instance_type, found.image_id) == (ec2_instance.instance_type, ec2_instance.spec.image_id)
    assert found.launch_token == instance.launch_token
    labels = dict(found.labels)
    assert labels["karpenter.sh/nodepool"] == "default"
    assert labels["karpenter.k8s.aws/ec2nodeclass"] == "default"
    assert labels["topology.k8s.aws/zone-id"] == ec2_instance.zone_id
    assert set(labels) <= set(dict(instance.labels))


def test_instances_of_other_clusters_are_not_listed(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    (raw,) = env.ec2.region.instances
    env.ec2.region.put_instance(raw, tags={**raw.tags, "eks:eks-cluster-name": "another"})
    assert env.described() == ()
    assert run(env.cloud.instance(instance.provider_id)).provider_id == instance.provider_id


def test_concurrent_reads_of_instances_share_one_call(env: LaunchEnvironment) -> None:
    instances = launched(env, 20)
    before = env.asked("DescribeInstances")

    async def all_at_once() -> list[Instance]:
        return await asyncio.gather(*(env.cloud.instance(each.provider_id) for each in instances))

    assert [each.provider_id for each in run(all_at_once())] == [each.provider_id for each in instances]
    assert env.asked("DescribeInstances") == before + 1


def test_listing_of_many_pages_is_cached_for_longer(
    env: LaunchEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2_instances, "PAGE", 5)
    launched(env, 12)
    asked = env.asked("DescribeInstances")
    assert len(env.described()) == 12
    assert env.asked("DescribeInstances") == asked + 3
    env.clock.advance(39)
    assert len(env.described()) == 12
    assert env.asked("DescribeInstances") == asked + 3
    launched(env, 1)
    asked = env.asked("DescribeInstances")
    env.clock.advance(1)
    assert len(env.described()) == 13
    assert env.asked("DescribeInstances") == asked + 3


@pytest.mark.fact("aws-9.1.5")
def test_missing_instance_does_not_fail_the_termination_of_the_other_instances(
    env: LaunchEnvironment,
) -> None:
    instances = launched(env, 3)
    missing = "aws:///us-west-2a/i-0123456789abcdef0"

    async def all_at_once() -> list[Any]:
        ids = [*(each.provider_id for each in instances), missing]
        return await asyncio.gather(*(env.cloud.terminate(each) for each in ids), return_exceptions=True)

    outcomes = run(all_at_once())
    assert outcomes[:3] == [None, None, None]
    assert isinstance(outcomes[3], errors.NotFound)
    assert {ec2_instance.state for ec2_instance in env.ec2_instances} == {"shutting-down"}


@pytest.mark.fact("aws-9.1.5")
def test_instances_that_end_together_are_terminated_in_one_call(env: LaunchEnvironment) -> None:
    instances = launched(env, 3)

    async def all_at_once() -> None:
        await asyncio.gather(*(env.cloud.terminate(each.provider_id) for each in instances))

    run(all_at_once())
    assert env.asked("TerminateInstances") == 1
    assert {ec2_instance.state for ec2_instance in env.ec2_instances} == {"shutting-down"}


@pytest.mark.fact("aws-6.7.1")
def test_instance_that_ec2_does_not_terminate_is_counted(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    env.ec2.region.faults.add(faults.Denied(operation="TerminateInstances", times=1))
    with pytest.raises(errors.Unauthorized):
        run(env.cloud.terminate(instance.provider_id))
    assert env.records.total("karpenter_cloudprovider_instance_termination_failures_total") == 1
    run(env.cloud.terminate(instance.provider_id))
    assert env.records.total("karpenter_cloudprovider_instance_termination_failures_total") == 1


@pytest.mark.fact("aws-6.7.1")
def test_terminate_is_idempotent_and_a_terminated_instance_is_not_found(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    run(env.cloud.terminate(instance.provider_id))
    run(env.cloud.terminate(instance.provider_id))
    assert run(env.cloud.instance(instance.provider_id)).state is InstanceState.ENDING
    env.clock.advance(120)
    with pytest.raises(errors.NotFound):
        run(env.cloud.instance(instance.provider_id))
    with pytest.raises(errors.NotFound):
        run(env.cloud.terminate(instance.provider_id))
    assert env.asked("TerminateInstances") == 1  # a terminating instance is only described


def test_launched_instance_that_is_not_described_yet_is_terminated(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    env.ec2.region.faults.add(faults.Stale(operation="DescribeInstances", lag_s=10, times=1))
    run(env.cloud.terminate(instance.provider_id))
    assert env.ec2_instance(instance).state == "shutting-down"


def test_launched_instance_that_is_not_described_yet_is_not_ready(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    env.ec2.region.faults.add(faults.Stale(operation="DescribeInstances", lag_s=10, times=1))
    with pytest.raises(errors.NotReady):
        run(env.cloud.instance(instance.provider_id))
    assert run(env.cloud.instance(instance.provider_id)).provider_id == instance.provider_id


def test_repeated_reboot_request_reboots_the_instance_once(env: LaunchEnvironment) -> None:
    (instance,) = launched(env)
    env.clock.advance(60)
    for _ in range(2):
        run(env.cloud.reboot(instance.provider_id, "repair-1"))
    assert env.asked("RebootInstances") == 1
    run(env.cloud.reboot(instance.provider_id, "repair-2"))
    assert env.asked("RebootInstances") == 2
    assert len(env.ec2_instances) == 1


@pytest.mark.fact("aws-3.8", "aws-3.5", "AW-23", "aws-14.7")
def test_slot_is_free_only_when_ec2_counts_it_even_after_repeated_termination(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    instance = env.one(env.selecting(MINE), capacity_type("reserved"))

    def free() -> int:
        env.clock.advance(60)
        counts = run(env.cloud.reservations()).reservations
        return next(one.available for one in counts if one.id == slots.id)

    assert free() == 1
    for _ in range(2):
        run(env.cloud.terminate(instance.provider_id))
    assert env.free(slots) == 1
    env.clock.advance(600)
    for _ in range(2):
        with pytest.raises(errors.NotFound):
            run(env.cloud.terminate(instance.provider_id))
    assert free() == env.free(slots) == 2


@pytest.mark.fact("aws-4.5.1", "aws-5.6.3", "aws-5.10.1")
def test_instances_have_labels_of_their_placement_group_and_partition() -> None:
    group = ec2_setup.PlacementGroup(
        id="pg-0a1b2c3d4e5f60718", account=ACCOUNT, name="wide", strategy="partition", partitions=2
    )
    env = LaunchEnvironment(placement_groups=(group,))
    node_class = env.resolve(env.node_class(placementGroupSelector={"name": "wide"}))
    for _ in range(2):
        placement = env.template(env.one(node_class, ON_DEMAND))["Placement"]
        assert placement == {"Tenancy": "default", "GroupName": "wide"}
    found = [dict(each.labels) for each in env.described()]
    assert {labels["karpenter.k8s.aws/placement-group-id"] for labels in found} == {group.id}
    assert {labels["karpenter.k8s.aws/placement-group-partition"] for labels in found} == {"1", "2"}


# --- Changes of the capacity type ---------------------------------------------------------------------


@pytest.mark.fact("Q-26", "aws-14.4")
def test_an_instance_whose_reservation_was_cancelled_is_on_demand(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    env.one(env.selecting(MINE), capacity_type("reserved"))
    env.calls_ec2("CancelCapacityReservation", CapacityReservationId=slots.id)
    (found,) = env.described()
    assert (found.capacity_type, found.reservation_id) == ("on-demand", None)
    assert not [key for key, _ in found.labels if "capacity-reservation" in key]


@pytest.mark.fact("aws-5.10.3")
def test_instance_in_an_open_reservation_becomes_reserved_when_its_class_selects_it(
    env: LaunchEnvironment,
) -> None:
    slots = env.reserve(total=1, criteria="open", tags=TAGS)
    env.one(env.resolve(env.node_class()), ON_DEMAND, types=("m5.large",))
    assert [each.capacity_type for each in env.described()] == ["on-demand"]
    node_class = env.selecting(MINE)
    env.types(node_class)
    (found,) = env.described()
    assert (found.capacity_type, found.reservation_id) == ("reserved", slots.id)


# --- Drift ------------------------------------------------------------------------------------------


def claim_of(instance: Instance) -> NodeClaim:
    return nodeclaim(
        instance.claim or "",
        {"labels": dict(instance.labels), "annotations": dict(instance.annotations)},
        {"providerID": instance.provider_id},
    )


def changed(node_class: EC2NodeClass, **status: Any) -> EC2NodeClass:
    return msgspec.structs.replace(node_class, status=msgspec.structs.replace(node_class.status, **status))


def drift(env: LaunchEnvironment, instance: Instance, node_class: EC2NodeClass) -> str | None:
    return run(env.cloud.drift(claim_of(instance), node_class))


@pytest.mark.fact("aws-6.3.1")
def test_each_difference_from_the_class_has_its_own_drift_reason(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    instance = env.one(node_class, ON_DEMAND)
    assert drift(env, instance, node_class) is None
    spec = msgspec.structs.replace(node_class.spec, user_data="echo new")
    assert drift(env, instance, msgspec.structs.replace(node_class, spec=spec)) == "NodeClassDrift"
    other_amis = [msgspec.structs.replace(ami, id="ami-other") for ami in node_class.status.amis]
    assert drift(env, instance, changed(node_class, amis=tuple(other_amis))) == "AMIDrift"
    group = msgspec.structs.replace(node_class.status.security_groups[0], id="sg-other")
    assert drift(env, instance, changed(node_class, security_groups=(group,))) == "SecurityGroupDrift"
    subnets_of_other_zones = tuple(s for s in node_class.status.subnets if s.zone != instance.zone)
    assert drift(env, instance, changed(node_class, subnets=subnets_of_other_zones)) == "SubnetDrift"


@pytest.mark.fact("aws-6.3.1")
def test_instance_in_the_placement_group_of_its_class_has_not_drifted() -> None:
    groups = [
        ec2_setup.PlacementGroup(
            id=f"pg-{number}", account=ACCOUNT, name=f"group-{number}", strategy="cluster"
        )
        for number in range(2)
    ]
    env = LaunchEnvironment(placement_groups=tuple(groups))
    for selector in ({"name": "group-0"}, {"id": "pg-0"}):
        node_class = env.resolve(env.node_class(placementGroupSelector=selector))
        instance = env.one(node_class, ON_DEMAND)
        assert drift(env, instance, node_class) is None
        without_hash = dataclasses.replace(
            instance, annotations=()
        )  # claims of Karpenter have no hash of Holdfast
        other = env.resolve(env.node_class(placementGroupSelector={"name": "group-1"}))
        assert drift(env, without_hash, other) == "PlacementGroupDrift"


@pytest.mark.fact("aws-6.3.3")
def test_drift_check_calls_ec2_only_for_instances_that_seem_drifted(
    env: LaunchEnvironment,
) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    node_class = env.selecting(MINE)
    made = [env.one(node_class, capacity_type("reserved")) for _ in range(2)]
    env.described()
    asked = env.asked("DescribeInstances")
    assert [drift(env, each, node_class) for each in made] == [None, None]
    assert env.asked("DescribeInstances") == asked
    env.calls_ec2("CancelCapacityReservation", CapacityReservationId=slots.id)
    unselected = changed(node_class, capacity_reservations=())
    assert drift(env, made[0], unselected) is None  # the cached listing still shows it in the reservation
    assert env.asked("DescribeInstances") == asked + 1
    env.clock.advance(120)
    drift(env, made[0], node_class)
    assert env.asked("DescribeInstances") == asked + 2


@pytest.mark.fact("aws-6.3.5")
def test_hash_of_another_version_causes_no_drift(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    claim = claim_of(env.one(node_class, ON_DEMAND))
    hashes = {"karpenter.k8s.aws/ec2nodeclass-hash": "123"}
    version = {"karpenter.k8s.aws/ec2nodeclass-hash-version": "v6"}

    def with_annotations(more: dict[str, str]) -> NodeClaim:
        annotations = claim.metadata.annotations | more
        return msgspec.structs.replace(
            claim, metadata=msgspec.structs.replace(claim.metadata, annotations=annotations)
        )

    assert run(env.cloud.drift(with_annotations(hashes | version), node_class)) is None
    assert run(env.cloud.drift(with_annotations(hashes), node_class)) == "NodeClassDrift"


@pytest.mark.fact("Q-30", "aws-6.3.2")
def test_a_reserved_instance_drifts_when_its_reservation_is_no_longer_selected(
    env: LaunchEnvironment,
) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    node_class = env.selecting(MINE)
    instance = env.one(node_class, capacity_type("reserved"))
    assert drift(env, instance, node_class) is None
    unselected = changed(node_class, capacity_reservations=())
    assert drift(env, instance, unselected) == "CapacityReservationDrift"
    env.calls_ec2("CancelCapacityReservation", CapacityReservationId=slots.id)
    assert drift(env, instance, unselected) is None


@pytest.mark.fact("Q-41")
def test_instance_in_direct_mode_has_no_capacity_reservation_drift(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="targeted")
    target = {"capacityReservationTarget": {"capacityReservationId": slots.id}}
    node_class = env.resolve(env.node_class(capacityReservationSpec=target))
    instance = env.one(node_class, types=("m5.large",))
    assert env.ec2_instance(instance).reservation_id == slots.id
    assert drift(env, instance, node_class) is None
