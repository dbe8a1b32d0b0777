"""A cluster that moves from the real Karpenter to Holdfast and back, on a real control plane.

`Fleet` starts and stops the two programs in one sandbox, and records what must not change: instances, pods, cordons.
`documents` reads all objects of both sides, so that two moments can be compared field by field.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

import build_peers
from holdfast.api import crds
from holdfast.app import sandbox
from holdfast.app.adoption import differences
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane as planes
from holdfast.sim.api.serving.http import HOST
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.processes import Health, Processes
from peers import crd_files
from peers.arena import Arena, Json

KARPENTER: Final = "karpenter-aws"
HOLDFAST: Final = "holdfast"
NAMESPACE: Final = "kube-system"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DISRUPTED: Final = "karpenter.sh/disrupted"
_VOLATILE: Final = ("managedFields", "images")  # large, and not written by an autoscaler


@dataclass(eq=False)
class Fleet:
    """The cluster, its instances and the autoscaler that runs now."""

    arena: Arena
    folder: Path
    _running: Processes | None = None
    _starts: int = 0

    # --- Programs -----------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Starts one of the two programs with leader election, and waits until it is ready."""
        self._starts += 1
        home = self.folder / f"{self._starts}-{name}"
        home.mkdir()
        metrics, health = planes.free_ports(2)
        environ = self._environment() | {
            "LEADER_ELECTION_NAMESPACE": NAMESPACE,
            "METRICS_PORT": str(metrics),
            "HEALTH_PROBE_PORT": str(health),
            "API_PORT": "0",
            "HOME": str(home),
        }
        self._running = Processes(home, RealClock(), _program)
        if name == HOLDFAST:
            flags, more = ["-m", "holdfast", "run"], {"BIND_ADDRESS": HOST, "LOG_FORMAT": "json"}
        else:
            flags, more = [], {"LOG_LEVEL": "debug"}
        ready = Health(f"http://{HOST}:{health}/readyz")
        self.arena.do(self._running.start(name, *flags, health=ready, environ=environ | more))

    def check_adoption(self, seconds: int) -> list[Json]:
        """The results of `holdfast adopt --check`."""
        command = [
            sys.executable,
            "-m",
            "holdfast",
            "adopt",
            "--check",
            f"--seconds={seconds}",
            "--output=json",
        ]
        ended = subprocess.run(  # noqa: S603 - our own program
            command, env=self._environment(), capture_output=True, check=False, text=True
        )
        assert ended.stdout, ended.stderr
        results: list[Json] = json.loads(ended.stdout)["results"]
        return results

    def _environment(self) -> dict[str, str]:
        found = self.arena.sandbox.environment() | {"PATH": os.environ["PATH"]}
        del found["DISABLE_LEADER_ELECTION"]
        return found

    def stop(self, *, kill: bool = False) -> None:
        """Stops the running program with SIGTERM, as a Deployment that is scaled to zero does, or kills it."""
        if self._running is not None:
            self.arena.do(self._running.stop(kill=kill))
            self._running = None

    def check(self) -> None:
        assert self._running is not None
        self._running.check()

    def log(self) -> str:
        assert self._running is not None
        return "\n".join(
            self._running.log(name).read_text(encoding="utf-8")
            for name in (KARPENTER, HOLDFAST)
            if self._running.log(name).exists()
        )

    # --- CRDs ---------------------------------------------------------------------------------------

    def apply_crds(self, definitions: Iterable[Json]) -> None:
        """As `kubectl apply --server-side --force-conflicts`. Waits until all are served: Karpenter does not work if it
        starts earlier."""
        applied = list(definitions)
        for definition in applied:
            answer = self.arena.do(
                self.arena.sandbox.transport.request(
                    "PATCH",
                    f"{DEFINITIONS}/{definition['metadata']['name']}",
                    {"fieldManager": "kubectl", "force": "true"},
                    {"content-type": "application/apply-patch+yaml"},
                    msgspec.json.encode(definition),
                )
            )
            assert answer.status < 300, answer.body
        self.arena.do(sandbox.install(applied, self.arena.sandbox.transport, RealClock()))

    def move(self, name: str) -> None:
        """Stops the running program, applies the CRDs of the other one over the existing ones, and starts it."""
        self.stop()
        self.apply_crds(crds.all_crds() if name == HOLDFAST else crd_files.of_provider())
        self.start(name)

    # --- State --------------------------------------------------------------------------------------

    def instances(self) -> dict[str, Instance]:
        """Pending and running instances, by id."""
        region = self.arena.sandbox.cloud.ec2.region
        return self.arena.now(lambda: {one.id: one for one in region.instances if one.is_pending_or_running})

    def launched(self, pool: str) -> list[Instance]:
        """The instances of a NodePool in any state."""
        found = self.arena.now(lambda: list(self.arena.sandbox.cloud.ec2.region.instances))
        return [one for one in found if one.tags.get("karpenter.sh/nodepool") == pool]

    def documents(self) -> dict[str, Json]:
        """Objects of the API server and of AWS, by kind and name, without fields that change by themselves."""
        kinds = ("NodePool", "EC2NodeClass", "NodeClaim", "Node")
        found = {f"{kind}/{one['metadata']['name']}": one for kind in kinds for one in self.arena.all(kind)}
        cloud = self.arena.sandbox.cloud

        def aws() -> dict[str, Json]:
            region, iam = cloud.ec2.region, msgspec.msgpack.decode(cloud.iam.dump())
            entities: dict[str, Any] = {
                f"Instance/{one.id}": one for one in region.instances if one.is_pending_or_running
            }
            entities |= {f"LaunchTemplate/{one.name}": one for one in region.templates}
            entities |= {f"InstanceProfile/{one['name']}": one for one in iam["profiles"]}
            return {key: msgspec.to_builtins(one) for key, one in entities.items()}

        return {key: _without_volatile(one) for key, one in (found | self.arena.now(aws)).items()}

    def watch(self, seconds: float) -> "Observed":
        """Records what changes, every second."""
        schedulable = {
            one["metadata"]["name"] for one in self.arena.all("Node") if not is_cordoned(one)
        }  # pods of a node that drains are evicted
        pods = [pod for pod in self.arena.all("Pod") if pod["spec"].get("nodeName") in schedulable]
        observed = Observed(set(self.instances()), _uids(pods))
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            self.arena.now(self.arena.check)
            self.check()
            observed.note(self)
            time.sleep(1)
        return observed


