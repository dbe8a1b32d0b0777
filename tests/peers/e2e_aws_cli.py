"""The AWS CLI against the sandbox: a second client that nobody here wrote, as a person would type it.

Run by `make e2e`. The CLI has a botocore of its own, of another version than ours.
"""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import fetch_awscli
import sandbox_process
from sandbox_process import Sandbox

AL2023 = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"
HOME = "us-west-2a"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox_process.running(tmp_path_factory.mktemp("aws-cli")) as running:
        yield running
        assert running.stop() == ""


def aws(sandbox: Sandbox, *words: str) -> Any:
    """The answer of a command, with nothing of this machine's own settings."""
    home = {"HOME": str(sandbox.env_file.parent), "AWS_PAGER": "", "AWS_MAX_ATTEMPTS": "1"}
    done = subprocess.run(  # noqa: S603 - a program of our own cache
        [fetch_awscli.aws(), *words, "--output", "json"],
        env=sandbox.environ | home,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else None


def refused(sandbox: Sandbox, *words: str) -> str:
    with pytest.raises(AssertionError) as complaint:
        aws(sandbox, *words)
    return str(complaint.value)


def reservation(sandbox: Sandbox, number: str) -> dict[str, Any]:
    (found,) = aws(sandbox, "ec2", "describe-capacity-reservations", "--capacity-reservation-ids", number)[
        "CapacityReservations"
    ]
    return dict(found)


def image(sandbox: Sandbox) -> str:
    return str(aws(sandbox, "ssm", "get-parameter", "--name", AL2023)["Parameter"]["Value"])


def reserve(sandbox: Sandbox, count: int) -> str:
    made = aws(
        sandbox, "ec2", "create-capacity-reservation", "--instance-type", "m5.large", "--instance-platform", "Linux/UNIX",
        "--availability-zone", HOME, "--instance-count", str(count), "--instance-match-criteria", "targeted",
    )  # fmt: skip
    return str(made["CapacityReservation"]["CapacityReservationId"])


def target(number: str) -> str:
    return json.dumps({"CapacityReservationTarget": {"CapacityReservationId": number}})


def test_a_reservation_is_made_described_and_cancelled(sandbox: Sandbox) -> None:
    number = reserve(sandbox, 2)
    found = reservation(sandbox, number)
    assert (found["State"], found["TotalInstanceCount"], found["AvailableInstanceCount"]) == ("active", 2, 2)
    assert (found["AvailabilityZone"], found["InstanceMatchCriteria"]) == (HOME, "targeted")
    assert aws(sandbox, "ec2", "cancel-capacity-reservation", "--capacity-reservation-id", number) == {
        "Return": True
    }
    assert reservation(sandbox, number)["State"] == "cancelled"


def test_instances_run_in_a_reservation_until_they_are_terminated(sandbox: Sandbox) -> None:
    number = reserve(sandbox, 1)
    launch = (
        "ec2", "run-instances", "--image-id", image(sandbox), "--instance-type", "m5.large",
        "--placement", f"AvailabilityZone={HOME}", "--capacity-reservation-specification", target(number),
    )  # fmt: skip
    (instance,) = aws(sandbox, *launch)["Instances"]
    assert reservation(sandbox, number)["AvailableInstanceCount"] == 0
    assert "ReservationCapacityExceeded" in refused(sandbox, *launch)
    (found,) = aws(sandbox, "ec2", "describe-instances", "--instance-ids", instance["InstanceId"])[
        "Reservations"
    ]
    assert found["Instances"][0]["CapacityReservationId"] == number
    (ending,) = aws(sandbox, "ec2", "terminate-instances", "--instance-ids", instance["InstanceId"])[
        "TerminatingInstances"
    ]
    assert ending["CurrentState"]["Name"] == "shutting-down"


def test_a_fleet_launches_from_a_template(sandbox: Sandbox) -> None:
    number = reserve(sandbox, 2)
    data = {
        "ImageId": image(sandbox),
        "CapacityReservationSpecification": json.loads(target(number))
        | {"CapacityReservationPreference": "capacity-reservations-only"},
    }
    aws(
        sandbox, "ec2", "create-launch-template", "--launch-template-name", "nodes",
        "--launch-template-data", json.dumps(data),
    )  # fmt: skip
    (subnet,) = aws(sandbox, "ec2", "describe-subnets", "--filters", f"Name=availability-zone,Values={HOME}")[
        "Subnets"
    ]
    configs = [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "nodes", "Version": "$Latest"},
            "Overrides": [{"InstanceType": "m5.large", "SubnetId": subnet["SubnetId"]}],
        }
    ]
    fleet = aws(
        sandbox, "ec2", "create-fleet", "--type", "instant", "--launch-template-configs", json.dumps(configs),
        "--target-capacity-specification", "TotalTargetCapacity=2,DefaultTargetCapacityType=on-demand",
    )  # fmt: skip
    (group,) = fleet["Instances"]
    assert (fleet["Errors"], len(group["InstanceIds"]), group["InstanceType"]) == ([], 2, "m5.large")
    assert reservation(sandbox, number)["AvailableInstanceCount"] == 0


def test_pages_are_put_together(sandbox: Sandbox) -> None:
    types = aws(sandbox, "ec2", "describe-instance-types", "--page-size", "100")["InstanceTypes"]
    assert len({each["InstanceType"] for each in types}) == len(types) > 1000


def test_the_other_services_are_behind_the_same_address(sandbox: Sandbox) -> None:
    assert aws(sandbox, "sts", "get-caller-identity")["Account"] == "111122223333"
    assert aws(sandbox, "eks", "describe-cluster", "--name", "holdfast")["cluster"]["status"] == "ACTIVE"
    assert aws(sandbox, "iam", "list-instance-profiles") == {"InstanceProfiles": []}
    url = sandbox.environ[
        "AWS_ENDPOINT_URL"
    ]  # of all services, the CLI wants only this one to be told on the line
    found = aws(sandbox, "sqs", "get-queue-url", "--queue-name", "holdfast", "--endpoint-url", url)
    assert found["QueueUrl"].endswith("/holdfast")
    prices = aws(sandbox, "pricing", "get-products", "--service-code", "AmazonEC2", "--max-items", "1")
    assert len(prices["PriceList"]) == 1
