"""The connections of one replica to the API server and to AWS. A test can cut them at any write, as a crash would.

After the crash every request blocks until the tasks of the replica are cancelled. Reads, events, Leases and requests that
the API server refused do not count as writes. Reports of slots do not either: no decision depends on them, and when they
are written depends on a timer.
"""

import asyncio
import functools
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from holdfast import errors
from holdfast.cloud.aws.client import calls
from holdfast.kube.transport import Answer, Transport
from holdfast.sim.aws import waiting
from holdfast.sim.aws.endpoint import Endpoint

R = TypeVar("R")
SLOT_FIELDS = (b'"reservationSlots"', b'"nodesByCapacityType"')
READS = ("Describe", "Get", "List", "Receive")


class CrashingTransport:
    """A Transport of the Kubernetes client and an Executor of AWS calls."""

    def __init__(self, transport: Transport, endpoint: Endpoint) -> None:
        self._transport = transport
        self._endpoint = endpoint
        self.crashed = asyncio.Event()
        self._is_stopped = False
        self.writes: list[str] = []  # the writes that took effect
        self.slot_reports = 0  # writes of slots to the status of node classes and NodePools
        self.aws_writes: list[tuple[str, Mapping[str, Any]]] = []  # those of AWS with their parameters
        self.slow: dict[str, float] = {}  # AWS operation to the seconds that its next call takes
        self._last: int | None = None
        self._with_effect = False

    def crash_after_write(self, write: int, *, after_effect: bool) -> None:
        """Crashes at that write, counted from the start: before it takes effect, or before its answer arrives."""
        self._last = write
        self._with_effect = after_effect

    def recover(self) -> None:
        self._last = None

    def stop(self) -> None:
        """Every later request fails at once."""
        self.crashed.set()
        self._is_stopped = True

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        is_report = any(field in body for field in SLOT_FIELDS)
        self.slot_reports += is_report
        counts = method != "GET" and "/events" not in path and "/leases" not in path and not is_report
        await self._block_if_last(is_last=counts and self._is_last(with_effect=False))
        answer = await self._transport.request(method, path, query, headers, body)
        if counts and answer.status < HTTPStatus.BAD_REQUEST:
            await self._record(f"{method} {path}")
        return answer

    async def run(self, call: Callable[[], R]) -> R:
        operation, parameters = _operation(call)
        counts = bool(operation) and not operation.startswith(READS) and not parameters.get("DryRun")
        if self._is_stopped:
            raise errors.Unreachable("the replica has crashed")
        await self._block_if_last(is_last=counts and self._is_last(with_effect=False))
        if operation in self.slow:
            await self._endpoint.clock.sleep(self.slow.pop(operation))
        answer = await waiting.patiently(self._endpoint, call)
        if counts:
            self.aws_writes.append((operation, parameters))
            await self._record(operation)
        return answer

    def _is_last(self, *, with_effect: bool) -> bool:
        return self._last is not None and len(self.writes) >= self._last and self._with_effect is with_effect

    async def _record(self, write: str) -> None:
        is_last = self._is_last(with_effect=True)
        self.writes.append(write)
        await self._block_if_last(is_last=is_last)

    async def _block_if_last(self, *, is_last: bool) -> None:
        if is_last:
            self.crashed.set()
        if self._is_stopped:
            raise ConnectionAbortedError("the replica has crashed")
        if self.crashed.is_set():
            await asyncio.get_running_loop().create_future()


def _operation(call: Callable[[], Any]) -> tuple[str, Mapping[str, Any]]:
    """Name and parameters of the AWS operation; "" if it is not an AWS call."""
    if isinstance(call, functools.partial) and call.func is calls._send:
        return call.args[2], call.args[3]
    return "", {}
