"""The published IAM policy for the simulated AWS, and the actions that a run needs."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aws_environment
from holdfast.sim.aws import policy
from holdfast.sim.aws.policy import Access, Policy
from holdfast.sim.ec2 import setup as ec2_setup

# scripts/check_aws.py names the policy of a deployed role here.
FILE = Path(os.environ.get("HOLDFAST_IAM_POLICY") or Path(__file__).parents[2] / "deploy" / "iam-policy.json")
VALUES = {
    "PARTITION": "aws",
    "REGION": aws_environment.REGION,
    "ACCOUNT_ID": ec2_setup.ACCOUNT,
    "CLUSTER_NAME": ec2_setup.CLUSTER,
    "NODE_ROLE": f"KarpenterNodeRole-{ec2_setup.CLUSTER}",
    "QUEUE": ec2_setup.CLUSTER,
}


def filled(**values: str) -> str:
    """The text of the policy, with each placeholder replaced."""
    text = FILE.read_text(encoding="utf-8")
    for placeholder, value in (VALUES | values).items():
        text = text.replace(placeholder, value)
    return text


def document(**values: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(filled(**values))
    return parsed


def published(**values: str) -> Policy:
    return policy.read(document(**values))


def actions(statement: Mapping[str, Any]) -> list[str]:
    action = statement["Action"]
    return [action] if isinstance(action, str) else action


def needed_actions(granted: Policy, accesses: Iterable[Access]) -> set[tuple[str, str]]:
    """Statement and action pairs without which one of the accesses would be denied."""
    needed = set()
    for access in accesses:
        allowing = [statement.sid for statement in granted.statements if statement.matches(access)]
        if len(allowing) == 1:
            needed.add((allowing[0], access.action))
    return needed
