"""API calls of the simulated EC2: filters, pages, error codes, dry runs, client tokens and responses."""

import base64
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ec2_region import HOUR_S, OTHER, START_S, ZONES, Region, config
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.service import OPERATIONS
from holdfast.sim.ec2.setup import ACCOUNT

CLUSTER = {"eks:eks-cluster-name": "blue", "karpenter.sh/nodepool": "web"}


def filter_of(name: str, *values: str) -> dict[str, Any]:
    return {"Name": name, "Values": list(values)}


def instance_ids(region: Region, **params: Any) -> set[str]:
    answer = region.call("DescribeInstances", **params)
    return {i["InstanceId"] for batch in answer["Reservations"] for i in batch["Instances"]}


def reservation_ids(region: Region, *filters: dict[str, Any]) -> set[str]:
    answer = region.call("DescribeCapacityReservations", Filters=list(filters))
    return {r["CapacityReservationId"] for r in answer["CapacityReservations"]}


# --- Filters ----------------------------------------------------------------------------------------


@pytest.mark.fact("aws-15.2")
def test_filters_are_anded_and_their_values_ored() -> None:
    region = Region()
    one = region.reserve(tags={"team": "ml"})
    two = region.reserve("m5.xlarge", tags={"team": "web"}, criteria="targeted")
    three = region.reserve("m5.xlarge", tags={"app": "x"})
    assert reservation_ids(region, filter_of("tag:team", "ml", "web")) == {one.id, two.id}
    assert reservation_ids(region, filter_of("tag-key", "team"), filter_of("instance-type", "m5.xlarge")) == {
        two.id
    }
    assert reservation_ids(region, filter_of("instance-match-criteria", "open")) == {one.id, three.id}
    assert reservation_ids(region, filter_of("owner-id", OTHER)) == set()
    region.call("CancelCapacityReservation", CapacityReservationId=three.id)
    assert reservation_ids(region, filter_of("state", "active")) == {one.id, two.id}


def test_star_and_question_mark_are_wildcards_unless_escaped() -> None:
    region = Region()
    plain = region.reserve(tags={"team": "ml-42"})
    star = region.reserve(tags={"team": "ml*"})
    assert reservation_ids(region, filter_of("tag:team", "ml*")) == {plain.id, star.id}
    assert reservation_ids(region, filter_of("tag:team", "ml-?2")) == {plain.id}
    assert reservation_ids(region, filter_of("tag:team", r"ml\*")) == {star.id}
    assert reservation_ids(region, filter_of("tag:team", "ML*")) == set()


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        ("DescribeCapacityReservations", "reservation-type"),
        ("DescribeInstances", "capacity-type"),
        ("DescribeSubnets", "zone"),
        ("DescribeSecurityGroups", "name"),
        ("DescribeImages", "alias"),
        ("DescribeInstanceTypes", "memory"),
        ("DescribeInstanceTypes", "tag:team"),  # instance types have no tags
        ("DescribeInstanceTypeOfferings", "zone"),
        ("DescribeSpotPriceHistory", "price"),
        ("DescribeAvailabilityZones", "zone"),
        ("DescribeLaunchTemplates", "launch-template-id"),
        ("DescribeInstanceStatus", "status"),
        ("DescribePlacementGroups", "name"),
    ],
)
def test_an_unknown_filter_is_refused(operation: str, name: str) -> None:
    region = Region()
    region.launch()
    region.reserve()
    assert region.refusal(operation, Filters=[filter_of(name, "x")]).code == "InvalidParameterValue"


