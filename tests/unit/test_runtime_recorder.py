"""Metrics, deduplicated and rate-limited events, and the pages for the kubelet and Prometheus."""

import asyncio
import subprocess
import sys

import aiohttp
import pytest

import objects
from holdfast import errors
from holdfast.api.cluster import Event
from holdfast.kube.client import Client, ClientSettings
from holdfast.runtime import health, process
from holdfast.runtime.compute import InlineCompute, ThreadCompute
from holdfast.runtime.metrics import MISTAKES, Metric, Metrics
from holdfast.runtime.recorder import KubeRecorder
from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.faults import Faults, Refuse
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from scripted import START

DECLARED = (
    Metric("test_pods_total", "counter", "Pods.", ("zone",)),
    Metric("test_free_slots", "gauge", "Slots."),
    Metric("test_plan_seconds", "histogram", "Plans.", buckets=(1, 10)),
)


def test_metrics_have_the_recorded_values() -> None:
    metrics = Metrics(DECLARED, strict=True)
    metrics.count("test_pods_total", {"zone": "a"})
    metrics.count("test_pods_total", {"zone": "a"}, 2)
    metrics.gauge("test_free_slots", {}, 7)
    metrics.gauge("test_free_slots", {}, 5)
    metrics.observe("test_plan_seconds", {}, 3)
    assert metrics.value("test_pods_total", {"zone": "a"}) == 3
    assert metrics.value("test_free_slots", {}) == 5
    assert metrics.value("test_plan_seconds_bucket", {"le": "10"}) == 1
    assert b'test_pods_total{zone="a"} 3\n' in metrics.text()


def test_two_registries_in_one_process_share_nothing() -> None:
    one, two = Metrics(DECLARED, strict=True), Metrics(DECLARED, strict=True)
    one.gauge("test_free_slots", {}, 1)
    assert two.value("test_free_slots", {}) == 0


def test_an_undeclared_metric_fails_only_in_strict_mode() -> None:
    for metric, labels in (
        ("unknown", {}),
        ("test_pods_total", {"region": "x"}),
        ("test_free_slots", {"a": "b"}),
    ):
        with pytest.raises(AssertionError):
            Metrics(DECLARED, strict=True).count(metric, labels)
        lenient = Metrics(DECLARED, strict=False)
        lenient.count(metric, labels)
        lenient.gauge(metric, {**labels, "more": "labels"}, 1)
        lenient.observe(metric, labels, 1)
        assert lenient.value(MISTAKES, {"metric": metric}) == 3


class Environment:
    def __init__(self) -> None:
        clock = VirtualClock(START)
        self.faults = Faults(ApiServer(clock=clock, ids=SeededIds(1)), clock)
        ids = SeededIds(2)
        self.kube = Client(
            transport=InProcess(self.faults), clock=clock, ids=ids, settings=ClientSettings(attempts=1)
        )
        self.metrics = Metrics((), strict=True)
        self.recorder = KubeRecorder(kube=self.kube, metrics=self.metrics, clock=clock, ids=ids)
        self.sending = asyncio.create_task(self.recorder.run())

    async def messages(self) -> list[str]:
        return sorted(event.message for event in (await self.kube.list(Event)).items)


@pytest.mark.fact("E-5")
def test_an_equal_event_is_counted_again_after_two_minutes() -> None:
    async def program() -> None:
        env = Environment()
        node = objects.node("n")
        for seconds in (0, 60, 59, 2, 60):
            await asyncio.sleep(seconds)
            env.recorder.event(node, "Waiting", "for a slot")
        await asyncio.sleep(1)
        (event,) = (await env.kube.list(Event)).items
        assert event.count == 2
        assert event.first_timestamp is not None
        assert event.last_timestamp is not None
        assert (event.last_timestamp - event.first_timestamp).total_seconds() == 121
        env.sending.cancel()

    time.run(program())


def test_an_event_that_the_server_deleted_is_created_again() -> None:
    async def program() -> None:
        env = Environment()
        env.recorder.event(objects.node("n"), "Waiting", "for a slot")
        await asyncio.sleep(3601)
        assert (await env.kube.list(Event)).items == ()
        env.recorder.event(objects.node("n"), "Waiting", "for a slot")
        await asyncio.sleep(1)
        (event,) = (await env.kube.list(Event)).items
        assert (event.message, event.count) == ("for a slot", 2)
        env.sending.cancel()

    time.run(program())


def test_events_that_the_server_deleted_are_forgotten_after_two_hours() -> None:
    async def program() -> None:
        env = Environment()
        for n in range(300):
            env.recorder.event(objects.node(f"n-{n}"), "Waiting", "for a slot")
            await asyncio.sleep(60)
        assert len(env.recorder._emitted) <= 121
        env.sending.cancel()

    time.run(program())


