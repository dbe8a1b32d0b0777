"""Sends calls to AWS, with Holdfast's own rate limits and retries.

Every module of this package calls AWS through a `Calls`:

- botocore never retries, sleeps or uses random numbers, so that a run replays from its seed.
- A read is retried when it got no response. A write is retried only when AWS throttled it: without a response it may
  have taken effect.
- A list has all pages, or the call fails.
- Every error is one of `holdfast.errors`, by the table in `error_codes`. A truncated or malformed response is
  Unreachable (`answers`).
- The fence is checked before a write in the thread that sends it, after all waits.

botocore is imported with the first call, in the executor: the import is slow.
"""

import asyncio
import contextlib
import email.utils
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from holdfast import errors, fence, ports
from holdfast.cloud.aws.client import answers, error_codes
from holdfast.cloud.aws.client.ec2_clock import Ec2Clock
from holdfast.cloud.aws.client.rates import Rates
from holdfast.fence import MayWrite
from holdfast.runtime.clock import ProgramClock
from holdfast.runtime.outages import Outage
from holdfast.runtime.threads import DaemonExecutor

R = TypeVar("R")

EC2: Final = "ec2"
IAM: Final = "iam"
PRICING: Final = "pricing"
SSM: Final = "ssm"

CALLS_TOTAL: Final = "holdfast_aws_calls_total"
CALL_SECONDS: Final = "holdfast_aws_call_duration_seconds"

THREADS: Final = 16
ATTEMPTS: Final = 4
BACKOFF_S: Final = 0.2
BACKOFF_LONGEST_S: Final = 5.0
PAGES_LONGEST: Final = 200
# Shorter than the time between the end of this replica's lead and the start of the next one's (15 s - 10 s,
# `runtime.lease`): a write that passed the fence and then waits for a connection is sent before another replica leads,
# or not at all.
_CONNECT_TIMEOUT_S: Final = 4
_READ_TIMEOUT_S: Final = 60
_SERVER_ERRORS: Final = 500  # from this HTTP status on, the service failed
READS: Final = ("Describe", "Get", "List", "Receive")  # the operations with these prefixes change nothing
_WOULD_SUCCEED: Final = "DryRunOperation"  # the error code of a dry run that would succeed
# Only a few regions serve the price list.
_PRICING_REGIONS: Final = {"ap": "ap-south-1", "cn": "cn-northwest-1", "eu": "eu-central-1"}


class Executor(Protocol):
    """Runs blocking calls."""

    async def run(self, call: Callable[[], R]) -> R:
        """Returns the result of the call or raises its error."""


class Inline:
    """Runs calls in the caller's thread: for simulation, where a response takes no time."""

    async def run(self, call: Callable[[], R]) -> R:
        return call()


