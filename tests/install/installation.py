"""The steps of `make e2e-install`: each acts as an operator does and then checks the cluster and the simulated EC2."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

import aws_environment
import build_peers
import builders
import cluster_environment
import fetch_kubectl
import process_environment
from holdfast.app import sandbox
from holdfast.app.sandbox import ControlPlane, Sandbox
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import control_plane
from holdfast.sim.cloud_setup import CloudSetup, Reserved, access_key
from install import images, kubelets

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
CHARTS: Final = Path(__file__).resolve().parents[2] / "charts"
NAMESPACE: Final = "holdfast-system"
REPLICAS: Final = 2
SLOTS: Final = 4
_WITHIN_S: Final = 180.0
APART: Final = {"apart": "true"}
_LEASE: Final = "holdfast-leader-election"


class Installation:
    def __init__(self, env: Sandbox, folder: Path, nodes: tuple[kubelets.Node, ...]) -> None:
        self.env = env
        self.folder = folder
        self.nodes = nodes

    # --- The operator -------------------------------------------------------------------------------

    def helm(self, *words: str) -> str:
        return self._tool(fetch_kubectl.helm(), "--namespace", NAMESPACE, *words)

    def kubectl(self, *words: str) -> str:
        return self._tool(fetch_kubectl.kubectl(), *words)

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", "-o", "json", *words))

    def install(self, tag: str, **more: str) -> None:
        values = self.folder / "values.yaml"
        values.write_text(yaml.safe_dump(self.values(tag)), encoding="utf-8")
        flags = [word for key, value in more.items() for word in ("--set", f"{key}={value}")]
        command = (
            "upgrade",
            "--install",
            "holdfast",
            str(CHARTS / "holdfast"),
            "--skip-crds",
            "--create-namespace",
        )
        self.helm(*command, "--wait", "--timeout", "180s", "--values", str(values), *flags)

    def values(self, tag: str) -> dict[str, Any]:
        about = self.env.cloud.about
        aws = {
            "AWS_ENDPOINT_URL": f"http://{kubelets.AWS_SERVICE}",
            "AWS_ACCESS_KEY_ID": access_key(about.account),
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        return {
            "image": {"repository": images.HOLDFAST, "tag": tag},
            "imagePullPolicy": "Never",
            "replicas": REPLICAS,
            "logLevel": "debug",
            "controller": {
                "env": [{"name": key, "value": value} for key, value in aws.items()],
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
            },
            "settings": {
                "clusterName": about.cluster,
                "awsRegion": about.region,
                "interruptionQueue": self.env.cloud.queue,
            },
        }

    def _tool(self, program: Path, *words: str) -> str:
        environ = os.environ | {"KUBECONFIG": str(self.env.kubeconfig)}
        done = subprocess.run(
            [str(program), *words], env=environ, capture_output=True, text=True, check=False, cwd=self.folder
        )
        if done.returncode:
            raise RuntimeError(
                f"{program.name} {' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
            )
        return done.stdout

    # --- The state ----------------------------------------------------------------------------------

    def controller_pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(
            "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=holdfast"
        )["items"]
        return found

    def leader(self) -> dict[str, Any]:
        holder = self.get("lease", "-n", NAMESPACE, _LEASE)["spec"].get("holderIdentity", "")
        logs = {pod["metadata"]["name"]: self.log(pod) for pod in self.controller_pods()}
        return next(
            pod for pod in self.controller_pods() if holder and holder in logs[pod["metadata"]["name"]]
        )

    def log(self, pod: dict[str, Any]) -> str:
        """Read from the kubelet's files: the API server has no client certificate for kubelets."""
        folders = [node.folder / "logs" for node in self.nodes]
        uid = pod["metadata"]["uid"]
        files = sorted(path for folder in folders for path in folder.glob(f"*_{uid}/*/*.log"))
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    def instances(self) -> dict[str, str]:
        """The instances that run or start, with their reservation."""
        found = self.env.cloud.ec2.region.instances
        return {one.id: one.reservation_id or "" for one in found if one.is_pending_or_running}

    def running(self, app: str) -> int:
        pods = self.get("pods", "-l", f"app={app}")["items"]
        return sum(pod["status"]["phase"] == "Running" for pod in pods)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _WITHIN_S
        while not await asyncio.to_thread(holds):
            self.env.check()
            if time.monotonic() > end:
                raise AssertionError(f"not within {_WITHIN_S:.0f} s: {what}")
            await asyncio.sleep(0.5)


async def run(folder: Path, tags: list[str]) -> int:
    reserved = Reserved(
        instance_type="m5.large", zone_id=aws_environment.ZONE_A, total=SLOTS, criteria="targeted"
    )
    plan = sandbox.Plan(
        folder=_made(folder / "sandbox"),
        setup=CloudSetup(reservations=(reserved,)),
        timings=process_environment.QUICK,
        control_plane=ControlPlane.REAL,
        crds=False,
        find=build_peers.binary,
    )
    began = time.monotonic()
    async with sandbox.running(plan, clock=RealClock(), ids=RealIds()) as env:
        with contextlib.ExitStack() as stack:
            nodes = kubelets.nodes(folder)
            await asyncio.to_thread(_start_nodes, env, folder, nodes, stack, tags)
            _print("control plane and two kubelets", began)
            it, passed = Installation(env, folder, nodes), False
            try:
                await _steps(it, tags)
                passed = True
            finally:
                if not passed:
                    _show(it)
    return 0