def test_instances_are_found_by_tag_state_reservation_zone_and_owner() -> None:
    region = Region()
    tags = [{"Key": key, "Value": value} for key, value in CLUSTER.items()]
    reservation = region.reserve(criteria="targeted")
    specs = [{"ResourceType": "instance", "Tags": tags}]
    inside = region.launched(
        region.fleet(config(region.targeting(reservation), "m5.large/a"), TagSpecifications=specs)
    )
    region.wait(60)
    (outside,) = region.launched(region.fleet(config(region.template(), "m5.xlarge/b")))
    found = instance_ids(
        region,
        Filters=[
            filter_of("tag-key", "karpenter.sh/nodepool"),
            filter_of("tag:eks:eks-cluster-name", "blue"),
            filter_of("instance-state-name", "pending", "running"),
        ],
        MaxResults=1000,
    )
    assert found == {inside[0].id}
    assert instance_ids(region, Filters=[filter_of("capacity-reservation-id", reservation.id)]) == {
        inside[0].id
    }
    assert instance_ids(region, Filters=[filter_of("instance-state-name", "pending")]) == {outside.id}
    assert instance_ids(region, Filters=[filter_of("availability-zone", "us-west-2b")]) == {outside.id}
    assert instance_ids(region, Filters=[filter_of("reservation-id", outside.batch_id)]) == {outside.id}
    assert instance_ids(region, Filters=[filter_of("owner-id", OTHER)]) == set()


def test_a_terminated_instance_is_removed_after_the_longest_stale_read() -> None:
    region = Region(forget_s=60)
    (instance,) = region.launch()
    region.call("TerminateInstances", InstanceIds=[instance.id])
    region.wait(30 + 60)
    assert instance.id not in region.state.instances
    assert [each.id for each in region.state.instances.as_of(region.state.now_s - 1)] == [instance.id]
    region.wait(600)
    (other,) = region.launch()
    assert list(region.state.instances._versions) == [other.id]


# --- Pages ------------------------------------------------------------------------------------------


def test_pages_return_each_instance_once_despite_launches_between_them() -> None:
    region = Region()
    existing = {i.id for i in region.launch(12)}
    first = region.call("DescribeInstances", MaxResults=5)
    added = region.launch()[0]  # launched between two pages
    described = [i["InstanceId"] for batch in first["Reservations"] for i in batch["Instances"]]
    token, answer = first["NextToken"], first
    while token:
        answer = region.call("DescribeInstances", MaxResults=5, NextToken=token)
        described += [i["InstanceId"] for batch in answer["Reservations"] for i in batch["Instances"]]
        token = answer.get("NextToken")
    assert len(described) == len(set(described))
    assert existing <= set(described) <= existing | {added.id}


def test_the_same_next_token_returns_the_same_page() -> None:
    region = Region()
    region.launch(count=12)
    first = region.call("DescribeInstances", MaxResults=5)
    pages = [region.call("DescribeInstances", MaxResults=5, NextToken=first["NextToken"]) for _ in range(2)]
    assert pages[0] == pages[1]
    assert [len(batch["Instances"]) for batch in pages[0]["Reservations"]] == [5]


def test_a_page_shows_the_state_at_its_own_request() -> None:
    region = Region(boot_s=20)
    region.launch(count=12)
    first = region.call("DescribeInstances", MaxResults=5)
    region.wait(20)
    later = region.call("DescribeInstances", MaxResults=5, NextToken=first["NextToken"])
    states = {i["State"]["Name"] for r in later["Reservations"] for i in r["Instances"]}
    assert states == {"running"}


def test_instance_types_are_returned_in_pages_of_at_most_100() -> None:
    region = Region()
    filters = [
        filter_of("supported-virtualization-type", "hvm"),
        filter_of("processor-info.supported-architecture", "x86_64", "arm64"),
    ]
    names: list[str] = []
    params: dict[str, Any] = {"MaxResults": 100, "Filters": filters}
    while True:
        answer = region.call("DescribeInstanceTypes", **params)
        assert len(answer["InstanceTypes"]) <= 100
        names += [t["InstanceType"] for t in answer["InstanceTypes"]]
        if "NextToken" not in answer:
            break
        params["NextToken"] = answer["NextToken"]
    assert names == sorted(set(names))
    assert len(names) == len(region.state.types)


def test_max_results_is_refused_with_ids_or_out_of_range() -> None:
    region = Region()
    (instance,) = region.launch()
    ids = region.refusal("DescribeInstances", InstanceIds=[instance.id], MaxResults=5)
    assert ids.code == "InvalidParameterCombination"
    assert region.refusal("DescribeInstances", MaxResults=1001).code == "InvalidParameterValue"
    assert region.refusal("DescribeInstanceTypes", MaxResults=101).code == "InvalidParameterValue"
    one = region.reserve()
    both = region.refusal("DescribeCapacityReservations", CapacityReservationIds=[one.id], MaxResults=5)
    assert both.code == "InvalidParameterCombination"


