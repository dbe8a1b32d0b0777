"""Runs the real Kueue beside a real control plane on loopback, without containers.

Its CRDs and webhooks are read from its Go modules, downloaded if needed. Called by `e2e_kueue`.
"""

import base64
import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

import build_peers
from holdfast.app import sandbox
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane
from holdfast.sim.api.serving import certificates
from holdfast.sim.api.serving.http import HOST
from holdfast.sim.processes import Health, Processes
from peers.arena import Arena

Json = dict[str, Any]
NAMESPACE: Final = "kueue-system"
# The webhooks of other kinds would refuse objects of programs that do not run here.
_HOOKED: Final = {"jobs", "workloads", "workloads/status", "clusterqueues", "cohorts", "resourceflavors"}
# CRDs of several versions; the API server cannot read their objects while Kueue does not run.
_CONVERTED: Final = {"localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"}
# Kueue reads certificates of its metrics at a path that cannot be set, even without metrics. It gets an overlay of /etc.
_PROGRAM: Final = """#!/bin/sh
exec unshare --mount {user} sh -c 'mount -t overlay overlay \\
  -o "lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work" /etc && exec "$0" "$@"' {binary} "$@"
"""


@contextlib.contextmanager
def running(arena: Arena, folder: Path) -> Iterator[None]:
    """Kueue with its CRDs and that of ProvisioningRequest, until the block ends."""
    folder.mkdir()
    tls = certificates.make(HOST)
    port, health = control_plane.free_ports(2)
    served = folder / "upper/kueue/metrics/certs"
    served.mkdir(parents=True)
    (folder / "work").mkdir()
    for name, text in (("tls.crt", tls.certificate), ("tls.key", tls.key)):
        (served / name).write_bytes(text)
    program, settings = folder / "kueue", folder / "settings.yaml"
    user = "" if os.geteuid() == 0 else "--map-root-user"
    binary = build_peers.binary("kueue")
    program.write_text(_PROGRAM.format(user=user, folder=folder, binary=binary), encoding="utf-8")
    program.chmod(0o755)
    settings.write_text(json.dumps(_settings(port, health, served)), encoding="utf-8")
    trust = base64.b64encode(tls.authority).decode()
    definitions = [*_provisioning_requests(), *_definitions(port, trust)]
    arena.do(sandbox.install(definitions, arena.sandbox.transport, RealClock()))
    arena.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *_webhooks(port, trust)
    )
    processes = Processes(folder, RealClock(), lambda _: program)
    environ = {**os.environ, "KUBECONFIG": str(arena.sandbox.kubeconfig)}
    ready = Health(f"http://{HOST}:{health}/readyz")
    try:
        arena.do(processes.start("kueue", f"--config={settings}", health=ready, environ=environ))
        yield
        arena.now(processes.check)
    finally:
        arena.do(processes.stop())


def _settings(port: int, health: int, served: Path) -> Json:
    """Kueue's configuration. Only Jobs are managed; features that need a Service or another cluster are off."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": HOST, "port": port, "certDir": str(served)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 50, "burst": 100},
        "integrations": {"frameworks": ["batch/job"]},
        "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False, "TopologyAwareScheduling": False},
    }


def _definitions(port: int, trust: str) -> Iterator[Json]:
    for path in sorted((_module("sigs.k8s.io/kueue") / "config/components/crd/bases").glob("*.yaml")):
        crd: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
        if crd["spec"]["names"]["plural"] in _CONVERTED:
            converts = {"clientConfig": _client(port, "/convert", trust), "conversionReviewVersions": ["v1"]}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": converts}
        yield crd


def _webhooks(port: int, trust: str) -> Iterator[Json]:
    path = _module("sigs.k8s.io/kueue") / "config/components/webhook/manifests.yaml"
    for configuration in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        configuration["metadata"]["name"] = f"kueue-{configuration['metadata']['name']}"
        configuration["webhooks"] = [
            one | {"clientConfig": _client(port, one["clientConfig"]["service"]["path"], trust)}
            for one in configuration["webhooks"]
            if _HOOKED & {resource for rule in one["rules"] for resource in rule["resources"]}
        ]
        yield configuration


def _provisioning_requests() -> Iterator[Json]:
    module = _module("k8s.io/autoscaler/cluster-autoscaler/apis")
    path = module / "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml"
    yield yaml.safe_load(path.read_text(encoding="utf-8"))


def _client(port: int, path: str, trust: str) -> Json:
    return {"url": f"https://{HOST}:{port}{path}", "caBundle": trust}


@cache
def _module(name: str) -> Path:
    download = subprocess.run(  # noqa: S603 - a command of our own
        ["go", "mod", "download", "-json", name],  # noqa: S607
        cwd=build_peers.PEERS / "kueue",
        env=os.environ | {"GOTOOLCHAIN": "auto"},
        check=True,
        capture_output=True,
    )
    return Path(json.loads(download.stdout)["Dir"])