def test_an_event_whose_first_post_failed_is_created_by_the_next() -> None:
    async def program() -> None:
        env = Environment()
        env.faults.add(Refuse("InternalError"), lambda request: request.method == "POST", times=1)
        env.recorder.event(objects.node("n"), "Waiting", "for a slot")
        await asyncio.sleep(200)
        assert await env.messages() == []
        env.recorder.event(objects.node("n"), "Waiting", "for a slot")
        await asyncio.sleep(1)
        assert await env.messages() == ["for a slot"]
        env.sending.cancel()

    time.run(program())


def test_a_dropped_event_is_sent_when_the_queue_has_capacity() -> None:
    async def program() -> None:
        env = Environment()
        nodes = [objects.node(f"n{number}") for number in range(1_500)]
        for _ in range(2):
            for node in nodes:
                env.recorder.event(node, "Waiting", node.metadata.name)
            await asyncio.sleep(110)
        assert len(await env.messages()) == 1_500
        env.sending.cancel()

    time.run(program())


def test_repeated_events_leave_half_of_the_queue_to_new_ones() -> None:
    async def program() -> None:
        env = Environment()
        for number in range(1_000):
            env.recorder.event(objects.node("n"), "Old", str(number))
        await asyncio.sleep(200)
        for number in range(1_000):
            env.recorder.event(objects.node("n"), "Old", str(number))
        for number in range(500):
            env.recorder.event(objects.node("n"), "New", str(number))
        await asyncio.sleep(200)
        found = (await env.kube.list(Event)).items
        assert sum(event.reason == "New" for event in found) == 500
        assert sum(event.count == 2 for event in found) == 500
        env.sending.cancel()

    time.run(program())


@pytest.mark.fact("E-5")
def test_excess_events_and_failed_posts_are_dropped_and_counted() -> None:
    async def program() -> None:
        env = Environment()
        env.faults.add(Refuse("InternalError"), lambda request: request.method == "POST", times=10)
        for number in range(2_000):
            env.recorder.event(objects.node("n"), "Looping", str(number))
        await asyncio.sleep(1000)
        assert len(await env.messages()) == 1_000 - 10
        assert env.metrics.value("holdfast_events_dropped_total", {"why": "too many"}) == 1_000
        assert env.metrics.value("holdfast_events_dropped_total", {"why": "not sent"}) == 10
        env.sending.cancel()

    time.run(program())


def test_events_are_sent_no_faster_than_ten_a_second() -> None:
    async def program() -> None:
        env = Environment()
        for number in range(100):
            env.recorder.event(objects.node("n"), "Looping", str(number))
        await asyncio.sleep(5.05)
        assert 45 <= len(await env.messages()) <= 55
        env.sending.cancel()

    time.run(program())


def test_probes_and_metrics_are_served() -> None:
    not_ready, not_live = "not read yet: pods", ""

    async def program() -> None:
        metrics = Metrics(DECLARED, strict=True)
        metrics.gauge("test_free_slots", {}, 7)
        pages = health.probes(
            liveness={"controllers": lambda: not_live}, readiness={"caches": lambda: not_ready}
        )
        async with (
            health.serve(pages, host="127.0.0.1", port=0) as probe_port,
            health.serve(health.metrics_page(metrics), host="127.0.0.1", port=0) as metrics_port,
            aiohttp.ClientSession() as session,
        ):

            async def get(port: int, path: str) -> tuple[int, str]:
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    return response.status, await response.text()

            nonlocal not_ready, not_live
            assert await get(probe_port, "/healthz") == (200, "ok")
            assert await get(probe_port, "/readyz") == (503, "caches: not read yet: pods\n")
            not_ready, not_live = "", "provisioner: no reconcile has completed for 700 s"
            assert await get(probe_port, "/readyz") == (200, "ok")
            assert await get(probe_port, "/healthz") == (503, f"controllers: {not_live}\n")
            status, text = await get(metrics_port, "/metrics")
            assert status == 200
            assert "test_free_slots 7\n" in text

    asyncio.run(program())


def test_thread_and_inline_compute_return_the_same() -> None:
    async def program() -> tuple[int, int]:
        thread = ThreadCompute()
        try:
            return await thread.run(lambda n: n * n, 12), await InlineCompute().run(lambda n: n * n, 12)
        finally:
            thread.close()

    assert asyncio.run(program()) == (144, 144)


def test_an_error_in_a_decision_is_raised_to_the_caller() -> None:
    def decide(value: int) -> int:
        assert value < 0, "a bug"
        return value

    async def program() -> None:
        await ThreadCompute().run(decide, 1)

    with pytest.raises(AssertionError, match="a bug"):
        asyncio.run(program())


def test_a_process_without_asserts_does_not_start() -> None:
    process.refuse_without_asserts()
    code = "from holdfast.runtime import process; process.refuse_without_asserts()"
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 1
    assert errors.InvalidInput.__name__ in run.stderr
    assert "without -O" in run.stderr