def test_a_next_token_of_another_request_or_an_invalid_one_is_refused() -> None:
    region = Region()
    region.launch(6)
    token = region.call("DescribeInstances", MaxResults=5)["NextToken"]
    other = region.refusal(
        "DescribeInstances", MaxResults=5, NextToken=token, Filters=[filter_of("tag-key", "x")]
    )
    assert other.code == "InvalidNextToken"
    assert region.refusal("DescribeInstances", NextToken="nonsense").code == "InvalidNextToken"


# --- Error codes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "params", "code"),
    [
        ("DescribeInstances", {"InstanceIds": ["i-0123456789abcdef0"]}, "InvalidInstanceID.NotFound"),
        ("DescribeInstances", {"InstanceIds": ["x-1"]}, "InvalidInstanceID.Malformed"),
        ("TerminateInstances", {"InstanceIds": ["i-0123456789abcdef0"]}, "InvalidInstanceID.NotFound"),
        ("RebootInstances", {"InstanceIds": ["i-0123456789abcdef0"]}, "InvalidInstanceID.NotFound"),
        (
            "DescribeCapacityReservations",
            {"CapacityReservationIds": ["cr-0"]},
            "InvalidCapacityReservationId.NotFound",
        ),
        (
            "DescribeCapacityReservations",
            {"CapacityReservationIds": ["x"]},
            "InvalidCapacityReservationId.Malformed",
        ),
        (
            "DescribeLaunchTemplates",
            {"LaunchTemplateNames": ["x/y"]},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        ("DescribeLaunchTemplates", {"LaunchTemplateIds": ["lt-0"]}, "InvalidLaunchTemplateId.NotFound"),
        (
            "DeleteLaunchTemplate",
            {"LaunchTemplateName": "x/y"},
            "InvalidLaunchTemplateName.NotFoundException",
        ),
        ("DeleteLaunchTemplate", {"LaunchTemplateId": "lt-0"}, "InvalidLaunchTemplateId.NotFound"),
        ("DescribeSubnets", {"SubnetIds": ["subnet-0"]}, "InvalidSubnetID.NotFound"),
        ("DescribeSecurityGroups", {"GroupIds": ["sg-0"]}, "InvalidGroup.NotFound"),
        ("DescribeImages", {"ImageIds": ["ami-0"]}, "InvalidAMIID.NotFound"),
        ("DescribePlacementGroups", {"GroupNames": ["x"]}, "InvalidPlacementGroup.Unknown"),
        ("DescribeInstanceTypes", {"InstanceTypes": ["m5.gigantic"]}, "InvalidInstanceType"),
        ("DescribeCapacityBlocks", {"CapacityBlockIds": ["cb-0"]}, "InvalidCapacityBlockId.NotFound"),
        ("CreateTags", {"Resources": ["i-0"], "Tags": [{"Key": "a"}]}, "InvalidInstanceID.NotFound"),
        ("CreateTags", {"Resources": ["vpc-0"], "Tags": [{"Key": "a"}]}, "InvalidID"),
        ("CreateTags", {"Resources": ["i-0"], "Tags": [{"Key": "aws:a"}]}, "InvalidParameterValue"),
        ("TerminateInstances", {"InstanceIds": []}, "MissingParameter"),
    ],
)
def test_an_invalid_call_returns_the_error_code_of_ec2(
    operation: str, params: dict[str, Any], code: str
) -> None:
    region = Region()
    refused = region.refusal(operation, **params)
    assert (refused.code, refused.status) == (code, 400)


def test_an_unknown_operation_or_account_is_refused() -> None:
    region = Region()
    with pytest.raises(ApiError, match="InvalidAction"):
        region.ec2.call("MakeCoffee", {}, Caller(ACCOUNT))
    with pytest.raises(ApiError, match="AuthFailure") as refused:
        region.ec2.call("DescribeSubnets", {}, Caller("999999999999"))
    assert refused.value.status == 401


