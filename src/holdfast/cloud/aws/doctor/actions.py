"""The actions of the IAM policy that are tried by a dry run or a read without effect: the one table of them.

Called by `account_reading`. `tests/unit/test_doctor_checks.py` compares the table with `deploy/iam-policy.json`: an action
of the policy is in this table, or listed there with the check that covers it or why no call can try it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.cloud.aws.client import calls


@dataclass(frozen=True, slots=True)
class Action:
    service: str
    operation: str
    effect: str = ""  # what does not work without it; empty: nodes cannot be launched
    outside_vpc: bool = False
    request: Mapping[str, Any] = field(default_factory=lambda: {"DryRun": True}, compare=False)

    @property
    def name(self) -> str:
        """As IAM writes it."""
        return f"{self.service}:{self.operation}"


ACTIONS: Final = (
    Action(calls.EC2, "DescribeCapacityReservations"),
    Action(calls.EC2, "DescribeImages"),
    Action(calls.EC2, "DescribeInstanceStatus", "failed instances are detected by their nodes alone"),
    Action(calls.EC2, "DescribeInstanceTypeOfferings"),
    Action(calls.EC2, "DescribeInstanceTypes"),
    Action(calls.EC2, "DescribeInstances"),
    Action(calls.EC2, "DescribeLaunchTemplates", "unused launch templates are not deleted"),
    Action(calls.EC2, "DescribePlacementGroups", "classes with a placementGroupSelector are not Ready"),
    Action(calls.EC2, "DescribeSecurityGroups"),
    Action(calls.EC2, "DescribeSpotPriceHistory", "on-demand prices stand in for spot prices"),
    Action(calls.EC2, "DescribeSubnets"),
    Action(
        calls.IAM,
        "ListInstanceProfiles",
        "unused instance profiles are not deleted",
        outside_vpc=True,
        request={"PathPrefix": "/karpenter/", "MaxItems": 1},
    ),
    Action(
        calls.PRICING,
        "GetProducts",
        "the shipped prices are used",
        outside_vpc=True,
        request={"ServiceCode": "AmazonEC2", "MaxResults": 1},
    ),
)
