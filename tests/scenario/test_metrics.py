"""Metrics that are computed for a scrape, from a running cluster with reservations. In virtual time."""

import asyncio
import dataclasses
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.app.settings import Settings
from holdfast.runtime.lease import LeaseSettings

LARGE = instance_types("m5.large")
ONE_PER_NODE = {"cpu": "1500m"}
TAGS = {"team": "ml"}
EACH = dataclasses.replace(app_environment.SETTINGS, metrics_per_object=True)
DEFAULT: dict[str, str] = {"nodepool": "default", "managed": "true"}
LINE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


async def scrape(env: AppEnvironment) -> "Page":
    await env.app.refresh_metrics()
    return Page(env.app.metrics.text().decode())


class Page:
    def __init__(self, text: str) -> None:
        self.text = text

    def series(self, name: str, /, **wanted: str) -> Iterator[tuple[dict[str, str], float]]:
        for line in self.text.splitlines():
            match = LINE.fullmatch(line)
            if match is not None and match["name"] == name:
                labels = dict(LABEL.findall(match["labels"] or ""))
                if wanted.items() <= labels.items():
                    yield labels, float(match["value"])

    def total(self, name: str, /, **wanted: str) -> float:
        return sum(value for _, value in self.series(name, **wanted))


async def two_nodes(env: AppEnvironment) -> str:
    """One node in a reservation of three slots, one on demand, and one pod on each. Returns the reservation."""
    slots = env.reserve(total=3, tags=TAGS)
    await env.node_class(capacityReservationSelectorTerms=[{"tags": TAGS}])
    await env.node_pool("reserved", requirements=[LARGE, capacity_types("reserved")])
    await env.node_pool(requirements=[LARGE, capacity_types("on-demand")])
    await env.sleep(20)
    await env.deploy("ml", 1, nodeSelector={names.CAPACITY_TYPE: "reserved"}, **ONE_PER_NODE)
    await env.deploy("web", 1, nodeSelector={names.NODEPOOL: "default"}, **ONE_PER_NODE)
    await env.until_running(1, "ml")
    await env.until_running(1, "web")
    await env.sleep(120)
    return slots.id


@pytest.mark.fact("M-2", "M-5", "M-7")
def test_pods_nodes_and_conditions_are_summed_by_nodepool_and_capacity_type() -> None:
    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        page = await scrape(env)
        running = {"phase": "Running", "ready": "true", "scheduled": "true"}
        assert page.total("karpenter_pods_state", capacity_type="on-demand", **DEFAULT, **running) == 1
        assert page.total("karpenter_pods_state", nodepool="reserved", capacity_type="reserved") == 1
        assert page.total("karpenter_nodes_allocatable", resource_type="cpu", **DEFAULT) == pytest.approx(
            1.93
        )
        assert page.total("karpenter_nodes_total_pod_requests", resource_type="cpu", **DEFAULT) == 1.5
        assert page.total("karpenter_nodes_total_pod_requests", resource_type="pods", **DEFAULT) == 1
        assert page.total("karpenter_nodes_system_overhead", resource_type="cpu", **DEFAULT) > 0
        assert page.total("karpenter_nodes_current_lifetime_seconds", **DEFAULT) > 100
        assert 70 < page.total("karpenter_cluster_utilization_percent", resource_type="cpu") < 80
        ready = {"type": "Ready", "status": "True"}
        assert page.total("operator_nodeclaim_status_condition_count", **ready) == 2
        assert page.total("operator_status_condition_count", kind="NodeClaim", **ready) == 2
        assert page.total("operator_nodepool_status_condition_count", name="default", **ready) == 1
        assert page.total("operator_ec2nodeclass_status_condition_count", name="default", **ready) == 1
        assert page.total("operator_node_status_condition_count", **ready) == 2
        assert page.total("operator_nodeclaim_status_condition_transitions_total", type="Launched") >= 2
        assert page.total("operator_nodeclaim_status_condition_current_status_seconds", **ready) > 100
        for name in ("karpenter_pods_state", "karpenter_nodes_allocatable"):
            assert not [
                labels for labels, _ in page.series(name) if "name" in labels or "node_name" in labels
            ]

    app_environment.run(program)