@dataclass(eq=False)
class Observed:
    """What happened to nodes and pods since a moment."""

    instances: set[str]
    pods: dict[str, str] = field(repr=False)  # names, by uid
    terminated: set[str] = field(default_factory=set)
    launched: set[str] = field(default_factory=set)
    gone_pods: dict[str, str] = field(default_factory=dict)
    cordoned: set[str] = field(default_factory=set)  # nodes that became unschedulable or tainted as disrupted
    deleted_claims: set[str] = field(default_factory=set)

    def note(self, fleet: Fleet) -> None:
        now = set(fleet.instances())
        self.terminated |= self.instances - now
        self.launched |= now - self.instances
        uids = _uids(fleet.arena.all("Pod"))
        self.gone_pods |= {uid: name for uid, name in self.pods.items() if uid not in uids}
        self.cordoned |= {one["metadata"]["name"] for one in fleet.arena.all("Node") if is_cordoned(one)}
        self.deleted_claims |= {
            one["metadata"]["name"]
            for one in fleet.arena.all("NodeClaim")
            if "deletionTimestamp" in one["metadata"]
        }


@contextlib.contextmanager
def stopped_at_end(fleet: Fleet) -> Iterator[Fleet]:
    try:
        yield fleet
    finally:
        fleet.stop()


def is_cordoned(node: Json) -> bool:
    spec = node["spec"]
    return spec.get("unschedulable", False) or any(t["key"] == DISRUPTED for t in spec.get("taints") or ())


def _program(name: str) -> Path:
    return Path(sys.executable) if name == HOLDFAST else build_peers.binary(name)


def _uids(pods: list[Json]) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_volatile(one) for key, one in value.items() if key not in _VOLATILE}
    return [_without_volatile(one) for one in value] if isinstance(value, list | tuple) else value


# --- Differences ------------------------------------------------------------------------------------


def changed(before: dict[str, Json], after: dict[str, Json]) -> dict[str, list[str]]:
    """Every field that differs, as `Kind path: what happened`, with the objects where it differs."""
    found: dict[str, list[str]] = {}
    for key in sorted(before.keys() | after.keys()):
        kind, _, name = key.partition("/")
        if key not in after or key not in before:
            found.setdefault(f"{kind} object: {'removed' if key in before else 'added'}", []).append(name)
            continue
        for one in differences.of(before[key], after[key]):
            found.setdefault(f"{kind} {one.path}: {one.what}", []).append(
                f"{name}: {one.before!r} -> {one.after!r}"
            )
    return found
