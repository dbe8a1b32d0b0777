"""A whole simulated AWS, called with real botocore: its services share one state, and time advances without calls."""

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

import sim_aws
from holdfast import errors
from holdfast.api.world import World
from holdfast.sim import time, world_reading
from holdfast.sim.aws.waiting import Timed
from holdfast.sim.cloud import Cloud
from holdfast.sim.cloud_setup import CloudSetup, Reserved, access_key
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.setup import Timings
from manual_ports import START_S, ManualClock, SeededIds

HOUR_S = 3600
ZONE_A = "usw2-az2"  # us-west-2a
OTHER = "444455556666"
ROLE = "KarpenterNodeRole-holdfast"
AL2023 = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
ODCR = Reserved(id="cr-0123", instance_type="m5.large", zone_id=ZONE_A, total=2, criteria="targeted")
BLOCK = Reserved(
    id="cr-block",
    instance_type="p5.48xlarge",
    zone_id="usw2-az1",
    total=1,
    kind="capacity-block",
    criteria="targeted",
    end_s=START_S + 6 * HOUR_S,
)


def built(clock: Any, seed: int = 1, state_file: Path | None = None, **about: Any) -> Cloud:
    given: dict[str, Any] = {"reservations": (ODCR,), "throttled": False} | about
    return Cloud(CloudSetup(**given), clock=clock, ids=SeededIds(seed), state_file=state_file)


def launch(aws: sim_aws.Clients, reservation: Reserved, count: int = 1) -> dict[str, Any]:
    """Launches as a controller does: image parameter, instance profile, launch template with a target, fleet."""
    image = aws["ssm"].get_parameter(Name=AL2023)["Parameter"]["Value"]
    (group,) = aws["ec2"].describe_security_groups(
        Filters=[{"Name": "tag:karpenter.sh/discovery", "Values": ["holdfast"]}]
    )["SecurityGroups"]
    subnets = aws["ec2"].describe_subnets(
        Filters=[
            {"Name": "tag:karpenter.sh/discovery", "Values": ["holdfast"]},
            {"Name": "availability-zone-id", "Values": [reservation.zone_id]},
        ]
    )["Subnets"]
    block = reservation.kind == "capacity-block"
    aws["ec2"].create_launch_template(
        LaunchTemplateName="nodes",
        ClientToken="template",
        LaunchTemplateData={
            "ImageId": image,
            "IamInstanceProfile": {"Name": "nodes"},
            "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": [group["GroupId"]]}],
            "CapacityReservationSpecification": {
                "CapacityReservationPreference": "capacity-reservations-only",
                "CapacityReservationTarget": {"CapacityReservationId": reservation.id},
            },
            **({"InstanceMarketOptions": {"MarketType": "capacity-block"}} if block else {}),
        },
    )
    override = {"InstanceType": reservation.instance_type, "SubnetId": subnets[0]["SubnetId"]}
    answer: dict[str, Any] = aws["ec2"].create_fleet(
        Type="instant",
        ClientToken=f"fleet-{count}",
        LaunchTemplateConfigs=[
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
                "Overrides": [override],
            }
        ],
        TargetCapacitySpecification={
            "TotalTargetCapacity": count,
            "DefaultTargetCapacityType": "capacity-block" if block else "on-demand",
        },
    )
    return answer


def with_profile(aws: sim_aws.Clients) -> None:
    aws["iam"].create_instance_profile(InstanceProfileName="nodes")
    aws["iam"].add_role_to_instance_profile(InstanceProfileName="nodes", RoleName=ROLE)


def ids(answer: dict[str, Any]) -> list[str]:
    return [each for group in answer["Instances"] for each in group["InstanceIds"]]


def states(aws: sim_aws.Clients, instances: list[str]) -> list[str]:
    batches = aws["ec2"].describe_instances(InstanceIds=instances)["Reservations"]
    return [i["State"]["Name"] for batch in batches for i in batch["Instances"]]