@pytest.mark.fact("M-2", "M-5", "M-7")
def test_each_pod_node_and_nodeclaim_has_series_if_the_setting_is_on() -> None:
    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        page = await scrape(env)
        (claim,) = [one for one in await env.claims() if one.metadata.labels[names.NODEPOOL] == "default"]
        node, zone = claim.status.node_name or "", claim.metadata.labels[names.ZONE]
        ((state, value),) = page.series("karpenter_pods_state", node=node)
        assert value == 1
        assert state["namespace"] == "default"
        assert (state["zone"], state["instance_type"], state["arch"]) == (zone, "m5.large", "amd64")
        assert "/apis/apps/v1/namespaces/default/replicasets/" in state["owner"]
        ((sized, cores),) = page.series("karpenter_nodes_allocatable", node_name=node, resource_type="cpu")
        assert cores == pytest.approx(1.93)
        assert (sized["instance_family"], sized["zone"]) == ("m5", zone)
        condition = {"type": "Ready", "status": "True", "karpenter_sh_nodepool": "default"}
        ((_, count),) = page.series(
            "operator_nodeclaim_status_condition_count", name=claim.metadata.name, **condition
        )
        assert count == 1

    app_environment.run(program, settings=EACH)


@pytest.mark.fact("M-5")
@pytest.mark.parametrize("settings", [app_environment.SETTINGS, EACH])
def test_times_until_pods_are_bound_and_run_are_measured(settings: Settings) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(20)
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.sleep(5)
        page = await scrape(env)
        each = settings.metrics_per_object
        for name in ("unstarted_time", "unbound_time", "provisioning_unbound_time"):
            ages = [value for _, value in page.series(f"karpenter_pods_{name}_seconds")]
            assert len(ages) == (2 if each else 1), name
            assert 0 <= max(ages) <= 5
        await env.until_running(2)
        await env.sleep(30)
        page = await scrape(env)
        assert page.total("karpenter_pods_startup_duration_seconds_count") == 2
        assert page.total("karpenter_pods_startup_duration_seconds", quantile="1") > 5
        for name in ("bound", "provisioning_bound", "provisioning_startup"):
            assert page.total(f"karpenter_pods_{name}_duration_seconds_count") == 2, name
            assert page.total(f"karpenter_pods_{name}_duration_seconds_sum") > 5, name
        for name in ("unstarted", "unbound", "provisioning_unstarted", "provisioning_unbound"):
            assert not list(page.series(f"karpenter_pods_{name}_time_seconds")), name

    app_environment.run(program, settings=settings)


@pytest.mark.fact("M-3", "M-8", "ST-17", "W-8")
def test_slots_by_state_idle_cost_launches_and_holds_of_a_reservation_are_metrics() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await two_nodes(env)
        page = await scrape(env)

        def states() -> dict[str, float]:
            found = page.series("holdfast_reservation_slots_by_state", reservation=slots)
            return {labels["state"]: value for labels, value in found if value}

        assert states() == {"used_here": 1, "free": 2}
        assert page.total("holdfast_reservation_slots", reservation=slots) == 3
        assert page.total("holdfast_reservation_idle_slots", reservation=slots) == 2
        idle = page.total("holdfast_reservation_idle_cost_usd_per_hour", reservation=slots)
        assert idle == pytest.approx(2 * 0.096)
        assert page.total("holdfast_reservation_launches_total", reservation=slots) == 1
        assert page.total("holdfast_reservation_pods", reservation=slots) == 1
        assert 0 < page.total("holdfast_reservation_held_seconds_total", reservation=slots) < 30
        assert page.total("karpenter_nodepools_cost_total", nodepool="default") == pytest.approx(0.096)
        assert page.total("karpenter_nodepools_cost_total", nodepool="reserved") == 0
        value = page.total("holdfast_nodepool_reserved_list_price_usd_per_hour", nodepool="reserved")
        assert value == pytest.approx(0.096)
        assert page.total("holdfast_nodepool_nodes", capacity_type="on-demand") == 1
        assert page.total("holdfast_plan_cost_usd_per_hour") == pytest.approx(0.096)

    app_environment.run(program)


@pytest.mark.fact("M-1", "M-2")
def test_durations_of_terminations_and_lifetimes_are_measured() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, _ = await env.one_node("on-demand")
        await env.sleep(900)
        await env.scale("web", 0)
        await env.kube.delete(await env.kube.get(NodeClaim, claim.metadata.name))

        async def is_removed() -> bool:
            return await env.is_deleted(NodeClaim, claim.metadata.name)

        await env.until(is_removed, within_s=600)
        page = await scrape(env)
        of_pool = {"nodepool": "default"}
        for name in (
            "karpenter_nodeclaims_termination_duration_seconds",
            "karpenter_nodeclaims_instance_termination_duration_seconds",
            "karpenter_nodes_termination_duration_seconds",
        ):
            assert page.total(f"{name}_count", **of_pool) == 1, name
            assert 0 < page.total(f"{name}_sum", **of_pool) < 120, name
        assert page.total("karpenter_nodes_lifetime_duration_seconds_sum", **of_pool) > 900
        zone = claim.metadata.labels[names.ZONE]
        assert page.total("karpenter_nodes_terminated_total", zone=zone, **of_pool) == 1
        assert page.total("operator_nodeclaim_termination_duration_seconds_count") == 1

    app_environment.run(program)


