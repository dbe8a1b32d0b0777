"""A cluster for `make e2e-install`: a real control plane, two real kubelets, and a simulated AWS.

`Installation` has the tools of an operator, and reads the state of the cluster and of the simulated EC2. The modules
`upgrade` and `walkthrough` have the steps.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

import aws_environment
import build_peers
import fetch_kubectl
import process_environment
from holdfast.app import sandbox
from holdfast.app.sandbox import ControlPlane, Sandbox
from holdfast.runtime import lease
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import control_plane
from holdfast.sim.cloud_setup import CloudSetup, Reserved, access_key
from install import images, kubelets

PROGRAMS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet")
CLUSTER: Final = "demo"  # as in docs/install.md
NODE_ROLE: Final = f"KarpenterNodeRole-{CLUSTER}"
DISCOVERY: Final = {
    "karpenter.sh/discovery": CLUSTER
}  # tag of subnets, security groups and WALKTHROUGH_SLOTS
SLOTS: Final = "cr-0000000000000000a"
WALKTHROUGH_SLOTS: Final = "cr-0000000000000000b"
REPLICAS: Final = 2
LEASE: Final = lease.NAME
_WITHIN_S: Final = 180.0
_TOTAL: Final = {SLOTS: 8, WALKTHROUGH_SLOTS: 2}


@dataclass(frozen=True)
class Version:
    """A version of Holdfast: the tag of its image, and its charts."""

    tag: str
    charts: Path

    @property
    def image(self) -> str:
        return f"{images.HOLDFAST}:{self.tag}"


class Installation:
    def __init__(self, env: Sandbox, folder: Path, nodes: tuple[kubelets.Node, ...], namespace: str) -> None:
        self.env = env
        self.folder = folder
        self.nodes = nodes
        self.namespace = namespace

    def within(self, namespace: str) -> "Installation":
        """The same cluster, for a release in another namespace."""
        return Installation(self.env, self.folder, self.nodes, namespace)

    # --- The operator -------------------------------------------------------------------------------

    def helm(self, *words: str) -> str:
        return self.tool(fetch_kubectl.helm(), "--namespace", self.namespace, *words)

    def kubectl(self, *words: str) -> str:
        return self.tool(fetch_kubectl.kubectl(), *words)

    def get(self, *words: str) -> Any:
        return json.loads(self.kubectl("get", "-o", "json", *words))

    def install_crds(self, version: Version) -> None:
        chart = str(version.charts / "holdfast-crd")
        self.helm("upgrade", "--install", "holdfast-crd", chart, "--create-namespace", "--wait")

    def install(self, version: Version, **more: str) -> None:
        values = self.folder / "values.yaml"
        values.write_text(yaml.safe_dump(self.values(version)), encoding="utf-8")
        flags = [word for key, value in more.items() for word in ("--set", f"{key}={value}")]
        chart = str(version.charts / "holdfast")
        command = ("upgrade", "--install", "holdfast", chart, "--skip-crds", "--create-namespace")
        self.helm(*command, "--wait", "--timeout", "180s", "--values", str(values), *flags)

    def values(self, version: Version) -> dict[str, Any]:
        about = self.env.cloud.about
        return {
            "image": {"repository": images.HOLDFAST, "tag": version.tag},
            "imagePullPolicy": "Never",
            "replicas": REPLICAS,
            "logLevel": "debug",
            "controller": {
                "env": [{"name": key, "value": value} for key, value in self.aws_variables().items()],
                "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
            },
            "settings": {
                "clusterName": about.cluster,
                "awsRegion": about.region,
                "interruptionQueue": self.env.cloud.queue,
            },
        }

    def aws_variables(self) -> dict[str, str]:
        """For the simulated AWS, inside a pod."""
        return {
            "AWS_ENDPOINT_URL": f"http://{kubelets.AWS_SERVICE}",
            "AWS_ACCESS_KEY_ID": access_key(self.env.cloud.about.account),
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def tool(self, program: Path, *words: str, cwd: Path | None = None, **environ: str) -> str:
        """Standard output of a command that must succeed."""
        done = subprocess.run(
            [str(program), *words],
            env={**os.environ, "KUBECONFIG": str(self.env.kubeconfig), **environ},
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.folder,
        )
        if done.returncode:
            raise RuntimeError(
                f"{program.name} {' '.join(words)}:\n{done.stdout[-2000:]}{done.stderr[-3000:]}"
            )
        return done.stdout

    # --- The state ----------------------------------------------------------------------------------

    def controller_pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(
            "pods", "-n", self.namespace, "-l", "app.kubernetes.io/name=holdfast"
        )["items"]
        return found

    def leader(self) -> dict[str, Any]:
        holder = self.get("lease", "-n", self.namespace, LEASE)["spec"].get("holderIdentity", "")
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

    def launched(self) -> set[str]:
        """All instances that were ever launched, also those that are terminated."""
        return {one.id for one in self.env.cloud.ec2.region.instances}

    def pods(self, app: str) -> dict[str, str]:
        """The running pods of an app by uid, with their nodes."""
        pods = self.get("pods", "-l", f"app={app}")["items"]
        return {
            pod["metadata"]["uid"]: pod["spec"]["nodeName"]
            for pod in pods
            if pod["status"]["phase"] == "Running"
        }

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _WITHIN_S
        while not await asyncio.to_thread(holds):
            self.env.check()
            if time.monotonic() > end:
                raise AssertionError(f"not within {_WITHIN_S:.0f} s: {what}")
            await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def running(
    folder: Path, archives: Sequence[Path], names: Mapping[str, str], namespace: str
) -> AsyncIterator[Installation]:
    """The cluster with two ready nodes that have these images, also by other names, and without CRDs."""
    reserved = Reserved(
        instance_type="m5.large", zone_id=aws_environment.ZONE_A, total=0, criteria="targeted"
    )
    reservations = tuple(
        replace(reserved, id=name, total=total, tags=DISCOVERY if name == WALKTHROUGH_SLOTS else {})
        for name, total in _TOTAL.items()
    )
    (folder / "sandbox").mkdir()
    plan = sandbox.Plan(
        folder=folder / "sandbox",
        setup=CloudSetup(cluster=CLUSTER, roles=(NODE_ROLE,), reservations=reservations),
        timings=process_environment.QUICK,
        control_plane=ControlPlane.REAL,
        crds=False,
        find=build_peers.binary,
    )
    began = time.monotonic()
    async with sandbox.running(plan, clock=RealClock(), ids=RealIds()) as env:
        with contextlib.ExitStack() as stack:
            nodes = kubelets.nodes(folder)
            await asyncio.to_thread(_start_nodes, env, folder, nodes, stack, archives, names)
            it, passed = Installation(env, folder, nodes, namespace), False
            try:
                await it.until(lambda: _ready_nodes(it) == len(it.nodes), "both nodes are ready")
                report("control plane and two kubelets", began)
                yield it
                passed = True
            finally:
                if not passed:
                    _show(it)


def _start_nodes(
    env: Sandbox,
    folder: Path,
    nodes: tuple[kubelets.Node, ...],
    stack: contextlib.ExitStack,
    archives: Sequence[Path],
    names: Mapping[str, str],
) -> None:
    port, aws_port = (int(url.rpartition(":")[2]) for url in (env.address.url, env.aws_url))
    kubelets.rewrite(port, aws_port)
    kubeconfig = folder / "kubelet.kubeconfig"
    text = env.kubeconfig.read_text(encoding="utf-8")
    kubeconfig.write_text(
        text.replace(env.address.url, f"https://{control_plane.SERVICE_ADDRESS}:443"), encoding="utf-8"
    )
    for node in nodes:
        node.folder.mkdir()
        stack.enter_context(
            kubelets.running(
                node,
                kubelet=build_peers.binary("kubelet"),
                kubeconfig=kubeconfig,
                images=archives,
                names=names,
            )
        )


def without_status(document: Mapping[str, Any]) -> dict[str, Any]:
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
    report(step, began)


def report(step: str, began: float) -> None:
    print(f"| {step} | {time.monotonic() - began:.1f} s |", flush=True)
