"""Durations and errors of the Cloud port's calls, under Karpenter's names.

Called by `provider`. The label `controller` is the name of the task: a controller names the tasks of its reconciles.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast import errors, ports
from holdfast.runtime.metrics import Metric

SECONDS: Final = "karpenter_cloudprovider_duration_seconds"
ERRORS: Final = "karpenter_cloudprovider_errors_total"
METRICS: Final = (
    Metric(
        SECONDS,
        "histogram",
        "Duration of calls of the cloud provider by method.",
        ("controller", "method", "provider"),
        (0.01, 0.1, 0.5, 1, 2.5, 5, 10),
    ),
    Metric(
        ERRORS,
        "counter",
        "Calls of the cloud provider that failed.",
        ("controller", "method", "provider", "error", "nodepool"),
    ),
)
_PROVIDER: Final = {"provider": "aws"}
_UNNAMED: Final = "Task-"  # asyncio's own names of tasks


class MeasuredCalls:
    def __init__(self, *, clock: ports.Clock, recorder: ports.Recorder) -> None:
        self._clock = clock
        self._recorder = recorder

    @contextmanager
    def call(self, method: str, nodepool: str = "") -> Iterator[None]:
        began_s = self._clock.monotonic_s()
        try:
            yield
        except errors.HoldfastError as error:
            self.failed(method, error, nodepool)
            raise
        finally:
            about = {"controller": _controller(), "method": method, **_PROVIDER}
            self._recorder.observe(SECONDS, about, self._clock.monotonic_s() - began_s)

    def failed(self, method: str, error: Exception, nodepool: str) -> None:
        about = {"controller": _controller(), "method": method, "nodepool": nodepool, **_PROVIDER}
        self._recorder.count(ERRORS, about | {"error": _category(error)})


def _category(error: Exception) -> str:
    match error:
        case errors.InsufficientCapacity() | errors.ReservationExhausted():
            return "InsufficientCapacityError"
        case errors.NotFound():
            return "NodeClaimNotFoundError"
        case errors.NotReady():
            return "NodeClassNotReadyError"
        case _:
            return "unknown"


def _controller() -> str:
    task = asyncio.current_task()
    name = task.get_name() if task is not None else ""
    return "" if name.startswith(_UNNAMED) else name
