"""Faults between a client and the simulated AWS that are independent of the service.

The endpoint calls an implementation of this Protocol before each call. Faults of one service, such as a pool without
capacity, are in that service. The result depends on the arguments, the schedule and the seed, so that a run replays.
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
        """The fault of this call; an ApiError is returned instead of the result."""

    def latency_s(self) -> float:
        """The duration of the next call: half of it passes before the effect, half after."""


class NoFaults:
    """No faults and no latency."""

    def fault(self, _service: str, _operation: str, _params: Mapping[str, Any], /) -> Fault | ApiError | None:
        return None

    def latency_s(self) -> float:
        return 0.0


# The throttling error of each service.
_THROTTLING: Final = {
    "ec2": ("RequestLimitExceeded", "Request limit exceeded.", 503),
    "iam": ("Throttling", "Rate exceeded", 400),
    "sts": ("Throttling", "Rate exceeded", 400),
    "sqs": ("RequestThrottled", "The request was denied due to request throttling.", 403),
    "eks": ("ThrottlingException", "Rate exceeded", 429),
}


def throttling(service: str) -> ApiError:
    return ApiError(*_THROTTLING.get(service, ("ThrottlingException", "Rate exceeded", 400)))
