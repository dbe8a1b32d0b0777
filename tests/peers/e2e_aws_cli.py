"""The AWS CLI against the sandbox: a second client, independent of this project.

Run by `make e2e`. The CLI has its own botocore, of another version than Holdfast's.
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
ZONE = "us-west-2a"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with sandbox_process.running(tmp_path_factory.mktemp("aws-cli")) as running:
        yield running
        assert running.stop() == ""


def aws(sandbox: Sandbox, *words: str) -> Any:
    """The output of a command, without the AWS settings of this computer."""
    settings = {"HOME": str(sandbox.env_file.parent), "AWS_PAGER": "", "AWS_MAX_ATTEMPTS": "1"}
    process = subprocess.run(  # noqa: S603 - a program of our own cache
        [fetch_awscli.aws(), *words, "--output", "json"],
        env=sandbox.environ | settings,
        capture_output=True,
        check=False,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout) if process.stdout.strip() else None


def refused(sandbox: Sandbox, *words: str) -> str:
    with pytest.raises(AssertionError) as error:
        aws(sandbox, *words)
    return str(error.value)


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
        "--availability-zone", ZONE, "--instance-count", str(count), "--instance-match-criteria", "targeted",
    )  # fmt: skip
    return str(made["CapacityReservation"]["CapacityReservationId"])


def target(number: str) -> str:
    return json.dumps({"CapacityReservationTarget": {"CapacityReservationId": number}})


def test_reservation_is_created_described_and_cancelled(sandbox: Sandbox) -> None:
    number = reserve(sandbox, 2)
    found = reservation(sandbox, number)
    assert (found["State"], found["TotalInstanceCount"], found["AvailableInstanceCount"]) == ("active", 2, 2)
    assert (found["AvailabilityZone"], found["InstanceMatchCriteria"]) == (ZONE, "targeted")
    assert aws(sandbox, "ec2", "cancel-capacity-reservation", "--capacity-reservation-id", number) == {
        "Return": True
    }
    assert reservation(sandbox, number)["State"] == "cancelled"


def test_instance_uses_a_reservation_until_it_is_terminated(sandbox: Sandbox) -> None:
    number = reserve(sandbox, 1)
    launch = (
        "ec2", "run-instances", "--image-id", image(sandbox), "--instance-type", "m5.large",
        "--placement", f"AvailabilityZone={ZONE}", "--capacity-reservation-specification", target(number),
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


def test_fleet_launches_from_a_launch_template(sandbox: Sandbox) -> None:
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
    (subnet,) = aws(sandbox, "ec2", "describe-subnets", "--filters", f"Name=availability-zone,Values={ZONE}")[
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


def test_cli_joins_all_pages(sandbox: Sandbox) -> None:
    types = aws(sandbox, "ec2", "describe-instance-types", "--page-size", "100")["InstanceTypes"]
    assert len({each["InstanceType"] for each in types}) == len(types) > 1000


def test_cli_of_a_shell_that_sourced_env_ignores_the_settings_of_the_user(sandbox: Sandbox) -> None:
    settings = {
        "PATH": "/usr/bin:/bin",
        "AWS_PROFILE": "work",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_ENDPOINT_URL_STS": "http://127.0.0.1:9",
        "AWS_CREDENTIAL_EXPIRATION": "2020-01-01T00:00:00Z",
        "http_proxy": "http://127.0.0.1:9",
    }
    command = (
        f". {sandbox.env_file}; {fetch_awscli.aws()} sts get-caller-identity --query Account --output text"
    )
    done = subprocess.run(  # noqa: S603 - a command of ours
        ["/bin/sh", "-c", command], env=settings, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("111122223333\n", "")


def test_other_services_have_the_same_endpoint(sandbox: Sandbox) -> None:
    assert aws(sandbox, "sts", "get-caller-identity")["Account"] == "111122223333"
    assert aws(sandbox, "eks", "describe-cluster", "--name", "holdfast")["cluster"]["status"] == "ACTIVE"
    assert aws(sandbox, "iam", "list-instance-profiles") == {"InstanceProfiles": []}
    url = sandbox.environ["AWS_ENDPOINT_URL"]  # the CLI ignores AWS_ENDPOINT_URL for SQS
    found = aws(sandbox, "sqs", "get-queue-url", "--queue-name", "holdfast", "--endpoint-url", url)
    assert found["QueueUrl"].endswith("/holdfast")
    prices = aws(sandbox, "pricing", "get-products", "--service-code", "AmazonEC2", "--max-items", "1")
    assert len(prices["PriceList"]) == 1
