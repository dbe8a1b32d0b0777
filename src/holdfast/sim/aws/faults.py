"""What can go wrong between a client and the simulated AWS, whatever the service.

A scenario gives the endpoint something with this Protocol; the endpoint asks it before each call. Faults of
one service alone, such as a pool without capacity, are that service's business. The rule: the answer
depends on the arguments, on the schedule and on the seed, so that a run replays.
"""

import enum
from collections.abc import Mapping
from typing import Any, Final, Protocol

from holdfast.sim.aws.errors import ApiError


class Fault(enum.Enum):
    UNREACHED = "the connection ends before the service has seen the request"
    THROTTLED = "the service says that we ask too often"
    LOST = "the call takes effect and the connection ends before the answer"
    HALF = "the call takes effect and the connection ends in the middle of the answer"


class Faults(Protocol):
    def fault(self, service: str, operation: str, params: Mapping[str, Any], /) -> Fault | ApiError | None:
        """What happens to this call; an ApiError is answered instead of a call."""

    def latency_s(self) -> float:
        """How long the next call takes: half of it passes before the effect, half after."""


class NoFaults:
    """Nothing ever goes wrong, and nothing takes time."""

    def fault(self, _service: str, _operation: str, _params: Mapping[str, Any], /) -> Fault | ApiError | None:
        return None

    def latency_s(self) -> float:
        return 0.0


# How each service says that it is asked too often.
_THROTTLING: Final = {
    "ec2": ("RequestLimitExceeded", "Request limit exceeded.", 503),
    "iam": ("Throttling", "Rate exceeded", 400),
    "sts": ("Throttling", "Rate exceeded", 400),
    "sqs": ("RequestThrottled", "The request was denied due to request throttling.", 403),
    "eks": ("ThrottlingException", "Rate exceeded", 429),
}


def throttling(service: str) -> ApiError:
    return ApiError(*_THROTTLING.get(service, ("ThrottlingException", "Rate exceeded", 400)))
