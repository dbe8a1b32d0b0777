"""Builders for tests of the simulated AWS: clocks, an endpoint with all services but EC2, and clients for each front."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import botocore.loaders
import botocore.session
from botocore.config import Config

from holdfast.sim.aws import eks, events, iam, pricing, sqs, ssm, sts
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import Fault, NoFaults
from holdfast.sim.aws.fronts import before_call, before_send, http
from holdfast.sim.aws.service import Service

FRONTS = ("before_call", "before_send", "http")
REGION = "us-west-2"
NOW_S = 1_800_000_000
QUEUE = "interruptions"
CLUSTER = eks.Cluster(
    name="demo",
    region=REGION,
    version="1.36",
    endpoint="https://demo.example",
    certificate_authority="Q0E=",
    created_s=NOW_S,
)

RULE = events.Rule("interruptions", f"arn:aws:sqs:{REGION}:111122223333:{QUEUE}", {"source": ["aws.ec2"]})


class JumpingClock:
    """A clock that advances only when a task sleeps, without waiting."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now_s(self) -> int:
        return NOW_S + int(self.passed_s)

    def monotonic_s(self) -> float:
        return self.passed_s

    async def sleep(self, seconds: float) -> None:
        wake_s = self.passed_s + seconds
        await asyncio.sleep(0)  # tasks that are ready run first
        self.passed_s = max(self.passed_s, wake_s)


class LoopClock:
    """The time of the event loop, for the HTTP front, where time cannot jump."""

    def now_s(self) -> int:
        return NOW_S

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class On(NoFaults):
    """Injects one fault into every call of one operation."""

    def __init__(self, operation: str, fault: Fault | ApiError) -> None:
        self._operation = operation
        self._fault = fault

    def fault(self, _: str, operation: str, __: Mapping[str, Any]) -> Fault | ApiError | None:
        return self._fault if operation == self._operation else None


class Always(NoFaults):
    """Injects one fault into every call."""

    def __init__(self, fault: Fault | ApiError) -> None:
        self._fault = fault

    def fault(self, _: str, __: str, ___: Mapping[str, Any]) -> Fault | ApiError:
        return self._fault


class Slow(NoFaults):
    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s

    def latency_s(self) -> float:
        return self._latency_s


def small_services(clock: Any) -> dict[str, Service]:
    return {
        "eks": eks.Eks([CLUSTER]),
        "events": events.Events([RULE]),
        "iam": iam.Iam(["node-role"], clock),
        "pricing": pricing.Pricing([REGION]),
        "sqs": sqs.Sqs([QUEUE], clock),
        "ssm": ssm.Ssm({path.path: f"ami-{path.family.lower()}" for path in ssm.ami_paths("1.36")}, clock),
        "sts": sts.Sts(),
    }


def endpoint(services: Mapping[str, Service] | None = None, **kwargs: Any) -> Endpoint:
    clock = kwargs.pop("clock", None) or JumpingClock()
    return Endpoint(small_services(clock) if services is None else services, clock, **kwargs)


class Clients:
    """botocore clients of one session that call the simulated endpoint."""

    def __init__(self, session: Any, url: str | None, region: str) -> None:
        self._session = session
        self._region = region
        self._url = url
        self._clients: dict[str, Any] = {}

    def __getitem__(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.create_client(
                service,
                region_name=self._region,
                endpoint_url=self._url,
                aws_access_key_id="AKIATEST",
                aws_secret_access_key="secret",  # noqa: S106 - the simulation does not check it
                config=Config(retries={"total_max_attempts": 1}),
            )
        return self._clients[service]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


@contextlib.contextmanager
def clients(front: str, endpoint: Endpoint, region: str = REGION) -> Iterator[Clients]:
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    events = session.get_component("event_emitter")
    with contextlib.ExitStack() as stack:
        url = None
        match front:
            case "before_call":
                before_call.install(events, endpoint)
            case "before_send":
                before_send.install(events, endpoint)
            case _:
                url = stack.enter_context(served(endpoint))
        yield stack.enter_context(contextlib.closing(Clients(session, url, region)))


@contextlib.contextmanager
def served(endpoint: Endpoint) -> Iterator[str]:
    """Serves the HTTP front in a separate thread, because botocore blocks the calling thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    serving = http.serving(endpoint)
    try:
        yield asyncio.run_coroutine_threadsafe(serving.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(serving.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@functools.cache
def _loader() -> Any:
    """One loader for all sessions, because the model of EC2 is slow to read."""
    return botocore.loaders.create_loader()


def without_metadata(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "ResponseMetadata"}