def available(aws: sim_aws.Clients, reservation: Reserved) -> int:
    (shown,) = aws["ec2"].describe_capacity_reservations(CapacityReservationIds=[reservation.id])[
        "CapacityReservations"
    ]
    return int(shown["AvailableInstanceCount"])


def received(aws: sim_aws.Clients, wait_s: int = 0) -> list[dict[str, Any]]:
    """All messages in the queue, or the first that arrive within the wait. Deletes them."""
    url, found = aws["sqs"].get_queue_url(QueueName="holdfast")["QueueUrl"], []
    while True:
        answer = aws["sqs"].receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=wait_s)
        for message in answer.get("Messages", ()):
            found.append(json.loads(message["Body"]))
            aws["sqs"].delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        if wait_s or not answer.get("Messages"):
            return found


def types_and_states(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["detail-type"], event["detail"].get("state", "")) for event in events]


# --- Lifecycle of a node, through every front -------------------------------------------------------


def run_lifecycle(cloud: Cloud, aws: sim_aws.Clients, wait: Callable[[int], None]) -> list[Any]:
    """Discovers the cluster, launches into a reservation, interrupts one instance, and waits for the free slots."""
    cluster = aws["eks"].describe_cluster(name="holdfast")["cluster"]
    with_profile(aws)
    launched = launch(aws, ODCR, count=2)
    answers = [cluster, aws["sts"].get_caller_identity(), launched, available(aws, ODCR)]
    (interrupted, other) = ids(launched)
    wait(60)
    answers += [states(aws, [interrupted, other]), received(aws)]
    control.interrupt_spot(cloud.ec2.region, interrupted)
    answers.append(received(aws))
    wait(120)
    answers += [states(aws, [interrupted]), received(aws), available(aws, ODCR)]
    aws["ec2"].terminate_instances(InstanceIds=[other])
    wait(30)
    answers += [states(aws, [other]), available(aws, ODCR)]
    wait(30)
    answers += [available(aws, ODCR), types_and_states(received(aws))]
    return [sim_aws.without_metadata(each) if isinstance(each, dict) else each for each in answers]


def lifecycle_answers(front: str) -> list[Any]:
    clock = ManualClock()
    cloud = built(clock)

    def wait(seconds: int) -> None:
        clock.advance(seconds)
        cloud.ec2.advance()

    with sim_aws.clients(front, cloud.endpoint) as aws:
        answers = run_lifecycle(cloud, aws, wait)
    cloud.ec2.check_all()
    assert not cloud.endpoint.unknown_actions()
    return answers


def test_lifecycle_of_a_node_has_equal_answers_through_every_front() -> None:
    answers = lifecycle_answers("before_call")
    cluster, _, launched, free = answers[:4]
    assert (cluster["version"], cluster["endpoint"]) == ("1.36", "https://cluster.invalid")
    assert (len(ids(launched)), free) == (2, 0)
    assert answers[4] == ["running", "running"]
    assert [event["detail-type"] for event in answers[6]] == ["EC2 Spot Instance Interruption Warning"]
    assert answers[7] == ["shutting-down"]
    assert answers[9:12] == [0, ["terminated"], 0]  # a slot is not free as soon as its instance has ended
    assert answers[12] == 2
    for front in ("before_send", "http"):
        assert lifecycle_answers(front) == answers


# --- Time advances without calls --------------------------------------------------------------------


def run_in_virtual_time(scenario: Callable[[time.VirtualClock], Any]) -> Any:
    return time.run(scenario(time.VirtualClock(datetime.fromtimestamp(START_S, UTC))))


