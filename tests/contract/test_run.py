"""`holdfast run` as a process, against a simulated cluster and AWS over HTTP."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from click.testing import CliRunner

import process_environment
import read_only
from holdfast.api.cluster import Lease
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.app import karpenter, settings
from holdfast.cli import main
from holdfast.runtime import lease
from process_environment import ProcessEnvironment

MANY = """---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: many, namespace: default}}
spec:
  replicas: {pods}
  selector: {{matchLabels: {{app: many}}}}
  template:
    metadata: {{labels: {{app: many}}}}
    spec: {{containers: [{{name: main, resources: {{requests: {{cpu: 100m, memory: 10Mi}}}}}}]}}
"""
Program = Callable[[ProcessEnvironment], Awaitable[None]]


def run(program: Program, folder: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(folder) as env:
            await program(env)

    asyncio.run(main())


async def create_class_and_pool(env: ProcessEnvironment) -> None:
    await env.node_class(capacityReservationSelectorTerms=[{"id": reservation_id(env)}])
    await env.node_pool()


def reservation_id(env: ProcessEnvironment) -> str:
    return next(iter(env.cloud.ec2.region.reservations)).id


async def get(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


def test_pending_pods_run_in_reserved_slots_first(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        await create_class_and_pool(env)
        await env.deploy("web", replicas=3, cpu="1500m")

        async def all_run() -> bool:
            return await env.running_pods() == 3

        await env.until(all_run, "three pods run")
        nodes = (await env.kube.list(Node)).items
        reserved = [n for n in nodes if n.metadata.labels["karpenter.sh/capacity-type"] == "reserved"]
        assert len(reserved) == 2
        assert env.cloud.ec2.region.reservations[reservation_id(env)].available == 0

        started = await replica.wait_for_log("started")
        assert await get(started["health_probe_port"], "/healthz") == (200, "ok")
        assert await get(started["health_probe_port"], "/readyz") == (200, "ok")
        _, page = await get(started["metrics_port"], "/metrics")
        created = [
            line for line in page.splitlines() if line.startswith("karpenter_nodeclaims_created_total{")
        ]
        assert sum(float(line.split()[-1]) for line in created) == len(nodes)
        assert f"karpenter_cluster_state_node_count {len(nodes)}\n" in page
        assert "karpenter_cluster_state_synced 1\n" in page
        assert "process_resident_memory_bytes" in page
        canonical = [line for line in replica.lines if line.get("result") and line["level"] == "info"]
        assert list(canonical[0])[:5] == ["time", "level", "message", "controller", "object"]

        assert await replica.stop() == 0
        held = await env.kube.get(Lease, lease.NAME, "kube-system")
        assert held.spec.holder_identity == ""

    run(program, tmp_path)


def test_a_second_replica_leads_after_the_first_stops(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        first = await env.start()
        await create_class_and_pool(env)
        leader = await first.wait_for_log("acquired lease")
        second = await env.start()
        await second.wait_for_log("synced caches")
        assert all(line["message"] != "acquired lease" for line in second.lines)
        assert await first.stop() == 0
        follower = await second.wait_for_log("acquired lease")
        env.replicas.remove(first)
        assert follower["identity"] != leader["identity"]
        await env.deploy("web", replicas=1)

        async def it_runs() -> bool:
            return await env.running_pods() == 1

        await env.until(it_runs, "the pod runs")
        assert await second.stop() == 0

    run(program, tmp_path)


async def karpenter_leads(env: ProcessEnvironment, renewed_s: int, lasts_s: int = 15) -> None:
    renewed = datetime.fromtimestamp(renewed_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "karpenter-7c4f_1", "leaseDurationSeconds": lasts_s, "renewTime": renewed}
    await env.sandbox.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
            "spec": spec,
        }
    )


def test_run_starts_beside_karpenter_only_with_the_flag(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await karpenter_leads(env, env.clock.now_s())
        refused = await env.start()
        await refused.wait_for_log("waiting until the lease of karpenter expires")
        lease = await env.kube.get(Lease, "karpenter-leader-election", "kube-system")
        renewed = datetime.fromtimestamp(env.clock.now_s() + 1, UTC).isoformat()
        await env.kube.patch(lease, {"spec": {"renewTime": renewed}})
        assert await refused.ended() == 3
        assert "karpenter-7c4f_1 holds the Lease kube-system/karpenter-leader-election" in str(
            refused.lines[-1]
        )
        env.replicas.remove(refused)
        with_flag = await env.start("--beside-karpenter")
        await with_flag.wait_for_log("acquired lease")
        assert await with_flag.stop() == 0

    run(program, tmp_path)


async def lease_appears(env: ProcessEnvironment) -> None:
    await karpenter_leads(env, env.clock.now_s())


async def pod_appears(env: ProcessEnvironment) -> None:
    """Karpenter without leader election: there is no Lease."""
    labels = {"app.kubernetes.io/name": "karpenter"}
    await env.deploy("karpenter", replicas=1, labels=labels)


async def hashes_are_overwritten(env: ProcessEnvironment) -> None:
    """Karpenter outside of the cluster and without a Lease: only its writes show."""
    key = "karpenter.sh/nodepool-hash-version"
    for _ in range(3):

        async def has_our_version() -> bool:
            pool = await env.kube.get(NodePool, "default")
            return pool.metadata.annotations.get(key) == "holdfast-v1"

        await env.until(has_our_version, "Holdfast writes its hash version")
        pool = await env.kube.get(NodePool, "default")
        await env.kube.patch(pool, {"metadata": {"annotations": {key: "v3"}}})


@pytest.mark.parametrize(
    ("appears", "sign"),
    [
        (lease_appears, "holds the Lease kube-system/karpenter-leader-election"),
        (pod_appears, "has the label app.kubernetes.io/name=karpenter"),
        (hashes_are_overwritten, "another program writes karpenter.sh/nodepool-hash-version"),
    ],
)
def test_run_stops_when_karpenter_appears(tmp_path: Path, appears: Program, sign: str) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        await create_class_and_pool(env)
        await replica.wait_for_log("acquired lease")
        await appears(env)
        assert await replica.ended() == 3
        assert sign in str(replica.lines[-1])
        env.replicas.remove(replica)
        held = await env.kube.get(Lease, lease.NAME, "kube-system")
        assert not held.spec.holder_identity, "the Lease is released"

    run(program, tmp_path)


def test_run_continues_after_one_overwritten_hash(tmp_path: Path) -> None:
    """A user may apply a NodePool from a file that has annotations of Karpenter."""

    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        await create_class_and_pool(env)
        await replica.wait_for_log("acquired lease")
        pool = await env.kube.get(NodePool, "default")
        await env.kube.patch(
            pool, {"metadata": {"annotations": {"karpenter.sh/nodepool-hash-version": "v3"}}}
        )
        await env.clock.sleep(2 * karpenter.CHECK_EVERY_S)
        assert await replica.stop() == 0

    run(program, tmp_path)


def test_run_starts_when_the_lease_of_a_stopped_karpenter_has_expired(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await karpenter_leads(env, env.clock.now_s(), lasts_s=10)
        replica = await env.start()
        await replica.wait_for_log("waiting until the lease of karpenter expires")
        assert not [line for line in replica.lines if line["message"] == "started"]
        await replica.wait_for_log("acquired lease")
        assert await replica.stop() == 0

    run(program, tmp_path)


def test_an_expired_lease_of_karpenter_is_ignored(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await karpenter_leads(env, env.clock.now_s() - 60)
        replica = await env.start()
        await replica.wait_for_log("acquired lease")
        assert await replica.stop() == 0

    run(program, tmp_path)


def test_run_works_on_a_read_only_filesystem(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start(program=(read_only.__file__,))
        await create_class_and_pool(env)
        await env.deploy("web", replicas=1)

        async def it_runs() -> bool:
            return await env.running_pods() == 1

        await env.until(it_runs, "the pod runs")
        assert await replica.stop() == 0
        assert [line for line in replica.lines if "Read-only" in str(line)] == []

    run(program, tmp_path)


def test_a_plan_works_on_a_read_only_file_system(tmp_path: Path) -> None:
    scenario = tmp_path / "large.yaml"
    written = Path("examples/plan/slots-before-buying.yaml").read_text(encoding="utf-8")
    scenario.write_text(written + MANY.format(pods=1_000), encoding="utf-8")
    command = [sys.executable, read_only.__file__, "plan", "-f", str(scenario), "-o", "json"]
    done = subprocess.run(command, capture_output=True, check=True, cwd=tmp_path)  # noqa: S603 - ourselves
    plan = json.loads(done.stdout)
    placed = [pod for claim in plan["claims"] for pod in claim["pods"] if pod.startswith("default/many-")]
    assert len(placed) == len(set(placed)) == 1_000
    assert list(tmp_path.iterdir()) == [scenario]


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batch-idle-duration=soon", "--batch-idle-duration: 'soon' is not a duration such as 90s or 5m"),
        ("--batch-idle-duraton=1s", "No such option '--batch-idle-duraton'"),
    ],
)
def test_a_wrong_flag_is_reported_and_nothing_starts(flag: str, message: str) -> None:
    done = CliRunner().invoke(main, ["run", "--cluster-name", "blue", flag])
    assert done.exit_code == 2
    assert message in done.stderr


def test_the_help_shows_every_setting_with_its_variable() -> None:
    shown = " ".join(CliRunner().invoke(main, ["run", "--help"]).output.split())
    for setting in settings.TABLE:
        assert f"--{setting.name} " in shown
        assert f"[{setting.variable}" in shown