# --- Dry runs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_every_operation_has_a_dry_run_that_changes_nothing(operation: str) -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted", total=5)
    source = region.reserve(total=2)
    region.call(
        "CreateInterruptibleCapacityReservationAllocation", CapacityReservationId=source.id, InstanceCount=1
    )
    (instance,) = region.launch()
    template = region.template()
    by_reservation = {"CapacityReservationId": reservation.id}
    params: dict[str, dict[str, Any]] = {
        "CancelCapacityReservation": by_reservation,
        "CreateCapacityReservation": {
            "InstanceType": "m5.large", "InstancePlatform": "Linux/UNIX", "AvailabilityZone": "us-west-2a", "InstanceCount": 1,
        },
        "CreateFleet": {
            "Type": "instant",
            "LaunchTemplateConfigs": [config(template, "m5.large/a")],
            "TargetCapacitySpecification": {"TotalTargetCapacity": 1},
        },
        "CreateInterruptibleCapacityReservationAllocation": {**by_reservation, "InstanceCount": 1},
        "CreateLaunchTemplate": {"LaunchTemplateName": "new", "LaunchTemplateData": {"ImageId": "ami-1"}},
        "CreateLaunchTemplateVersion": {"LaunchTemplateName": template, "LaunchTemplateData": {"ImageId": "ami-1"}},
        "CreateTags": {"Resources": [instance.id], "Tags": [{"Key": "a", "Value": "b"}]},
        "DeleteLaunchTemplate": {"LaunchTemplateName": template},
        "DeleteTags": {"Resources": [instance.id], "Tags": [{"Key": "a"}]},
        "DescribeLaunchTemplateVersions": {"LaunchTemplateName": template},
        "GetCapacityReservationUsage": by_reservation,
        "GetGroupsForCapacityReservation": by_reservation,
        "ModifyCapacityReservation": {**by_reservation, "InstanceCount": 9},
        "RebootInstances": {"InstanceIds": [instance.id]},
        "RunInstances": {"LaunchTemplate": {"LaunchTemplateName": template}, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 1},
        "TerminateInstances": {"InstanceIds": [instance.id]},
        "UpdateInterruptibleCapacityReservationAllocation": {"CapacityReservationId": source.id, "TargetInstanceCount": 0},
    }  # fmt: skip
    if operation == "ModifyInstanceCapacityReservationAttributes":
        expected = ("IncorrectInstanceState", 400)  # it succeeds only on a stopped instance
        params[operation] = {"InstanceId": instance.id, "CapacityReservationSpecification": {}}
    else:
        expected = ("DryRunOperation", 412)
    before = region.state.writes
    refused = region.refusal(operation, DryRun=True, **params.get(operation, {}))
    assert (refused.code, refused.status) == expected
    assert region.state.writes == before


def test_a_dry_run_returns_the_error_of_an_invalid_call() -> None:
    region = Region()
    refused = region.refusal(
        "RunInstances", DryRun=True, ImageId="ami-0", InstanceType="m5.large", MinCount=1, MaxCount=1
    )
    assert refused.code == "InvalidAMIID.NotFound"


# --- Client tokens ----------------------------------------------------------------------------------


def test_the_same_client_token_launches_once_and_repeats_the_response() -> None:
    region = Region()
    wanted = config(region.template(), "m5.large/a")
    first = region.fleet(wanted, count=2, ClientToken="t-1")
    region.wait(HOUR_S)
    assert region.fleet(wanted, count=2, ClientToken="t-1") == first
    assert len(region.state.instances) == 2
    region.fleet(wanted, count=2, ClientToken="t-2")
    assert len(region.state.instances) == 4


def test_the_same_client_token_with_other_parameters_is_refused() -> None:
    region = Region()
    wanted = config(region.template(), "m5.large/a")
    region.fleet(wanted, ClientToken="t-1")
    refused = region.refusal(
        "CreateFleet",
        Type="instant",
        LaunchTemplateConfigs=[wanted],
        TargetCapacitySpecification={"TotalTargetCapacity": 2},
        ClientToken="t-1",
    )
    assert refused.code == "IdempotentParameterMismatch"
    assert len(region.state.instances) == 1