@pytest.mark.parametrize("front", ["before_call", "before_send"])
def test_capacity_block_is_announced_and_reclaimed_without_calls_to_ec2(front: str) -> None:
    async def scenario(clock: time.VirtualClock) -> None:
        cloud = built(clock, reservations=(BLOCK,))
        with sim_aws.clients(front, cloud.endpoint) as aws:
            with_profile(aws)
            async with cloud.running():
                (instance,) = ids(launch(aws, BLOCK))
                notifications: list[tuple[int, str, str]] = []
                while not notifications or notifications[-1][2] != "expired":
                    events = await Timed(cloud.endpoint).run(lambda: received(aws, wait_s=20))
                    notifications += [(clock.now_s() - START_S, *event) for event in types_and_states(events)]
        end_s, change = 6 * HOUR_S, "EC2 Instance State-change Notification"
        assert notifications == [
            (0, change, "pending"),
            (20, change, "running"),
            (end_s - 40 * 60, "Capacity Block Expiration Warning", "active"),
            (end_s - 30 * 60, change, "shutting-down"),
            (end_s - 30 * 60 + 30, change, "terminated"),
            (end_s, "EC2 Capacity Reservation Expired", "expired"),
        ]
        assert cloud.ec2.region.instances.get(instance) is not None
        cloud.ec2.check_all()

    run_in_virtual_time(scenario)


def test_idle_cloud_schedules_no_wakeups() -> None:
    async def scenario(clock: time.VirtualClock) -> None:
        cloud = built(clock)
        async with cloud.running():
            await clock.sleep(1)
            await cloud._planned.wait()  # nothing is ever planned

    with pytest.raises(time.Stuck):
        run_in_virtual_time(scenario)


def test_inconsistent_state_ends_the_run() -> None:
    async def scenario(clock: time.VirtualClock) -> None:
        cloud = built(clock)
        async with cloud.running():
            reservation = cloud.ec2.region.reservations[ODCR.id]
            cloud.ec2.region.put_reservation(reservation, available=7)
            cloud.ec2.region.at(clock.now_s() + 5, "reservation.start", ODCR.id)
            await clock.sleep(HOUR_S)

    with pytest.raises(ExceptionGroup, match="TaskGroup") as broken:
        run_in_virtual_time(scenario)
    assert "says 7 are available" in str(broken.value.exceptions[0])


# --- Services share one state -----------------------------------------------------------------------


def test_every_image_that_is_published_can_be_described() -> None:
    cloud = built(ManualClock())
    published = cloud.endpoint.services["ssm"]
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        for path in published._parameters:  # type: ignore[attr-defined]
            image = aws["ssm"].get_parameter(Name=path)["Parameter"]["Value"]
            assert len(aws["ec2"].describe_images(ImageIds=[image])["Images"]) == 1


def test_launch_needs_an_existing_instance_profile() -> None:
    cloud = built(ManualClock())
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        (error,) = launch(aws, ODCR)["Errors"]
        assert error["ErrorCode"] == "InvalidParameterValue"
        with_profile(aws)
        assert len(ids(launch(aws, ODCR, count=2))) == 2


def test_shared_reservation_is_visible_and_its_events_are_sent_only_to_the_owner() -> None:
    shared = Reserved(id="cr-s", instance_type="m5.large", zone_id=ZONE_A, total=3, elsewhere=1, owner=OTHER)
    cloud = built(ManualClock(), accounts=("111122223333", OTHER), reservations=(ODCR, shared), roles=(ROLE,))
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        with pytest.raises(ClientError, match=r"InvalidCapacityReservationId\.NotFound"):
            available(aws, shared)
        control.share(cloud.ec2.region, shared.id, "111122223333")
        assert available(aws, shared) == 2
        control.set_state(cloud.ec2.region, shared.id, "delayed")
        control.set_state(cloud.ec2.region, ODCR.id, "delayed")
        assert [event["detail"]["capacity-reservation-id"] for event in received(aws)] == [ODCR.id]
    assert cloud.endpoint.caller(access_key(OTHER), "").account_id == OTHER


