"""Log lines of outages and of unexpected errors."""

import asyncio
import io
import json

from structlog.testing import capture_logs

from holdfast.api.kubeconfig import ExecCredential, ExecCredentialStatus, ExecVariable, UserEntry
from holdfast.kube.credentials import Credential
from holdfast.runtime import logs
from holdfast.runtime.outages import Outage
from holdfast.runtime.supervision import Supervisor, Unexpected
from holdfast.sim import time
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from manual_ports import ManualClock
from recorders import KeepingRecorder
from scripted import START


def test_an_outage_is_logged_at_its_start_each_minute_and_at_its_end() -> None:
    clock = ManualClock()
    outage = Outage("EC2", clock)
    with capture_logs() as lines:
        outage.answered()
        for _ in range(3000):  # five minutes, ten requests a second
            outage.failed("connection refused")
            clock.advance(0.1)
        outage.answered()
        outage.answered()
    events = [line["event"] for line in lines]
    assert events == [
        "endpoint not responding",
        *["endpoint still not responding"] * 4,
        "endpoint responding again",
    ]
    assert lines[-1]["failures"] == 3000
    assert lines[-1]["seconds"] == 300


def test_single_failures_are_logged_once_per_minute() -> None:
    clock = ManualClock()
    outage = Outage("EC2", clock)
    with capture_logs() as lines:
        for _ in range(600):
            outage.failed("reset")
            outage.answered()
            clock.advance(0.1)
    assert len(lines) <= 4


def test_a_failed_background_task_is_restarted() -> None:
    recorder = KeepingRecorder()

    async def program() -> int:
        clock = VirtualClock(START)
        unexpected = Unexpected(clock=clock, recorder=recorder)
        supervisor = Supervisor(unexpected, clock=clock, ids=SeededIds(1))
        runs = 0

        async def run() -> None:
            nonlocal runs
            runs += 1
            raise KeyError("a half answer")

        task = supervisor.start("poller", run)
        await asyncio.sleep(3600)
        assert not task.done()
        task.cancel()
        return runs

    with capture_logs() as lines:
        runs = time.run(program())
    assert 3600 / 300 <= runs <= 40  # with waits of up to five minutes
    assert recorder.counts["holdfast_unexpected_errors_total", "poller"] == runs
    assert len(lines) == 1


def fail(token: str) -> None:
    secrets = [
        Credential(token=token, certificate_pem=token, key_pem=token),
        UserEntry(token=token, password=token, client_key_data=token),
        ExecVariable("AWS_SECRET_ACCESS_KEY", token),
        ExecCredential(status=ExecCredentialStatus(token=token, client_key_data=token)),
    ]
    raise ValueError(f"{secrets}")


def test_tracebacks_show_no_local_values_and_credentials_no_secrets() -> None:
    out = io.StringIO()
    secret = "a-secret-value"
    for as_json in (True, False):
        logs.configure(clock=ManualClock(), as_json=as_json, to=out)
        try:
            fail(secret)
        except ValueError as error:
            Unexpected(clock=ManualClock(), recorder=KeepingRecorder()).report("here", error)
    text = out.getvalue()
    assert secret not in text
    first = json.loads(text.splitlines()[0])
    assert first["message"] == "unexpected error"
    assert first["exception"][0]["frames"]
    assert len(text) < 5000