def _start_nodes(
    env: Sandbox, folder: Path, nodes: tuple[kubelets.Node, ...], stack: contextlib.ExitStack, tags: list[str]
) -> None:
    port, aws_port = (int(url.rpartition(":")[2]) for url in (env.address.url, env.aws_url))
    kubelets.rewrite(port, aws_port)
    kubeconfig = folder / "kubelet.kubeconfig"
    text = env.kubeconfig.read_text(encoding="utf-8")
    kubeconfig.write_text(
        text.replace(env.address.url, f"https://{control_plane.SERVICE_ADDRESS}:443"), encoding="utf-8"
    )
    archives = [folder / f"holdfast-{tag}.tar" for tag in tags] + [folder / "pause-1.tar"]
    for node in nodes:
        node.folder.mkdir()
        stack.enter_context(
            kubelets.running(
                node, kubelet=build_peers.binary("kubelet"), kubeconfig=kubeconfig, images=archives
            )
        )


async def _steps(it: Installation, tags: list[str]) -> None:
    await it.until(lambda: _ready_nodes(it) == len(it.nodes), "both nodes are ready")
    with timed("CRDs installed"):
        await asyncio.to_thread(
            it.helm,
            "upgrade",
            "--install",
            "holdfast-crd",
            str(CHARTS / "holdfast-crd"),
            "--create-namespace",
            "--wait",
        )
    with timed("helm install --wait"):
        await asyncio.to_thread(it.install, tags[0])
    pods = it.controller_pods()
    assert len(pods) == REPLICAS
    assert len({pod["spec"]["nodeName"] for pod in pods}) == REPLICAS, "the replicas are on two nodes"

    with timed("two pods of a deployment run in paid slots"):
        await it.env.create(_without_status(builders.ec2nodeclass_document("default", **_class_spec(it.env))))
        await it.env.create(builders.nodepool_document("default"))
        await _deploy(it, "web", 2)
        await it.until(lambda: it.running("web") == 2, "two pods run")
    before = it.instances()
    assert len(before) == 2
    assert all(before.values()), f"every instance is in a slot: {before}"

    with timed("the leader is killed, and a pod gets a node"):
        leader = it.leader()
        node = next(one for one in it.nodes if one.name == leader["spec"]["nodeName"])
        await asyncio.to_thread(kubelets.kill_container, node, leader["metadata"]["uid"])
        await _deploy(it, "late", 1)
        await it.until(lambda: it.running("late") == 1, "the pod runs")
    before = _grown(it, before)

    with timed("helm upgrade --wait"):
        await asyncio.to_thread(it.install, tags[-1], **{"podAnnotations.step": "upgraded"})
    assert it.instances() == before
    with timed("helm rollback --wait"):
        await asyncio.to_thread(it.helm, "rollback", "holdfast", "--wait", "--timeout", "180s")
    assert it.instances() == before
    with timed("a pod gets a node after the rollback"):
        await _deploy(it, "after", 1)
        await it.until(lambda: it.running("after") == 1, "the pod runs")
    before = _grown(it, before)

    with timed("helm uninstall"):
        await asyncio.to_thread(it.helm, "uninstall", "holdfast", "--wait", "--timeout", "120s")
    await it.until(lambda: not it.controller_pods(), "the controller is gone")
    await asyncio.sleep(5)
    assert it.instances() == before, "instances keep running"
    assert it.running("web") == 2
    assert it.get("nodeclaims")["items"], "NodeClaims stay"
    await asyncio.to_thread(it.helm, "uninstall", "holdfast-crd", "--wait")
    assert it.get("nodeclaims")["items"], "CRDs stay"


def _grown(it: Installation, before: dict[str, str]) -> dict[str, str]:
    """The instances: those of before, and a new one in a slot."""
    now = it.instances()
    assert before.items() <= now.items(), f"instances have changed: {before} to {now}"
    new = [now[instance] for instance in now.keys() - before.keys()]
    assert len(new) == 1, f"one new instance, in slots {new}"
    assert all(new), "the new instance is in a slot"
    return now


async def _deploy(it: Installation, name: str, replicas: int) -> None:
    """Every pod needs a node of its own."""
    term = {"labelSelector": {"matchLabels": APART}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    document = cluster_environment.workload(name, replicas=replicas, labels=APART, affinity=affinity)
    await it.env.create({"apiVersion": "apps/v1", "kind": "Deployment"} | document)


def _class_spec(env: Sandbox) -> dict[str, Any]:
    terms = {
        "subnetSelectorTerms": aws_environment.TERMS,
        "securityGroupSelectorTerms": aws_environment.TERMS,
    }
    slots = next(iter(env.cloud.ec2.region.reservations)).id
    return {"role": process_environment.ROLE, **terms, "capacityReservationSelectorTerms": [{"id": slots}]}


def _without_status(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "status"}


def _ready_nodes(it: Installation) -> int:
    conditions = [node["status"].get("conditions", ()) for node in it.get("nodes")["items"]]
    return sum(any(c["type"] == "Ready" and c["status"] == "True" for c in found) for found in conditions)


def _show(it: Installation) -> None:
    """What helps to find the cause of a failure."""
    for kind in ("nodes", "pods", "nodeclaims", "events"):
        with contextlib.suppress(RuntimeError):
            print(it.kubectl("get", kind, "-A", "-o", "wide"), file=sys.stderr)
    with contextlib.suppress(RuntimeError):
        for pod in it.controller_pods():
            print(f"--- {pod['metadata']['name']}\n{it.log(pod)[-4000:]}", file=sys.stderr)
    for node in it.nodes:
        for name in ("containerd", "kubelet"):
            log = (node.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
            print(f"--- {name} of {node.name}\n{log[-2000:]}", file=sys.stderr)


@contextlib.contextmanager
def timed(step: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    _print(step, began)


def _print(step: str, began: float) -> None:
    print(f"| {step} | {time.monotonic() - began:.1f} s |", flush=True)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