def test_interruptible_reservation_of_the_setup_can_be_reclaimed() -> None:
    interruptible = dataclasses.replace(ODCR, id="cr-lent", total=1, lent_from=ODCR.id, tags={"team": "ml"})
    cloud = built(ManualClock(), reservations=(interruptible, ODCR))
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        (shown,) = aws["ec2"].describe_capacity_reservations(
            Filters=[{"Name": "tag:team", "Values": ["ml"]}]
        )["CapacityReservations"]
        assert (shown["CapacityReservationId"], shown["Interruptible"]) == ("cr-lent", True)
        assert (available(aws, interruptible), available(aws, ODCR)) == (1, 1)
        aws["ec2"].update_interruptible_capacity_reservation_allocation(
            CapacityReservationId=ODCR.id, TargetInstanceCount=0
        )
        assert available(aws, ODCR) == 2
    cloud.ec2.check_all()


def test_page_size_of_the_setup_limits_every_page() -> None:
    cloud = built(ManualClock(), page_size=7)
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        pages = list(aws["ec2"].get_paginator("describe_instance_types").paginate(MaxResults=100))
        assert {len(page["InstanceTypes"]) for page in pages[:-1]} == {7}
        assert sum(len(page["InstanceTypes"]) for page in pages) == len(cloud.ec2.region.types)


def test_inconsistent_state_is_recorded_although_the_client_gets_only_an_error() -> None:
    cloud = built(ManualClock())
    with sim_aws.clients("http", cloud.endpoint) as aws:
        assert cloud.endpoint.broken is None
        cloud.ec2.region.put_reservation(cloud.ec2.region.reservations[ODCR.id], available=7)
        with pytest.raises(ResponseParserError):
            available(aws, ODCR)
    assert "says 7 are available" in str(cloud.endpoint.broken)


def test_prices_of_the_setup_are_in_the_price_list_and_the_spot_history() -> None:
    prices = {"m5.large": 123_000_000}
    cloud = built(ManualClock(), prices=prices, spot_prices={("m5.large", ZONE_A): 7_000_000})
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        (product,) = aws["pricing"].get_products(
            ServiceCode="AmazonEC2",
            Filters=[{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "m5.large"}],
        )["PriceList"]
        (term,) = json.loads(product)["terms"]["OnDemand"].values()
        (dimension,) = term["priceDimensions"].values()
        assert dimension["pricePerUnit"]["USD"] == "0.1230000000"
        history = aws["ec2"].describe_spot_price_history(
            InstanceTypes=["m5.large"], ProductDescriptions=["Linux/UNIX"]
        )["SpotPriceHistory"]
        assert {p["AvailabilityZoneId"]: p["SpotPrice"] for p in history}[ZONE_A] == "0.007000"
        assert all(float(p["SpotPrice"]) < 0.123 for p in history)


# --- A state file -----------------------------------------------------------------------------------


def test_restarted_endpoint_continues_from_its_state_file(tmp_path: Path) -> None:
    file = tmp_path / "aws.state"

    async def first(clock: time.VirtualClock) -> list[str]:
        cloud = built(clock, state_file=file)
        with sim_aws.clients("before_send", cloud.endpoint) as aws:
            async with cloud.running():
                with_profile(aws)
                launched = ids(launch(aws, ODCR, count=2))
                await clock.sleep(10)
                return launched

    async def second(clock: time.VirtualClock) -> None:
        await clock.sleep(15)
        cloud = built(clock, seed=2, state_file=file)
        with sim_aws.clients("before_send", cloud.endpoint) as aws:
            assert aws["iam"].get_instance_profile(InstanceProfileName="nodes")["InstanceProfile"]["Roles"]
            (template,) = aws["ec2"].describe_launch_templates(LaunchTemplateNames=["nodes"])[
                "LaunchTemplates"
            ]
            assert template["LatestVersionNumber"] == 1
            assert ids(launch(aws, ODCR, count=2)) == instances  # the state file has the client tokens too
            async with cloud.running():
                assert (states(aws, instances), available(aws, ODCR)) == (["pending", "pending"], 0)
                await clock.sleep(6)
                assert states(aws, instances) == ["running", "running"]
                assert [state for _, state in types_and_states(received(aws))] == ["pending"] * 2 + [
                    "running"
                ] * 2
                aws["ec2"].terminate_instances(InstanceIds=instances)
                await clock.sleep(60)
            assert available(aws, ODCR) == 2
        cloud.ec2.check_all()

    instances = run_in_virtual_time(first)
    run_in_virtual_time(second)


