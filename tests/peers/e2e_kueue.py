"""Holdfast with the real Kueue on a real control plane: training jobs on a capacity block, and native gangs of Kubernetes.

Run by `make e2e`. EC2 and kubelets are simulated. The tests run in their order against one cluster, and each ends with no
Job, so that its nodes end too.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

import fetch_kubectl
import page_commands
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane
from holdfast.sim.ec2 import control, faults
from peers import arena as arenas
from peers import kueue
from peers.arena import Arena, Json, is_true

BLOCK, OPEN = (
    "cr-0123456789abcdef0",
    "cr-0123456789abcdef1",
)  # three slots of a block, two to four of a reservation
HOURS: Final = 3  # until the end of the block; its drain begins 40 minutes before
POOL = QUEUE = "training"
GUIDE: Final = Path(__file__).resolve().parents[2] / "docs/training.md"
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
GATES: Final = (
    "GenericWorkload=true",
    "GangScheduling=true",
    "WorkloadWithJob=true",
    "SchedulerPopFromBackoffQ=false",  # otherwise kube-scheduler 1.36.3 tries a gang that does not fit without a pause
)
FLAGS: Final = ("--runtime-config=scheduling.k8s.io/v1alpha2=true",)
SOON: Final = {"spec": {"disruption": {"consolidateAfter": "3s"}}}


def world() -> Json:
    end = datetime.fromtimestamp(RealClock().now_s() + HOURS * 3600, UTC)
    common = {"tags": {"team": "ml"}, "instanceMatchCriteria": "targeted"}
    block = {
        "id": BLOCK,
        "total": 3,
        "instanceType": "p5.48xlarge",
        "zone": "us-west-2a",
        "type": "capacity-block",
    }
    reserved = {"id": OPEN, "total": 2, "instanceType": "m5.xlarge", "zone": "us-west-2b"}
    return {
        "cluster": "demo",
        "roles": ["KarpenterNodeRole-demo"],
        "reservations": [common | block | {"end": end.isoformat()}, common | reserved],
        "timings": {
            "boot": "1s", "shutdown": "1s", "slotRelease": "1s", "join": "1s", "ready": "1s", "devices": "0s",
        },
    }  # fmt: skip


def run_section(arena: Arena, heading: str) -> None:
    """The commands of docs/training.md below a heading."""
    kubectl = fetch_kubectl.program("kubectl")
    environ = {**os.environ, "KUBECONFIG": str(arena.sandbox.kubeconfig)}
    environ["PATH"] = f"{Path(kubectl).parent}:{environ['PATH']}"
    for commands in page_commands.of(GUIDE, heading):
        done = subprocess.run(  # noqa: S603 - commands of our own page
            ["bash", "-euo", "pipefail", "-c", commands],  # noqa: S607
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done


def job(name: str, pods: int, *, runs_s: int = 600, queue: str = QUEUE, **parameters: str) -> Json:
    """An Indexed Job whose pods each need a node. `parameters`: of its ProvisioningRequest."""
    labels = {"app": name}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
            "annotations": {f"provreq.kueue.x-k8s.io/{key}": value for key, value in parameters.items()},
        },
        "spec": {
            "suspend": bool(queue),
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": labels, "annotations": {"sim.holdfast.dev/runs-for": str(runs_s)}},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 1,
                    "containers": [container],
                    "tolerations": [{"key": "holdfast.dev/booking", "operator": "Exists"}],
                    "affinity": {
                        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
                    },
                },
            },
        },
    }


# --- The cluster ------------------------------------------------------------------------------------


class Cluster:
    def __init__(self, arena: Arena, folder: Path) -> None:
        self.arena = arena
        self._folder = folder
        self._starts = 0

    def start_holdfast(self) -> None:
        self._starts += 1
        metrics, health = control_plane.free_ports(2)
        environ = {key: value for key, value in os.environ.items() if key in ("PATH", "HOME")}
        environ |= self.arena.sandbox.environment()
        environ |= {"LOG_FORMAT": "json", "BIND_ADDRESS": "127.0.0.1", "API_PORT": "0"}
        environ |= {"METRICS_PORT": str(metrics), "HEALTH_PROBE_PORT": str(health)}
        self.arena.start("holdfast", "run", environ=environ, port=health)

    def restart_holdfast(self) -> None:
        """Kills the process, as a crash does, and starts another one."""
        self.arena.stop_programs(kill=True)
        self.start_holdfast()

    def requests(self, job_name: str) -> list[Json]:
        found = self.arena.all("ProvisioningRequest")
        return [one for one in found if one["metadata"]["name"].startswith(f"job-{job_name}-")]

    def request(self, job_name: str) -> Json:
        """The only request of a Job, when Kueue has created it."""
        self.arena.until(lambda: self.requests(job_name), f"Kueue created a request for {job_name}")
        (one,) = self.requests(job_name)
        return one

    def until_condition(self, job_name: str, type_: str, status: str = "True") -> Json:
        def found() -> Json | None:
            for one in self.requests(job_name):
                if condition(one, type_).get("status") == status:
                    return condition(one, type_)
            return None

        try:
            reached = self.arena.until(found, f"{type_} is {status}")
        except AssertionError as error:
            raise AssertionError(f"{error}; {json.dumps(self.requests(job_name), indent=1)}") from None
        assert reached is not None
        return reached

    def in_slots(self, reservation: str) -> int:
        region = self.arena.sandbox.cloud.ec2.region
        return self.arena.now(
            lambda: sum(
                one.reservation_id == reservation and one.is_pending_or_running for one in region.instances
            )
        )

    def run_instances(self) -> list[int]:
        """How many instances each call of RunInstances of Holdfast that succeeded launched."""
        return [call.params["MaxCount"] for call in self.arena.calls("RunInstances")]

    def until_bound(self, name: str, count: int) -> list[Json]:
        """The pods of a Job, when they run on nodes."""
        return self.arena.until_running(name, count)

    def check_message(self, job_name: str) -> str:
        """What Kueue shows for the Workload of a Job."""
        (found,) = [
            one
            for one in self.arena.all("Workload")
            if one["metadata"]["name"].startswith(f"job-{job_name}-")
        ]
        return " ".join(one.get("message", "") for one in found["status"].get("admissionChecks") or [])

    def delete(self, *names: str) -> None:
        """Deletes Jobs, and waits until nothing is left of them and of their nodes."""
        for name in names:
            self.arena.delete("Job", name)
        self.arena.until_empty(POOL)
        self.arena.until(lambda: not self.arena.instances(POOL), "no instance is left")
        free = {one: self.arena.free_slots(one) for one in (BLOCK, OPEN)}
        self.arena.until(lambda: self.arena.free_slots(BLOCK) == 3, f"the slots are free again: {free}")


def condition(obj: Json, type_: str) -> Json:
    found = obj.get("status", {}).get("conditions") or []
    return next((one for one in found if one["type"] == type_), {})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("kueue")
    opened = arenas.opened(folder, world(), "real", karpenter=False, server_flags=FLAGS, feature_gates=GATES)
    with opened as arena, kueue.running(arena, folder / "kueue"):
        made = Cluster(arena, folder)
        made.start_holdfast()
        run_section(arena, "Capacity")
        run_section(arena, "Queue")
        arena.patch("NodePool", POOL, SOON)
        yield made


# --- Jobs of Kueue ----------------------------------------------------------------------------------


def test_job_starts_when_all_of_its_nodes_in_the_block_are_ready(cluster: Cluster) -> None:
    arena = cluster.arena
    arena.create(job("train", 3, runs_s=10, maxRunDurationSeconds="7200"))
    request = cluster.request("train")
    assert request["spec"]["parameters"] == {
        "maxRunDurationSeconds": "7200",
        "together": "topology.kubernetes.io/zone",
    }
    provisioned = cluster.until_condition("train", "Provisioned")
    nodes, pods = arena.nodes(POOL), cluster.until_bound("train", 3)
    assert len(nodes) == 3
    assert all(
        condition(one, "Ready")["lastTransitionTime"] <= provisioned["lastTransitionTime"] for one in nodes
    )
    assert all(one["metadata"]["creationTimestamp"] >= provisioned["lastTransitionTime"] for one in pods)
    assert {one["spec"]["nodeName"] for one in pods} == {one["metadata"]["name"] for one in nodes}
    assert {one["metadata"]["annotations"][CONSUMES] for one in pods} == {request["metadata"]["name"]}
    assert {one["spec"]["nodeSelector"]["karpenter.k8s.aws/capacity-reservation-id"] for one in pods} == {
        BLOCK
    }
    assert cluster.run_instances() == [3]
    assert (cluster.in_slots(BLOCK), cluster.in_slots(OPEN)) == (3, 0)
    assert cluster.until_condition("train", "BookingExpired")["reason"] == "CapacityBookingConsumed"
    arena.until(lambda: is_true(arena.get("Job", "train") or {}, "Complete"), "the Job is complete")
    assert [one["metadata"]["name"] for one in cluster.requests("train")] == [request["metadata"]["name"]]
    cluster.delete("train")


def test_commands_of_the_guide_start_a_job_on_the_block(cluster: Cluster) -> None:
    run_section(cluster.arena, "A job")
    run_section(cluster.arena, "Why a job does not start")
    assert cluster.in_slots(BLOCK) == len(cluster.arena.running("llama")) == 2
    cluster.delete("llama")


def test_job_that_does_not_fit_gets_nothing_and_starts_when_the_reservation_grows(cluster: Cluster) -> None:
    arena = cluster.arena
    arena.create(job("large", 4))
    waits = cluster.until_condition("large", "Provisioned", "False")
    assert "only 3 of the 4 pods" in waits["message"]
    time.sleep(5)  # several plans
    assert not arena.claims(POOL)
    assert waits["message"] in cluster.check_message("large")
    arena.create(job("small", 2))
    cluster.until_bound("small", 2)
    assert not is_true(cluster.request("large"), "Provisioned")
    arena.aws("ModifyCapacityReservation", CapacityReservationId=OPEN, InstanceCount=4)
    cluster.until_condition("large", "Provisioned")
    assert cluster.in_slots(OPEN) == 4
    nodes = {one["spec"]["nodeName"] for one in cluster.until_bound("large", 4)}
    assert len(nodes) == 4
    assert nodes.isdisjoint(one["spec"]["nodeName"] for one in arena.running("small"))
    cluster.delete("large", "small")


def test_job_that_runs_longer_than_the_block_waits(cluster: Cluster) -> None:
    arena = cluster.arena
    long = job("long", 3, maxRunDurationSeconds="10800")
    long["spec"]["template"]["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    arena.create(long)
    waits = cluster.until_condition("long", "Provisioned", "False")
    assert "ends too soon" in waits["message"], waits
    assert not arena.claims(POOL)
    cluster.delete("long")


def test_nothing_is_left_in_the_block_when_another_account_takes_a_slot_before_the_launch(
    cluster: Cluster,
) -> None:
    arena = cluster.arena
    region = arena.sandbox.cloud.ec2.region
    arena.now(lambda: region.faults.add(faults.Taken(reservation_id=BLOCK, times=1)))
    arena.create(job("raced", 3))
    arena.until(lambda: arena.calls("RunInstances", "ReservationCapacityExceeded"), "EC2 refused the launch")
    cluster.until_condition("raced", "Provisioned")
    assert (cluster.in_slots(BLOCK), cluster.in_slots(OPEN)) == (0, 3)
    cluster.until_bound("raced", 3)
    assert cluster.request("raced")["metadata"]["name"].endswith("-1"), "it is still the first attempt"
    arena.now(lambda: control.give(region, BLOCK, 1))
    cluster.delete("raced")


def test_workload_that_is_evicted_gets_new_capacity_when_it_is_admitted_again(cluster: Cluster) -> None:
    arena = cluster.arena
    arena.create(job("evicted", 3))
    cluster.until_bound("evicted", 3)
    (workload,) = arena.all("Workload")
    arena.patch("Workload", workload["metadata"]["name"], {"spec": {"active": False}})
    cluster.until_condition("evicted", "BookingExpired")
    arena.until_empty(POOL)
    arena.patch("Workload", workload["metadata"]["name"], {"spec": {"active": True}})
    arena.until(
        lambda: any(one["metadata"]["name"].endswith("-2") for one in cluster.requests("evicted")),
        "Kueue makes a second attempt",
    )
    cluster.until_bound("evicted", 3)
    assert cluster.in_slots(BLOCK) == 3
    cluster.delete("evicted")


@pytest.mark.parametrize("after", ["Accepted", "NodeClaims", "Instances"])
def test_job_starts_after_a_crash(cluster: Cluster, after: str) -> None:
    arena, name = cluster.arena, f"crashed-{after.lower()}"
    reached = {
        "Accepted": lambda: is_true(cluster.request(name), "Accepted"),
        "NodeClaims": lambda: arena.claims(POOL),
        "Instances": lambda: arena.instances(POOL),
    }
    arena.create(job(name, 3))
    arena.until(reached[after], f"{after} are there")
    cluster.restart_holdfast()
    cluster.until_condition(name, "Provisioned")
    cluster.until_bound(name, 3)
    assert len(arena.instances(POOL)) == len(arena.claims(POOL)) == cluster.in_slots(BLOCK) == 3
    assert cluster.request(name)["metadata"]["name"].endswith("-1")
    cluster.delete(name)


# --- Native gangs of Kubernetes -----------------------------------------------------------------------


def test_job_without_kueue_is_a_gang_of_kubernetes(cluster: Cluster) -> None:
    """The Job controller creates the PodGroup, and kube-scheduler binds all pods at once."""
    arena = cluster.arena
    arena.create(job("native", 3, queue=""))
    pods = cluster.until_bound("native", 3)
    assert {one["spec"]["schedulingGroup"]["podGroupName"] for one in pods} == {
        one["metadata"]["name"] for one in arena.all("PodGroup")
    }
    assert len(arena.claims(POOL)) == len(arena.instances(POOL)) == 3
    cluster.delete("native")


def test_no_node_is_launched_for_a_gang_that_does_not_fit(cluster: Cluster) -> None:
    arena = cluster.arena
    arena.create(job("wide", 8, queue=""))
    arena.until(
        lambda: (
            len(
                [
                    one
                    for one in arena.all("Pod")
                    if condition(one, "PodScheduled").get("reason") == "Unschedulable"
                ]
            )
            == 8
        ),
        "kube-scheduler tried every pod",
    )
    time.sleep(15)  # a plan is made every ten seconds
    assert not arena.claims(POOL)
    assert not arena.instances(POOL)
    cluster.delete("wide")