def test_a_client_token_is_scoped_to_its_account_and_not_consumed_by_a_refused_call() -> None:
    region = Region()
    region.fleet(config(region.template(), "m5.large/a"), ClientToken="t-1")
    region.fleet(config(region.template(OTHER), "m5.large/a"), account=OTHER, ClientToken="t-1", count=3)
    assert len(region.state.instances) == 4
    params: dict[str, Any] = {
        "Type": "instant",
        "LaunchTemplateConfigs": [config("template/99", "m5.large/a")],
        "TargetCapacitySpecification": {"DefaultTargetCapacityType": "on-demand", "TotalTargetCapacity": 1},
        "ClientToken": "t-9",
    }
    region.refusal("CreateFleet", **params)
    region.call(
        "CreateLaunchTemplate",
        LaunchTemplateName="template/99",
        LaunchTemplateData={"ImageId": region.setup.images[0].id},
    )
    assert len(region.launched(region.call("CreateFleet", **params))) == 1


# --- Responses --------------------------------------------------------------------------------------


def test_a_described_instance_has_the_fields_that_clients_read() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted")
    group = region.setup.security_groups[0]
    target = {"CapacityReservationId": reservation.id}
    spec = {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": target,
    }
    data: dict[str, Any] = {
        "CapacityReservationSpecification": spec,
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group.id]}],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20}}],
        "IamInstanceProfile": {"Name": "nodes"},
    }
    (instance,) = region.launch(**data)
    answer = region.call("DescribeInstances", InstanceIds=[instance.id])
    (shown,) = answer["Reservations"][0]["Instances"]
    assert shown["State"] == {"Code": 0, "Name": "pending"}
    assert shown["SecurityGroups"] == [{"GroupId": group.id, "GroupName": group.name}]
    assert shown["CapacityReservationId"] == reservation.id
    assert shown["CapacityReservationSpecification"] == spec
    assert shown["Placement"]["AvailabilityZone"] == "us-west-2a"
    assert shown["LaunchTime"] == datetime.fromtimestamp(START_S, UTC)
    assert (
        shown["PrivateDnsName"]
        == f"ip-{shown['PrivateIpAddress'].replace('.', '-')}.us-west-2.compute.internal"
    )
    assert shown["BlockDeviceMappings"][0]["DeviceName"] == "/dev/xvda"
    assert shown["IamInstanceProfile"]["Arn"].endswith("instance-profile/nodes")
    assert shown["SubnetId"] == region.setup.subnets[0].id
    assert "SpotInstanceRequestId" not in shown


def test_the_capacity_reservation_preference_defaults_to_open() -> None:
    region = Region()
    (instance,) = region.launch()
    (shown,) = region.call("DescribeInstances", InstanceIds=[instance.id])["Reservations"][0]["Instances"]
    assert shown["CapacityReservationSpecification"] == {"CapacityReservationPreference": "open"}
    assert "CapacityReservationId" not in shown


def test_an_instance_passes_through_its_states_and_is_then_removed() -> None:
    region = Region(boot_s=20, shutdown_s=30, forget_s=3600)
    (instance,) = region.launch()
    states = []
    for wait_s in (0, 20):
        region.wait(wait_s)
        states.append(region.state.instances[instance.id].state)
    (change,) = region.call("TerminateInstances", InstanceIds=[instance.id])["TerminatingInstances"]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "shutting-down")
    region.wait(30)
    states.append(region.state.instances[instance.id].state)
    assert states == ["pending", "running", "terminated"]
    again = region.call("TerminateInstances", InstanceIds=[instance.id])["TerminatingInstances"]
    assert again[0]["CurrentState"] == {"Code": 48, "Name": "terminated"}
    region.wait(3600)
    assert region.refusal("DescribeInstances", InstanceIds=[instance.id]).code == "InvalidInstanceID.NotFound"
    event_states = [e["detail"]["state"] for e in region.events]
    assert event_states == ["pending", "running", "shutting-down", "terminated"]


def test_terminate_instances_with_one_unknown_id_terminates_nothing() -> None:
    region = Region()
    (instance,) = region.launch()
    region.refusal("TerminateInstances", InstanceIds=[instance.id, "i-0123456789abcdef0"])
    assert region.state.instances[instance.id].state == "pending"


