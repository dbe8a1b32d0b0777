"""Checks the AWS credentials once at the start.

Called by `production`. Without the check, a process without credentials becomes ready and launches nothing. Only
missing or rejected credentials stop the start. A missing permission or no response is left to the call that needs it.
"""

from typing import Final

from holdfast import errors
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls

WHAT_TO_DO: Final = (
    "give the pod an IAM role by EKS Pod Identity or IRSA, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


async def check(aws: Calls) -> None:
    """Raises NoCredentials when there are none, or EC2 rejects them."""
    try:
        await aws.call(calls.EC2, "DescribeInstanceTypes", DryRun=True)
    except errors.NoCredentials as error:
        raise errors.NoCredentials(f"no AWS credentials that EC2 accepts: {error}; {WHAT_TO_DO}") from error
    except errors.HoldfastError:
        return