class Threads:
    """A bounded pool of threads."""

    def __init__(self, count: int = THREADS) -> None:
        self._pool = DaemonExecutor(count, "aws")

    async def run(self, call: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    def close(self) -> None:
        self._pool.shutdown()


class Clients:
    """One client per service, created at its first use: each needs memory and time."""

    def __init__(self, region: str, make_session: Callable[[], Any] | None = None) -> None:
        self.region = region
        self._make_session = make_session or _session
        self._session: Any = None
        self._clients: dict[str, Any] = {}
        self.checked = answers.Checked()
        self._lock = threading.Lock()  # botocore cannot create clients in two threads at once

    def get(self, service: str) -> Any:
        """Blocks while botocore creates the client, so call it in the executor."""
        with self._lock:
            if service not in self._clients:
                self._clients[service] = self._make(service)
            return self._clients[service]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _make(self, service: str) -> Any:
        from botocore.config import Config  # noqa: PLC0415 - slow to import

        if self._session is None:
            self._session = self._make_session()
        config = Config(
            retries={"total_max_attempts": 1, "mode": "standard"},  # `Calls.read` retries
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_READ_TIMEOUT_S,
            max_pool_connections=THREADS,
            user_agent_extra="holdfast",
        )
        region = pricing_region(self.region) if service == PRICING else self.region
        client = self._session.create_client(service, region_name=region, config=config)
        # The last event before the request is sent: botocore may have waited for credentials before.
        client.meta.events.register_first("before-send", _check_fence)
        return client


def _whole(answer: Any) -> Any:
    return answer


class Calls:
    """Sends every call to AWS."""

    def __init__(
        self,
        clients: Clients,
        *,
        executor: Executor,
        clock: ports.Clock,
        ids: ports.Ids,
        recorder: ports.Recorder,
        ec2_clock: Ec2Clock | None = None,
        may_write: MayWrite = fence.always,
    ) -> None:
        self.executor = executor  # also runs other code that would block the event loop
        self.clock = clock
        self._clients = clients
        self._ids = ids
        self.recorder = recorder
        self._rates = Rates()
        self.ec2_clock = ec2_clock or Ec2Clock(ProgramClock(clock))
        self._may_write = may_write
        self._outages: dict[str, Outage] = {}

    @property
    def region(self) -> str:
        return self._clients.region

    async def call(self, service: str, operation: str, **parameters: Any) -> Mapping[str, Any]:
        """The response to an operation; its name is AWS's ("DescribeSubnets")."""
        return await self.read(service, operation, _whole, **parameters)

    async def read(
        self, service: str, operation: str, parse: Callable[[Mapping[str, Any]], R], **parameters: Any
    ) -> R:
        """The result of `parse` on the response. An exception of `parse` because of malformed content is
        Unreachable."""
        attempt = 1
        while True:
            try:
                return await self._once(service, operation, parse, parameters)
            except errors.Retryable as error:
                if attempt == ATTEMPTS or not _again(operation, error):
                    raise
                longest = min(BACKOFF_S * 2**attempt, BACKOFF_LONGEST_S)
                await self.clock.sleep((error.retry_after_s or 0) + self._ids.jitter(longest))
            attempt += 1

    async def pages(
        self,
        service: str,
        operation: str,
        key: str,
        *,
        marker: str = "NextToken",
        parse: Callable[[Any], R] = _whole,
        **parameters: Any,
    ) -> list[R]:
        """The items under a key of all pages, parsed. Raises an error if any page is missing.

        A page without the key is an error, not an empty page: another program responded, and an empty list would mean
        that no object exists.
        """

        def page(answer: Mapping[str, Any]) -> tuple[list[R], str | None]:
            return [parse(item) for item in answer[key]], answer.get(marker)

        found: list[R] = []
        more: dict[str, str] = {}
        for _ in range(PAGES_LONGEST):
            items, following = await self.read(service, operation, page, **parameters, **more)
            found += items
            if not following:
                return found
            if more.get(marker) == following:
                raise errors.Unreachable(f"{operation}: two pages have the same {marker}, so there is no end")
            more = {marker: following}
        raise errors.Unreachable(f"{operation}: more than {PAGES_LONGEST} pages, and no end")

    async def _once(
        self,
        service: str,
        operation: str,
        parse: Callable[[Mapping[str, Any]], R],
        parameters: Mapping[str, Any],
    ) -> R:
        wait_s = self._rates.take(service, operation, self.clock.monotonic_s())
        if wait_s > 0:
            await self.clock.sleep(wait_s)
        began_s = self.clock.monotonic_s()
        outcome = "ok"
        try:
            may_send = fence.always if operation.startswith(READS) else self._may_write
            answer = await self.executor.run(
                functools.partial(_send, self._clients, service, operation, parameters, may_send)
            )
            self._observe_time(service, answer, self.clock.monotonic_s() - began_s)
            with answers.reading(operation):
                parsed = parse(answer)
        except errors.HoldfastError as error:
            outcome = type(error).__name__
            if isinstance(error, errors.Unreachable):
                self._outage(service).failed(error)
            raise
        else:
            self._outage(service).answered()
            return parsed
        finally:
            labels = {"service": service, "operation": operation}
            self.recorder.count(CALLS_TOTAL, {**labels, "outcome": outcome})
            self.recorder.observe(CALL_SECONDS, labels, self.clock.monotonic_s() - began_s)

    def _outage(self, service: str) -> Outage:
        if service not in self._outages:
            self._outages[service] = Outage(f"AWS {service}", self.clock)
        return self._outages[service]

    def _observe_time(self, service: str, answer: Mapping[str, Any], duration_s: float) -> None:
        if service != EC2:
            return
        with contextlib.suppress(*answers.MALFORMED):  # calls do not depend on the header
            written = answer["ResponseMetadata"]["HTTPHeaders"]["date"]
            self.ec2_clock.observe(answers.epoch_s(email.utils.parsedate_to_datetime(written)), duration_s)


def _check_fence(**_: Any) -> None:
    fence.check()


def pricing_region(region: str) -> str:
    return _PRICING_REGIONS.get(region.partition("-")[0], "us-east-1")


def _session() -> Any:
    import botocore.session  # noqa: PLC0415 - slow to import

    return botocore.session.get_session()


def _send(
    clients: Clients, service: str, operation: str, parameters: Mapping[str, Any], may_send: MayWrite
) -> Mapping[str, Any]:
    """Sends one request and maps its error. Runs in a thread of the executor."""
    import botocore  # noqa: PLC0415 - slow to import
    import urllib3.exceptions  # noqa: PLC0415
    from botocore import exceptions, parsers  # noqa: PLC0415

    client = clients.get(service)
    try:
        with answers.reading(operation), fence.guard(may_send):
            answer: Mapping[str, Any] = getattr(client, botocore.xform_name(operation))(**parameters)
            shape = client.meta.service_model.operation_model(operation).output_shape
            answers.check(answer, shape, clients.checked)
    except exceptions.ClientError as error:
        with answers.reading(operation):
            if error.response["Error"].get("Code") == _WOULD_SUCCEED:
                return {}
            ours = _ours(operation, error.response)
        raise ours from error
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
    ) as error:
        raise errors.NoCredentials(f"{operation}: {error}") from error
    except exceptions.ParamValidationError as error:
        raise errors.Rejected(f"{operation}: {error}") from error
    except (
        exceptions.BotoCoreError,
        parsers.ResponseParserError,
        urllib3.exceptions.HTTPError,
        OSError,  # of a credentials file
        RuntimeError,  # botocore's error for refreshed credentials that are expired
    ) as error:
        raise errors.Unreachable(f"{operation}: {error}") from error
    return answer


def _ours(operation: str, response: Mapping[str, Any]) -> errors.HoldfastError:
    error_body = response.get("Error", {})
    code = str(error_body.get("Code", ""))
    words = f"{error_body.get('Message', '')} ({operation})"
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if error_codes.meaning(code) is error_codes.Meaning.UNKNOWN and status >= _SERVER_ERRORS:
        return errors.Unreachable(f"{code}: {words}")
    return error_codes.error(code, words)


def _again(operation: str, error: errors.Retryable) -> bool:
    """A throttled call had no effect, so it is always retried. A write without a response may have had one."""
    if isinstance(error, errors.Throttled):
        return True
    return isinstance(error, errors.Unreachable) and operation.startswith(READS)