def test_tags_are_added_changed_removed_and_usable_as_filters() -> None:
    region = Region()
    (instance,) = region.launch()
    region.call(
        "CreateTags",
        Resources=[instance.id],
        Tags=[{"Key": "Name", "Value": "n1"}, {"Key": "x", "Value": "1"}],
    )
    region.call("CreateTags", Resources=[instance.id], Tags=[{"Key": "Name", "Value": "n2"}])
    region.call("DeleteTags", Resources=[instance.id], Tags=[{"Key": "x"}])
    assert instance_ids(region, Filters=[filter_of("tag:Name", "n2")]) == {instance.id}
    assert instance_ids(region, Filters=[filter_of("tag-key", "x")]) == set()


def test_a_reboot_clears_an_impaired_status_and_keeps_the_reservation() -> None:
    region = Region()
    reservation = region.reserve()
    (instance,) = region.launch()
    region.wait(60)
    control.impair(region.state, instance.id)
    impaired = [filter_of("instance-status.status", "impaired")]
    assert len(region.call("DescribeInstanceStatus", Filters=impaired)["InstanceStatuses"]) == 1
    region.call("RebootInstances", InstanceIds=[instance.id])
    assert region.call("DescribeInstanceStatus", Filters=impaired)["InstanceStatuses"] == []
    assert region.state.instances[instance.id].reservation_id == reservation.id


def test_a_scheduled_event_is_in_the_status_and_sent_by_aws_health() -> None:
    region = Region()
    (instance,) = region.launch()
    region.wait(60)
    control.schedule_event(region.state, instance.id, "instance-retirement", START_S + HOUR_S)
    answer = region.call("DescribeInstanceStatus", Filters=[filter_of("event.code", "instance-retirement")])
    assert [s["InstanceId"] for s in answer["InstanceStatuses"]] == [instance.id]
    event = region.events[-1]
    assert (event["source"], event["detail-type"]) == ("aws.health", "AWS Health Event")
    assert event["detail"]["service"] == "EC2"
    assert event["detail"]["eventTypeCategory"] == "scheduledChange"
    assert event["detail"]["affectedEntities"] == [{"entityValue": instance.id}]


@pytest.mark.parametrize(
    ("check", "filtered"),
    [("instance", "instance-status.status"), ("system", "system-status.status"), ("ebs", None)],
)
def test_a_failed_status_check_matches_only_its_own_filter(check: str, filtered: str | None) -> None:
    region = Region()
    (instance, _) = region.launch(2)
    region.wait(60)
    control.impair(region.state, instance.id, check)
    found = {}
    for name in ("instance-status.status", "system-status.status"):
        answer = region.call("DescribeInstanceStatus", Filters=[filter_of(name, "impaired")])
        found[name] = [each["InstanceId"] for each in answer["InstanceStatuses"]]
    assert found == {name: [instance.id] if name == filtered else [] for name in found}


@pytest.mark.parametrize(
    ("code", "state"),
    [
        ("instance-reboot", "running"),
        ("system-reboot", "running"),
        ("system-maintenance", "running"),
        ("instance-stop", "shutting-down"),
        ("instance-retirement", "shutting-down"),
    ],
)
def test_a_scheduled_event_runs_at_its_time_and_is_then_described_as_completed(code: str, state: str) -> None:
    region = Region()
    (instance,) = region.launch()
    region.wait(60)
    control.schedule_event(region.state, instance.id, code, region.state.now_s + 100)
    for after_s, completed in ((99, False), (1, True)):
        region.wait(after_s)
        answer = region.call("DescribeInstanceStatus", IncludeAllInstances=True)
        (event,) = answer["InstanceStatuses"][0]["Events"]
        assert event["Code"] == code
        assert event["Description"].startswith("[Completed]") == completed
    assert region.state.instances[instance.id].state == state


