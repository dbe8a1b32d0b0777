"""Denies calls to a simulated AWS that an IAM policy does not allow.

Tests pass it to an `Endpoint`. It applies to every caller of the endpoint and records every access that it decided. A
call needs all of its accesses; a denial has the code and the message of the service.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.sim.aws import accesses
from holdfast.sim.aws.endpoint import LOG_MAX
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.iam import Iam
from holdfast.sim.aws.policy import Access, Decision, Policy
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import accesses as ec2_accesses
from holdfast.sim.ec2.service import Ec2

_DENIALS: Final = {  # code and HTTP status by service
    "ec2": ("UnauthorizedOperation", 403),
    "iam": ("AccessDenied", 403),
    "sqs": ("AccessDenied", 403),
    "eks": ("AccessDeniedException", 403),
}
_OTHER_DENIALS: Final = ("AccessDeniedException", 400)


class Guard:
    def __init__(self, policy: Policy, *, ec2: Ec2, iam: Iam) -> None:
        self.policy = policy
        self.decided: deque[tuple[Access, Decision]] = deque(maxlen=LOG_MAX)
        self._ec2 = ec2
        self._iam = iam

    def check(self, service: str, operation: str, params: Mapping[str, Any], caller: Caller) -> None:
        """Raises ApiError when the policy denies the call."""
        for access in self.needed(service, operation, params, caller):
            decision = self.policy.decide(access)
            self.decided.append((access, decision))
            if decision is not Decision.ALLOWED:
                raise denial(service, access, decision, caller)

    def needed(
        self, service: str, operation: str, params: Mapping[str, Any], caller: Caller
    ) -> Iterable[Access]:
        if service == "ec2":
            return ec2_accesses.needed(self._ec2.region, operation, params, caller, self._iam.role_of)
        return accesses.needed(service, operation, params, caller, self._iam)


def denial(service: str, access: Access, decision: Decision, caller: Caller) -> ApiError:
    code, status = _DENIALS.get(service, _OTHER_DENIALS)
    user = f"arn:{accesses.PARTITION}:sts::{caller.account_id}:assumed-role/holdfast"
    why = f"User: {user} is not authorized to perform: {access.action} on resource: {access.resource} because {decision.value}"
    return ApiError(code, f"You are not authorized to perform this operation. {why}", status)
