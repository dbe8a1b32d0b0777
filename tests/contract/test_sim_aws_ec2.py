"""The simulated EC2 behind each front, called with botocore: every front gives the same answers."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

import ec2_region
import sim_aws
from ec2_region import Region
from holdfast.sim.aws import ssm
from holdfast.sim.aws.iam import Iam
from holdfast.sim.aws.sqs import Sqs
from holdfast.sim.aws.ssm import Ssm
from holdfast.sim.ec2 import control, eks_images, faults, setup
from holdfast.sim.ec2.service import Ec2

TAGS = [{"Key": "eks:eks-cluster-name", "Value": "demo"}, {"Key": "Name", "Value": "a & b <ü>"}]


def content(answer: dict[str, Any]) -> Any:
    return sim_aws.without_metadata(answer)


def refused(call: Callable[..., Any], **params: Any) -> Any:
    with pytest.raises(ClientError) as error:
        call(**params)
    response = error.value.response
    return response["Error"], response["ResponseMetadata"]["HTTPStatusCode"]


def launch_and_terminate(region: Region, ec2: Any) -> list[Any]:
    """The answers of EC2 to every call that real Karpenter makes around a launch."""
    reservation = region.reserve("m5.xlarge", total=2, tags={"team": "x"}).id
    image = region.setup.images[0].id
    answers = [
        refused(ec2.describe_instance_types, DryRun=True),
        refused(ec2.describe_launch_templates, LaunchTemplateNames=["karpenter.k8s.aws/1"]),
        refused(ec2.describe_capacity_reservations, CapacityReservationIds=["cr-0123456789abcdef0"]),
        content(
            ec2.describe_subnets(Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["holdfast"]}])
        ),
        content(ec2.describe_security_groups()),
        content(ec2.describe_images(ImageIds=[image])),
        content(ec2.describe_capacity_reservations(Filters=[{"Name": "state", "Values": ["active"]}])),
        content(ec2.describe_instance_types(InstanceTypes=["m5.xlarge", "p5.48xlarge", "trn1.32xlarge"])),
        content(ec2.describe_instance_type_offerings(LocationType="availability-zone", MaxResults=5)),
        content(ec2.describe_spot_price_history(MaxResults=5, ProductDescriptions=["Linux/UNIX"])),
    ]
    target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
    data = {
        "ImageId": image,
        "UserData": "aGVsbG8=",
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            **target,
        },
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 20, "Encrypted": True}}],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [region.setup.security_groups[0].id]}],
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": TAGS}],
    }
    template = {"LaunchTemplateName": "karpenter.k8s.aws/1"}
    answers.append(
        content(ec2.create_launch_template(**template, LaunchTemplateData=data, ClientToken="template"))
    )
    answers.append(content(ec2.describe_launch_template_versions(**template)))
    fleet = {
        "Type": "instant",
        "ClientToken": "fleet",
        "LaunchTemplateConfigs": [
            {
                "LaunchTemplateSpecification": {**template, "Version": "$Latest"},
                "Overrides": [
                    {"InstanceType": "m5.xlarge", "AvailabilityZone": "us-west-2a", "Priority": 1.9223e-08}
                ],
            }
        ],
        "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "TargetCapacitySpecification": {"TotalTargetCapacity": 3, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": TAGS}],
    }
    answers.append(refused(ec2.create_fleet, **fleet, DryRun=True))
    launched = content(ec2.create_fleet(**fleet))
    answers += [launched, content(ec2.create_fleet(**fleet))]
    other = {**fleet, "Type": "instant", "TagSpecifications": []}
    answers.append(refused(ec2.create_fleet, **other))
    ids = [i for group in launched["Instances"] for i in group["InstanceIds"]]
    assert len(ids) == 2  # the reservation has two slots; the third is an error of the fleet
    answers.append(
        content(ec2.create_tags(Resources=ids[:1], Tags=[{"Key": "karpenter.sh/nodeclaim", "Value": "c"}]))
    )
    region.wait(ec2_region.MINUTE_S)
    answers += [
        content(ec2.describe_instances(InstanceIds=ids)),
        content(ec2.describe_instances(Filters=[{"Name": "tag-key", "Values": ["Name"]}], MaxResults=5)),
        content(ec2.describe_instance_status(InstanceIds=ids)),
        *statuses(region, ec2, ids),
        content(ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])),
        refused(ec2.describe_instances, InstanceIds=["i-0123456789abcdef0"]),
        content(ec2.terminate_instances(InstanceIds=ids)),
    ]
    region.wait(5 * ec2_region.MINUTE_S)
    answers += [
        content(ec2.describe_instances(InstanceIds=ids)),
        content(ec2.describe_capacity_reservations(CapacityReservationIds=[reservation])),
        content(ec2.delete_launch_template(**template)),
    ]
    return answers


def statuses(region: Region, ec2: Any, ids: list[str]) -> Iterator[Any]:
    """The statuses of one instance whose host fails and of one with a scheduled retirement, as Karpenter reads them."""
    control.impair(region.state, ids[0], "system")
    control.schedule_event(region.state, ids[1], "instance-retirement", region.state.now_s + 86_400)
    for name, values, found in (
        ("instance-status.status", ["impaired"], []),
        ("system-status.status", ["impaired"], ids[:1]),
        ("event.code", ["instance-retirement", "instance-stop"], ids[1:]),
    ):
        answer = content(
            ec2.describe_instance_status(Filters=[{"Name": name, "Values": values}], MaxResults=1000)
        )
        assert [status["InstanceId"] for status in answer["InstanceStatuses"]] == found
        yield answer


def transcript(front: str) -> list[Any]:
    region = Region()
    env = sim_aws.endpoint({"ec2": region.ec2}, clock=sim_aws.JumpingClock())
    with sim_aws.clients(front, env) as aws:
        answers = launch_and_terminate(region, aws["ec2"])
    assert not env.unknown_actions()
    return answers


@pytest.mark.parametrize("front", ["before_send", "http"])
def test_launch_and_termination_have_equal_answers_through_every_front(front: str) -> None:
    for plain, wired in zip(transcript("before_call"), transcript(front), strict=True):
        assert wired == plain


@pytest.mark.parametrize("front", sim_aws.FRONTS)
def test_a_fleet_whose_answer_is_lost_is_found_again_by_its_token(front: str) -> None:
    region = Region(rules=[faults.Lost(operation="CreateFleet", times=1)])
    name = region.template()
    fleet = {
        "Type": "instant",
        "ClientToken": "once",
        "LaunchTemplateConfigs": [ec2_region.config(name, "m5.large/a")],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "on-demand"},
    }
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": region.ec2})) as aws:
        with pytest.raises(ConnectionClosedError):
            aws["ec2"].create_fleet(**fleet)
        answer = aws["ec2"].create_fleet(**fleet)
    ids = [i for group in answer["Instances"] for i in group["InstanceIds"]]
    assert sorted(ids) == sorted(instance.id for instance in region.state.instances)
    assert len(ids) == 2


@pytest.mark.parametrize("front", sim_aws.FRONTS)
def test_all_instance_types_are_listed_in_pages_of_the_requested_size(front: str) -> None:
    region = Region()
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": region.ec2})) as aws:
        pages = aws["ec2"].get_paginator("describe_instance_types").paginate(MaxResults=100)
        sizes = [len(page["InstanceTypes"]) for page in pages]
    assert set(sizes[:-1]) == {100}
    assert sum(sizes) > 1000


def test_launch_needs_a_profile_of_iam_and_its_events_reach_the_queue() -> None:
    clock = sim_aws.JumpingClock()
    iam, sqs = Iam(["node-role"], clock), Sqs([sim_aws.QUEUE], clock)
    region = dataclasses.replace(setup.plain(), has_profile=iam.has_profile)
    ec2 = Ec2(clock=clock, ids=ec2_region.Dice(), setup=region, sink=sqs.sink(sim_aws.QUEUE))
    launch = {
        "ImageId": region.images[0].id,
        "InstanceType": "m5.large",
        "SubnetId": region.subnets[0].id,
        "IamInstanceProfile": {"Name": "nodes"},
        "MinCount": 1,
        "MaxCount": 1,
    }
    with sim_aws.clients("before_call", sim_aws.endpoint({"ec2": ec2, "iam": iam, "sqs": sqs})) as aws:
        refused(aws["ec2"].run_instances, **launch)
        aws["iam"].create_instance_profile(InstanceProfileName="nodes")
        (instance,) = aws["ec2"].run_instances(**launch)["Instances"]
        clock.passed_s = ec2_region.MINUTE_S
        aws["ec2"].describe_instances()
        queue = {"QueueUrl": aws["sqs"].get_queue_url(QueueName=sim_aws.QUEUE)["QueueUrl"]}
        messages = aws["sqs"].receive_message(**queue, MaxNumberOfMessages=10)["Messages"]
    events = [json.loads(message["Body"]) for message in messages]
    assert {event["detail-type"] for event in events} == {"EC2 Instance State-change Notification"}
    states = [e["detail"]["state"] for e in events if e["detail"]["instance-id"] == instance["InstanceId"]]
    assert states == ["pending", "running"]


@pytest.mark.parametrize("kubernetes", ["1.31", "1.36"])
def test_every_image_of_ssm_exists_in_ec2(kubernetes: str) -> None:
    clock = sim_aws.JumpingClock()
    region = dataclasses.replace(setup.plain(), images=eks_images.images(kubernetes))
    ec2 = Ec2(clock=clock, ids=ec2_region.Dice(), setup=region)
    parameters = Ssm(eks_images.parameters(kubernetes), clock)
    with sim_aws.clients("before_call", sim_aws.endpoint({"ec2": ec2, "ssm": parameters})) as aws:
        for path in ssm.ami_paths(kubernetes):
            image_id = aws["ssm"].get_parameter(Name=path.path)["Parameter"]["Value"]
            (image,) = aws["ec2"].describe_images(ImageIds=[image_id])["Images"]
            assert image["Architecture"] == path.architecture
            assert ("Platform" in image) == path.family.startswith("Windows")
    names = [image.name for image in region.images]
    assert len(set(names)) == len(names) > 10