def test_a_spot_interruption_warning_is_sent_two_minutes_before_termination() -> None:
    region = Region()
    (instance,) = region.launched(region.fleet(config(region.template(), "m5.large/a"), kind="spot"))
    region.wait(60)
    control.recommend_rebalance(region.state, instance.id)
    control.interrupt_spot(region.state, instance.id)
    detail_types = [e["detail-type"] for e in region.events[-2:]]
    assert detail_types == ["EC2 Instance Rebalance Recommendation", "EC2 Spot Instance Interruption Warning"]
    assert region.events[-1]["detail"] == {"instance-id": instance.id, "instance-action": "terminate"}
    region.wait(119)
    assert region.state.instances[instance.id].state == "running"
    region.wait(1)
    assert region.state.instances[instance.id].state_reason[0] == "Server.SpotInstanceTermination"


def test_the_reservation_of_a_running_instance_cannot_be_modified() -> None:
    region = Region()
    (instance,) = region.launch()
    refused = region.refusal(
        "ModifyInstanceCapacityReservationAttributes",
        InstanceId=instance.id,
        CapacityReservationSpecification={"CapacityReservationPreference": "open"},
    )
    assert refused.code == "IncorrectInstanceState"


def test_launch_templates_have_versions_a_default_version_and_a_unique_name() -> None:
    region = Region()
    name = region.template(UserData=base64.b64encode(b"one").decode())
    duplicate = region.refusal(
        "CreateLaunchTemplate", LaunchTemplateName=name, LaunchTemplateData={"ImageId": "ami-1"}
    )
    assert duplicate.code == "InvalidLaunchTemplateName.AlreadyExistsException"
    region.call(
        "CreateLaunchTemplateVersion",
        LaunchTemplateName=name,
        SourceVersion="1",
        LaunchTemplateData={"InstanceType": "m5.large"},
    )
    (shown,) = region.call("DescribeLaunchTemplates", LaunchTemplateNames=[name])["LaunchTemplates"]
    assert (shown["DefaultVersionNumber"], shown["LatestVersionNumber"]) == (1, 2)
    answer = region.call("DescribeLaunchTemplateVersions", LaunchTemplateName=name, Versions=["$Latest"])
    (version,) = answer["LaunchTemplateVersions"]
    assert version["LaunchTemplateData"]["InstanceType"] == "m5.large"
    assert base64.b64decode(version["LaunchTemplateData"]["UserData"]) == b"one"
    region.call("DeleteLaunchTemplate", LaunchTemplateId=shown["LaunchTemplateId"])
    assert region.call("DescribeLaunchTemplates")["LaunchTemplates"] == []


def test_invalid_launch_templates_are_refused() -> None:
    region = Region()

    def code(**data: Any) -> str:
        given = {"ImageId": "ami-1", **data}
        return region.refusal("CreateLaunchTemplate", LaunchTemplateName="new", LaunchTemplateData=given).code

    both = {"CapacityReservationId": "cr-1", "CapacityReservationResourceGroupArn": "arn:x"}
    assert (
        code(CapacityReservationSpecification={"CapacityReservationTarget": both})
        == "InvalidParameterCombination"
    )
    assert code(UserData=base64.b64encode(b"x" * 16385).decode()) == "InvalidParameterValue"
    assert code(UserData="not base64!") == "InvalidUserData.Malformed"
    assert (
        code(NetworkInterfaces=[{"DeviceIndex": 0}], SecurityGroupIds=["sg-1"])
        == "InvalidParameterCombination"
    )


def test_offerings_zones_and_spot_prices_use_the_zone_names_of_the_calling_account() -> None:
    region = Region()
    name = [filter_of("instance-type", "m5n.large")]
    params: dict[str, Any] = {"LocationType": "availability-zone", "Filters": name}
    ours = region.call("DescribeInstanceTypeOfferings", **params)["InstanceTypeOfferings"]
    theirs = region.call("DescribeInstanceTypeOfferings", OTHER, **params)["InstanceTypeOfferings"]
    assert [o["Location"][-1] for o in ours] == ["a", "b", "c"]
    # The zone names of the other account are shifted by one.
    assert [o["Location"][-1] for o in theirs] == ["a", "b", "d"]
    zones = region.call("DescribeAvailabilityZones")["AvailabilityZones"]
    assert {z["ZoneName"][-1]: z["ZoneId"] for z in zones} == ZONES
    history = region.call(
        "DescribeSpotPriceHistory", InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"]
    )["SpotPriceHistory"]
    on_demand = 0.096
    assert {p["AvailabilityZoneId"] for p in history} == set(ZONES.values())
    assert all(0 < float(p["SpotPrice"]) < on_demand for p in history)