@pytest.mark.fact("M-4", "M-7")
def test_plan_in_progress_work_queues_and_calls_of_the_cloud_are_measured() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE])
        await env.sleep(60)
        await env.deploy("web", 3, **ONE_PER_NODE)
        await env.sleep(10)
        page = await scrape(env)
        assert page.total("karpenter_scheduler_queue_depth", controller="provisioner") == 3
        assert page.total("karpenter_scheduler_unfinished_work_seconds", controller="provisioner") > 0
        assert page.total("workqueue_longest_running_processor_seconds", name="provisioner") > 0
        assert page.total("workqueue_unfinished_work_seconds", name="provisioner") > 0
        await env.until_running(3)
        await env.sleep(60)
        page = await scrape(env)
        assert page.total("karpenter_scheduler_queue_depth", controller="provisioner") == 0
        of_launch = {"method": "Create", "provider": "aws"}
        assert page.total("karpenter_cloudprovider_duration_seconds_count", **of_launch) >= 1
        types = {"controller": "provisioner", "method": "GetInstanceTypes"}
        assert page.total("karpenter_cloudprovider_duration_seconds_count", **types) >= 1
        for name in ("adds_total", "queue_duration_seconds_count", "work_duration_seconds_count"):
            assert page.total(f"workqueue_{name}", name="nodeclaim.lifecycle") >= 3, name

    app_environment.run(program, plans_take_s=20)


def test_series_of_a_deleted_nodepool_and_its_pods_are_removed() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.one_node("on-demand")
        await env.sleep(60)
        assert 'nodepool="default"' in (await scrape(env)).text
        await env.kube.delete(await env.kube.get(NodePool, "default"))
        await env.scale("web", 0)
        await env.sleep(600)
        text = (await scrape(env)).text
        gauges = re.findall(r"^# TYPE (\S+) gauge$", text, re.MULTILINE)
        left = [
            line for line in text.splitlines() if 'nodepool="default"' in line or 'name="default"' in line
        ]
        kept = [line for line in left if line.partition("{")[0] in gauges and "nodeclass" not in line.lower()]
        assert kept == []

    app_environment.run(program)


def test_only_the_leader_has_metrics_of_the_cluster() -> None:
    settings = dataclasses.replace(app_environment.SETTINGS, election=LeaseSettings("kube-system"))

    async def program(env: AppEnvironment) -> None:
        await env.one_node("on-demand")
        env.stand_by()
        await env.sleep(60)
        (standby,) = env._standbys
        await standby.refresh_metrics()
        text = standby.metrics.text().decode()
        assert "karpenter_pods_state{" not in text
        assert "workqueue_depth{" not in text
        assert "holdfast_controller_blocked_seconds{" not in text  # its keys wait until it leads
        assert "karpenter_pods_state{" in (await scrape(env)).text

    app_environment.run(program, settings=settings)


def test_two_scrapes_at_once_see_the_same_cluster() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.one_node("on-demand")
        await env.sleep(60)
        one, two = await asyncio.gather(scrape(env), scrape(env))
        assert one.total("karpenter_pods_state") == two.total("karpenter_pods_state") == 1

    app_environment.run(program)


def test_promtool_accepts_a_scrape_except_names_that_are_karpenters() -> None:
    """Karpenter has gauges that end in _count and _total. `make check-charts` fails without promtool."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH; it is in the package prometheus of Debian and others")
    pages: list[str] = []

    async def program(env: AppEnvironment) -> None:
        await two_nodes(env)
        pages.append((await scrape(env)).text)

    app_environment.run(program)
    done = subprocess.run(  # noqa: S603
        [promtool, "check", "metrics"], input=pages[0], check=False, capture_output=True, text=True
    )
    complaints = done.stderr.splitlines()
    file = Path(__file__).parents[1] / "unit/data/karpenter_metrics.json"
    theirs = json.loads(file.read_text())["metrics"]
    assert {line.split()[0] for line in complaints} <= theirs.keys(), complaints
    assert all("suffix" in line for line in complaints), complaints
