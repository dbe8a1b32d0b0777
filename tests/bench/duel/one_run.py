"""One run: a new real control plane, a new simulated EC2, one program, the story, and the figures.

The program is a process with a service account of its own, so the audit log of kube-apiserver shows its requests. Both
have leader election, as in their charts, and all other settings are their defaults.
"""

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import bench_live
from bench.duel import measures, requests, settings
from bench.duel.checks import checks
from bench.duel.recording import Recording
from bench.duel.story import Story
from holdfast.sim import control_plane
from holdfast.sim.api.serving.http import HOST
from holdfast.sim.ids import SeededIds
from peers import arena as arenas
from peers.arena import Arena, Json, is_true

NAMESPACE: Final = "kube-system"
ACCOUNT: Final = "autoscaler"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
# The name of the process, its flags, and its variables beside those of the sandbox.
PROGRAMS: Final = {
    "karpenter": ("karpenter-aws", (), {"FEATURE_GATES": "ReservedCapacity=true"}),
    "holdfast": ("holdfast", ("run",), {"BIND_ADDRESS": HOST, "API_PORT": "0"}),
}
NANO: Final = 1e9
UNRESERVED: Final = ("on-demand", "spot")


@dataclass(frozen=True)
class Usage:
    """What the process has used since its start."""

    cpu_s: float
    peak_mib: float


def run(program: str, folder: Path, *, seconds: float, seed: int) -> Json:
    """Runs the story with one program. The folder is new; logs stay in it."""
    audit = folder / "audit.json"
    audit.write_text(json.dumps(requests.policy(USER)), encoding="utf-8")
    flags = (f"--audit-policy-file={audit}", f"--audit-log-path={folder / 'audit.log'}")
    ids = SeededIds(f"duel {seed}")
    with arenas.opened(folder, settings.WORLD, "real", karpenter=False, server_flags=flags, ids=ids) as arena:
        arena.create(*service_account(), *settings.node_classes(), *settings.node_pools())
        start(program, arena, folder)
        arena.until(
            lambda: all(is_true(one, "Ready") for one in arena.all("NodePool")), "the NodePools are ready"
        )
        time.sleep(settings.SETTLED_S)
        return measured(program, arena, folder, scale=seconds / settings.SECONDS)


def service_account() -> list[Json]:
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def start(program: str, arena: Arena, folder: Path) -> None:
    name, flags, more = PROGRAMS[program]
    kubeconfig = folder / "autoscaler.kubeconfig"
    kubeconfig.touch(mode=0o600)
    token = arena.token_of(ACCOUNT, NAMESPACE)
    kubeconfig.write_text(arena.sandbox.address.kubeconfig(token), encoding="utf-8")
    metrics, health = control_plane.free_ports(2)
    environ = arena.sandbox.environment() | {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "KUBECONFIG": str(kubeconfig),
        "LEADER_ELECTION_NAMESPACE": NAMESPACE,
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
    }
    del environ["DISABLE_LEADER_ELECTION"]
    arena.start(name, *flags, environ=environ | more, port=health)


def usage(program: str) -> Usage:
    name = PROGRAMS[program][0]
    (found,) = [(pid, cpu_s) for (pid, comm), cpu_s in bench_live.used().items() if comm == name]
    return Usage(found[1], bench_live.peak_mib(found[0]))


@contextlib.contextmanager
def recording(arena: Arena) -> Iterator[Recording]:
    recorded = Recording(arena.sandbox)
    arena.do(recorded.start())
    try:
        yield recorded
    finally:
        arena.do(recorded.stop())


def measured(program: str, arena: Arena, folder: Path, *, scale: float) -> Json:
    log = folder / "audit.log"
    with recording(arena) as recorded:
        before, offset, began_s = usage(program), log.stat().st_size, int(time.time())
        story = Story(arena, scale)
        story.run()
        after, ended_s, end_s = usage(program), int(time.time()), time.monotonic()
        asked = requests.read(log, offset)
    ledger = arena.sandbox.cloud.ec2.region.ledger
    costs = arena.now(lambda: ledger.nano_usd(began_s, ended_s, tag=settings.POOL_TAG))
    calls = arena.now(lambda: [one for one in arena.sandbox.cloud.endpoint.log if one.at_s >= began_s])
    dollars = {
        f"{kind} {pool}": nano / NANO
        for (kind, pool), nano in sorted(costs.items())
        if pool and kind in UNRESERVED
    }
    return {
        "program": program,
        "seconds": round(end_s - story.began_s, 1),
        "rows": figures(recorded, story, asked, end_s)
        | {
            "dollars": sum(dollars.values()),
            "api_requests": len(asked),
            "aws_calls": len(calls),
            "cpu_s": after.cpu_s - before.cpu_s,
            "peak_mib": after.peak_mib,
        },
        "dollars": dollars,
        "api_requests": requests.by_verb(asked),
        "aws_calls": dict(sorted(Counter(f"{one.service} {one.operation}" for one in calls).items())),
        "start_cpu_s": before.cpu_s,
        "steps": story.done,
        "checks": checks(recorded, story, arena.all("NodeClaim")),
        "waits": waits(recorded, end_s),
        "samples": [sample(one, story.began_s) for one in recorded.samples],
    }


def figures(
    recorded: Recording, story: Story, asked: list[requests.Request], end_s: float
) -> dict[str, float]:
    waited = [one.waited_s(end_s) for one in recorded.pods.values()]
    evicted = requests.evicted(asked)
    node_of = {one.name: one.node for one in recorded.pods.values()}
    disrupted = {recorded.instance_of_node.get(node_of.get(pod, ""), "") for pod in evicted} - {""}
    in_block = {one for one, where in recorded.reservation_of.items() if where == settings.BLOCK}
    return {
        "idle_slot_hours": measures.idle_slot_hours(recorded.samples),
        "needed_idle_slot_hours": measures.needed_idle_slot_hours(recorded.samples),
        "wait_p50_s": measures.percentile(waited, 50),
        "wait_p99_s": measures.percentile(waited, 99),
        "wait_longest_s": max(waited, default=0.0),
        "pods_created": len(waited),
        "pods_never_run": sum(one.never_ran for one in recorded.pods.values()),
        "pods_evicted": len(evicted),
        "pods_lost": len(recorded.lost),
        "nodes_disrupted": len(disrupted - story.interrupted - in_block),
        "instances_launched": len(recorded.launched),
        "instances_ended": len(recorded.ended),
        "slots_oversold": max(one.oversold for one in recorded.samples),
    }


def waits(recorded: Recording, end_s: float) -> dict[str, list[float]]:
    """Seconds that the pods of each workload waited, in the order of their creation."""
    ordered = sorted(recorded.pods.values(), key=lambda one: one.created_s)
    return {
        app: [round(one.waited_s(end_s), 1) for one in ordered if one.app == app] for app in settings.APPS
    }


def sample(one: measures.Sample, began_s: float) -> dict[str, Any]:
    return {
        "at": round(one.at_s - began_s, 1),
        "free": measures.idle_slots(one),
        "needed": measures.needed_slots(one),
        "outside": dict(one.outside),
        "pods_outside": dict(one.pods_outside),
        "in_reservation": dict(one.in_reservation),
        "nodes": dict(one.nodes),
        "ready": dict(one.ready),
    }