def test_state_file_is_saved_while_the_cloud_runs(tmp_path: Path) -> None:
    file = tmp_path / "aws.state"

    async def scenario(clock: time.VirtualClock) -> None:
        cloud = built(clock, state_file=file)
        async with cloud.running():
            control.add_reservation(
                cloud.ec2.region, owner="111122223333", instance_type="m5.large", zone_id=ZONE_A, total=1
            )
            await clock.sleep(31)
            assert len(built(clock, seed=2, state_file=file).ec2.region.reservations) == 2  # as after a crash

    run_in_virtual_time(scenario)


@pytest.mark.parametrize(
    ("about", "content", "message"),
    [
        ({}, b"no state", "holds no state"),
        ({"region": "us-east-1"}, b"", "is of us-west-2 with the accounts"),
    ],
)
def test_invalid_or_foreign_state_file_is_refused(
    tmp_path: Path, about: dict[str, Any], content: bytes, message: str
) -> None:
    file = tmp_path / "aws.state"
    built(ManualClock(), state_file=file).save()
    if content:
        file.write_bytes(content)
    with pytest.raises(errors.InvalidInput, match=message):
        built(ManualClock(), state_file=file, **{"reservations": ()} | about)


def test_ec2_has_the_timings_and_limits_of_the_setup() -> None:
    clock = ManualClock()
    limits = {("m5.large", ZONE_A, "on-demand"): 1}
    cloud = built(clock, timings=Timings(boot_s=5), limits=limits, reservations=())
    with sim_aws.clients("before_call", cloud.endpoint) as aws:
        image = aws["ssm"].get_parameter(Name=AL2023)["Parameter"]["Value"]
        wanted = {"ImageId": image, "InstanceType": "m5.large", "MinCount": 1, "MaxCount": 2}
        (made,) = aws["ec2"].run_instances(**wanted)["Instances"]
        with pytest.raises(ClientError, match="InsufficientInstanceCapacity"):
            aws["ec2"].run_instances(**wanted)
        clock.advance(5)
        assert states(aws, [made["InstanceId"]]) == ["running"]


# --- From a file ------------------------------------------------------------------------------------


def test_cloud_is_built_from_a_world_manifest() -> None:
    reservation = {"id": "cr-0123", "instanceType": "m5.large", "zone": "us-west-2a", "total": 2}
    targeted = {"instanceMatchCriteria": "targeted", "usedElsewhere": 1}
    written = {
        "metadata": {"name": "example"},
        "spec": {
            "reservations": [reservation | targeted],
            "timings": {"boot": "40s"},
            "faults": [{"type": "Taken", "reservation": "cr-0123", "times": 1, "from": "1m"}],
        },
    }
    clock = ManualClock()
    about = world_reading.read(msgspec.convert(written, World), clock.now_s())
    assert isinstance(about, CloudSetup)
    cloud = Cloud(about, clock=clock, ids=SeededIds())
    with sim_aws.clients("before_send", cloud.endpoint) as aws:
        with_profile(aws)
        (instance,) = ids(launch(aws, ODCR))
        assert available(aws, ODCR) == 0
        clock.advance(39)
        assert states(aws, [instance]) == ["pending"]
        clock.advance(1)
        assert states(aws, [instance]) == ["running"]
        aws["ec2"].terminate_instances(InstanceIds=[instance])
        clock.advance(60)
        assert available(aws, ODCR) == 1
        (error,) = launch(aws, ODCR, count=2)["Errors"]  # the fault took the slot first
        assert (error["ErrorCode"], available(aws, ODCR)) == ("ReservationCapacityExceeded", 0)