def test_a_deprecated_image_is_described_only_on_request() -> None:
    region = Region()
    old, new = region.setup.images[:2]
    region.state.setup = replace(region.setup, images=(replace(old, deprecated_s=START_S), new))
    assert [i["ImageId"] for i in region.call("DescribeImages")["Images"]] == [new.id]
    for params in ({"IncludeDeprecated": True}, {"ImageIds": [old.id]}):
        assert old.id in [i["ImageId"] for i in region.call("DescribeImages", **params)["Images"]]


def test_images_are_found_by_id_name_and_owner() -> None:
    region = Region()
    image = region.setup.images[0]
    by_id = region.call(
        "DescribeImages",
        Filters=[filter_of("image-id", image.id), filter_of("state", "available")],
        IncludeDeprecated=True,
        MaxResults=1000,
    )
    (shown,) = by_id["Images"]
    assert (shown["Name"], shown["Architecture"], shown["CreationDate"]) == (
        image.name,
        "x86_64",
        "2026-11-01T00:00:00.000Z",
    )
    assert region.call("DescribeImages", Owners=["self"])["Images"] == []
    by_name = region.call("DescribeImages", Filters=[filter_of("name", "amazon-eks-node-al2023-arm64-st*")])
    assert [i["Architecture"] for i in by_name["Images"]] == ["arm64"]


def test_a_gpu_instance_launches_with_the_nvidia_image() -> None:
    region = Region()
    (image,) = region.call("DescribeImages", Filters=[filter_of("name", "*al2023-x86_64-nvidia-*")])["Images"]
    template = region.template(ImageId=image["ImageId"])
    (instance,) = region.launched(region.fleet(config(template, "g5.xlarge/a")))
    assert (instance.instance_type, instance.spec.image_id) == ("g5.xlarge", image["ImageId"])


def test_an_instance_without_security_groups_gets_the_default_group_of_its_vpc() -> None:
    region = Region()
    (default,) = region.call("DescribeSecurityGroups", GroupNames=["default"])["SecurityGroups"]
    datas: tuple[dict[str, Any], ...] = ({}, {"NetworkInterfaces": [{"DeviceIndex": 0}]})
    for data in datas:
        (instance,) = region.launch(**data)
        (batch,) = region.call("DescribeInstances", InstanceIds=[instance.id])["Reservations"]
        (shown,) = batch["Instances"]
        assert [group["GroupId"] for group in shown["SecurityGroups"]] == [default["GroupId"]]
        assert shown["NetworkInterfaces"][0]["Groups"] == shown["SecurityGroups"]


def test_a_gpu_instance_type_is_described_with_its_gpus_and_network_cards() -> None:
    region = Region()
    (shown,) = region.call("DescribeInstanceTypes", InstanceTypes=["p5.48xlarge"])["InstanceTypes"]
    assert shown["VCpuInfo"]["DefaultVCpus"] == 192
    assert shown["GpuInfo"]["Gpus"][0]["Count"] == 8
    assert shown["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"] == 32
    assert "capacity-block" in shown["SupportedUsageClasses"]
    assert shown["NetworkInfo"]["MaximumNetworkCards"] == 32


def test_a_capacity_block_is_described_with_its_reservations() -> None:
    region = Region()
    fields: dict[str, Any] = {
        "kind": "capacity-block",
        "block_id": "cb-1",
        "end_s": START_S + 86400,
        "ultraserver": True,
    }
    parts = [region.reserve("p5.48xlarge", "b", **fields) for _ in range(2)]
    (shown,) = region.call("DescribeCapacityBlocks")["CapacityBlocks"]
    assert shown["CapacityReservationIds"] == [part.id for part in parts]
    assert shown["UltraserverType"] == "p5"
    assert region.described(parts[0])["CapacityBlockId"] == "cb-1"
