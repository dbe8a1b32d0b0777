"""Runs the tests that need real programs: `make e2e`.

First the contract tests of the Kube port and of the embedded API server on a real kube-apiserver. Then tests/peers:
Karpenter and the AWS CLI in the sandbox, Kubernetes' scheduler and controllers with the embedded API server,
Karpenter's scheduler compared with Holdfast's planner. Exit code 3 if the programs are missing and cannot be built.

With --oldest (`make e2e-oldest`) the control plane is that of the oldest Kubernetes that Holdfast supports, and only the
tests run that are about Holdfast: the others compare the simulations with the newest Kubernetes.

Real programs use real clocks, so a busy computer can delay them. Files with failed tests are run a second time alone, and
the output reports it: whole files, because tests of a file continue each other. Tests that fail twice fail the command.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import build_peers
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane, processes

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = (
    "test_kube_port.py",
    "test_kube_lists.py",
    "test_kube_pods.py",
    "test_kube_runtime.py",
    "test_kube_wire.py",
)
# On the oldest Kubernetes: tests of Holdfast on a real control plane, and the contract tests but those of what newer
# versions of Kubernetes do. Holdfast needs none of it.
ON_OLDEST = ("e2e_chart.py", "e2e_crds.py", "e2e_doctor.py", "e2e_holdfast.py")
NEWER = (
    # Kubernetes 1.30 does not serve resource.k8s.io by default.
    "test_sim_api_clients.py::test_legacy_discovery_lists_every_group_and_resource[real]",
    # Its message of a CEL rule also has the type of the value.
    "test_sim_api_kinds.py::test_cel_rules_validate_creates_and_transition_rules_validate_updates[real]",
    # It does not copy the labels of a node's topology to the pods that are bound to it.
    "test_sim_api_lifecycle.py::test_pod_can_be_bound_only_once[real]",
    # Only scheduling fields may change there, and it names the template.
    "test_sim_api_objects.py::test_scheduling_and_resources_of_a_suspended_job_may_change[real]",
    # WatchList is off by default; clients fall back to a list and a watch.
    "test_sim_api_watch.py::test_watchlist_ends_its_initial_events_with_a_bookmark[real]",
)
# Real programs mostly wait. The tests of one file need their order.
PEERS = ("-n", "2", "--dist", "loadfile", "-o", "python_files=e2e_*.py")
NEEDED = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kueue",
    "kwok",
    "karpenter-aws",
    "karpenter-plan-1.15",
]


def main(words: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oldest", action="store_true", help="on the oldest supported Kubernetes")
    if parser.parse_args(words).oldest:
        return _main_oldest()
    if code := build_peers.main(NEEDED):
        return code
    return asyncio.run(_contract()) or _pytest(["tests/peers"], PEERS)


def _main_oldest() -> int:
    oldest = {name: f"{name}-{build_peers.OLDEST}" for name in build_peers.OLDEST_PROGRAMS}
    if code := build_peers.main(["etcd", "kwok", *oldest.values()]):
        return code
    with tempfile.TemporaryDirectory(prefix="holdfast-oldest-") as name:
        for program, peer in oldest.items():
            Path(name, program).symlink_to(build_peers.binary(peer))
        os.environ["KUBEBUILDER_ASSETS"] = name  # every test takes its programs from there
        tests = [str(ROOT / "tests/peers" / name) for name in ON_OLDEST]
        return asyncio.run(_contract(NEWER)) or _pytest(tests, PEERS)


async def _contract(left_out: Sequence[str] = ()) -> int:
    """Runs the contract tests on a real kube-apiserver."""
    with tempfile.TemporaryDirectory(prefix="holdfast-control-plane-") as name:
        folder, token = Path(name), "an-admin"
        async with processes.running(folder, RealClock(), build_peers.binary) as started:
            address = await control_plane.start_server(started, folder, token=token, accounts=False)
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(address.kubeconfig(token), encoding="utf-8")
            suite = [ROOT / "tests/contract" / name for name in CONTRACT]
            suite += sorted((ROOT / "tests/contract").glob("test_sim_api_*.py"))
            options = [f"--deselect=tests/contract/{one}" for one in left_out]
            environ = {"HOLDFAST_KUBECONFIG": str(kubeconfig)}
            return await asyncio.to_thread(_pytest, [*map(str, suite)], options, environ)


def _pytest(tests: Sequence[str], options: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-e2e-") as cache:
        command = [sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", *options]
        code = _run([*command, *tests], environ)
        recorded = Path(cache, "v/cache/lastfailed")  # missing if a worker crashed
        if code != pytest.ExitCode.TESTS_FAILED or not recorded.exists():
            return code
        failed = json.loads(recorded.read_text(encoding="utf-8"))
        files = sorted({test.partition("::")[0] for test in failed})
        print("SECOND RUN, alone, of", *files, flush=True)
        print("What passes now depends on how busy the machine is.", flush=True)
        return _run([*command, "-n", "0", *files], environ)


def _run(command: Sequence[str], environ: Mapping[str, str] | None) -> int:
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **(environ or {})}, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
