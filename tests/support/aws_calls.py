"""The AWS operations that the source code names, and what a test needs to cause those calls."""

import ast
import json
from pathlib import Path

import botocore.session

from aws_environment import Environment, run
from holdfast import cloud
from holdfast.cloud.aws.catalog.capacity import Settings as CapacitySettings
from holdfast.cloud.aws.doctor import account_checks, reservation_checks
from holdfast.cloud.aws.doctor.account_reading import AccountReader, AccountSettings
from holdfast.cloud.aws.nodeclass.identity import Given
from holdfast.model.check_results import CheckResult
from holdfast.sim.ec2 import setup as ec2_setup
from sim_aws import QUEUE

SERVICES = ("ec2", "eks", "events", "iam", "pricing", "sqs", "ssm", "sts")
GROUP = ec2_setup.PlacementGroup(id="pg-0a1b2c3d4e5f60718", account=ec2_setup.ACCOUNT, name="tight")


def send_notice(env: Environment, provider_id: str) -> None:
    """Sends a spot interruption warning to the queue."""
    detail = {"instance-id": provider_id.rpartition("/")[2]}
    body = {
        "source": "aws.ec2",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": "2026-11-15T10:00:00Z",
        "detail": detail,
    }
    url = run(env.calls.call("sqs", "GetQueueUrl", QueueName=QUEUE))["QueueUrl"]
    run(env.calls.call("sqs", "SendMessage", QueueUrl=url, MessageBody=json.dumps(body)))


async def diagnose(env: Environment, cluster: str) -> list[CheckResult]:
    """Reads and checks the account as `holdfast doctor` does, without classes."""
    settings = AccountSettings(
        given=Given(name=cluster), kubernetes="1.36", capacity=CapacitySettings(), queue=QUEUE
    )
    reader = AccountReader(
        env.calls._clients, settings, executor=env.calls.executor, clock=env.clock, ids=env.ids
    )
    found = await reader.read([])
    results = list(account_checks.access(found))
    if found.cluster is not None:
        results += account_checks.rights(found)
        results += account_checks.cluster(found, ())
        results += account_checks.interruption_queue(found, uses_spot=True)
        results += account_checks.spot_role(found, ["default"], [])
        results += reservation_checks.unselected(found)
    return results


def named_operations() -> set[str]:
    """The AWS operations that occur as strings in `holdfast.cloud.aws`."""
    session = botocore.session.Session()
    operations = {name for service in SERVICES for name in session.get_service_model(service).operation_names}
    sources = (Path(cloud.__file__).parent / "aws").rglob("*.py")
    nodes = (node for source in sources for node in ast.walk(ast.parse(source.read_text())))
    return {
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    } & operations
