"""The endpoint of the simulated AWS: every call of every service passes it.

Fronts call it with the name of the service; tests and benchmarks read its log. An unknown operation gets AWS's error
and is counted. Faults are injected here, so that they are the same through every front. The codec checks every result.
A bug of the simulator is stored in `broken`, because a client would retry it like any other error.
"""

import contextlib
import itertools
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from holdfast import ports
from holdfast.sim.aws.codec import protocols
from holdfast.sim.aws.codec.shapes import WrongShape
from holdfast.sim.aws.errors import ApiError, HalfResponse, LostResponse, NoSuchOperation, NotYet, Unreached
from holdfast.sim.aws.faults import Fault, Faults, NoFaults, throttling
from holdfast.sim.aws.service import Caller, Service

ACCOUNT_ID: Final = "111122223333"
LOG_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Call:
    """One call in the log."""

    at_s: int
    service: str
    operation: str
    params: Mapping[str, Any]
    caller: Caller
    error: str | None  # the error code, or the reason why there was no response


class Guard(Protocol):
    def check(self, service: str, operation: str, params: Mapping[str, Any], caller: Caller, /) -> None:
        """Raises ApiError if the caller may not make the call."""


class Endpoint:
    def __init__(
        self,
        services: Mapping[str, Service],
        clock: ports.Clock,
        *,
        faults: Faults | None = None,
        account: str = ACCOUNT_ID,
        accounts: Mapping[str, str] | None = None,
        log_max: int = LOG_MAX,
    ) -> None:
        self.services = services  # by the name in signatures, which is also botocore's
        self.clock = clock
        self.faults: Faults = faults or NoFaults()
        self.guard: Guard | None = None  # None: every caller may make every call
        self.broken: AssertionError | WrongShape | None = None  # the first bug of the simulator itself
        self.log: deque[Call] = deque(maxlen=log_max)
        self.counts: Counter[tuple[str, str, str | None]] = Counter()  # service, operation, error
        self._account = account
        self._accounts = dict(accounts or {})  # by access key; other keys belong to `account`
        self._request_numbers = itertools.count(1)
        self._patient = False

    def caller(self, access_key: str, user_agent: str, region: str = "") -> Caller:
        return Caller(self._accounts.get(access_key, self._account), access_key, user_agent, region)

    def request_id(self) -> str:
        """A new request id in AWS's format."""
        return f"00000000-0000-4000-8000-{next(self._request_numbers):012x}"

    def call(self, service: str, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The checked and copied result of the service. Raises ApiError; LostResponse, HalfResponse or Unreached for a
        broken connection; WrongShape for a bug of a service."""
        try:
            result = self._call(service, operation, params, caller)
        except ApiError as answer:
            self.record(service, operation, params, caller, answer.code)
            raise
        except (LostResponse, Unreached) as broken:
            self.record(service, operation, params, caller, type(broken).__name__)
            raise
        except (AssertionError, WrongShape) as bug:
            self.broken = self.broken or bug
            raise
        self.record(service, operation, params, caller, None)
        return result

    def record(
        self, service: str, operation: str, params: Mapping[str, Any], caller: Caller, error: str | None
    ) -> None:
        """Adds a call to the log."""
        self.log.append(Call(self.clock.now_s(), service, operation, params, caller, error))
        self.counts[service, operation, error] += 1

    def unknown_actions(self) -> dict[tuple[str, str], int]:
        """How often unknown operations were called, by service and operation."""
        return {
            (service, operation): count
            for (service, operation, error), count in self.counts.items()
            if error in protocols.UNKNOWN_ACTIONS
        }

    @contextlib.contextmanager
    def patience(self) -> Iterator[None]:
        """Inside the block, a long poll without a message raises NotYet; outside it returns an empty response at once,
        because time cannot pass in a synchronous call."""
        self._patient = True
        try:
            yield
        finally:
            self._patient = False

    def _call(
        self, service: str, operation: str, params: Mapping[str, Any], caller: Caller
    ) -> dict[str, Any]:
        codec = protocols.codec(service)
        model = codec.operation_model(operation)
        codec.check_params(model, params)
        fault = self.faults.fault(service, operation, params)
        if fault is Fault.UNREACHED:
            raise Unreached
        if fault is Fault.THROTTLED:
            raise throttling(service)
        if isinstance(fault, ApiError):
            raise fault
        if service not in self.services:
            raise codec.no_such_action(operation)
        if self.guard is not None:
            self.guard.check(service, operation, params, caller)
        try:
            result = self.services[service].call(operation, params, caller)
        except NoSuchOperation:
            raise codec.no_such_action(operation) from None
        except NotYet as wait:
            if self._patient:
                raise
            result = wait.otherwise
        result = codec.strict_result(model, result)
        if fault is Fault.LOST:
            raise LostResponse
        if fault is Fault.HALF:
            raise HalfResponse(result)
        return result
