"""Whether AWS accepts our credentials, asked once before the program starts.

Called by `production`. Without this question a program without credentials runs, is ready, and launches nothing. The
rule: only missing or refused credentials end the start. A missing right, or no answer, is left to the call that
needs it.
"""

from typing import Final

from holdfast import errors
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls

_WHAT_TO_DO: Final = (
    "give the pod an IAM role by EKS Pod Identity or IRSA, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)


async def check(aws: Calls) -> None:
    """NoCredentials when there are none, or EC2 refuses them."""
    try:
        await aws.call(calls.EC2, "DescribeInstanceTypes", DryRun=True)
    except errors.NoCredentials as error:
        raise errors.NoCredentials(f"no AWS credentials that EC2 accepts: {error}; {_WHAT_TO_DO}") from error
    except errors.HoldfastError:
        return
