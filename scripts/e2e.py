"""Runs what needs real peers: `make e2e`.

The contract suites of the Kube door and of the embedded API server, on a real kube-apiserver beside the embedded one; then
tests/peers: Karpenter and the AWS CLI in our world, Kubernetes' own scheduler and controllers beside the embedded server,
Karpenter's scheduler beside ours. Exit code 3 where the peers are not there and cannot be built.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import build_peers
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane, processes

ROOT = Path(__file__).resolve().parents[1]
CONTRACT = (
    "test_kube_door.py",
    "test_kube_lists.py",
    "test_kube_pods.py",
    "test_kube_runtime.py",
    "test_kube_wire.py",
)
NEEDED = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "karpenter-aws",
    "karpenter-plan-1.15",
]


def main() -> int:
    if code := build_peers.main(NEEDED):
        return code
    return asyncio.run(_contract()) or _pytest("-o", "python_files=e2e_*.py", "tests/peers")


async def _contract() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-control-plane-") as name:
        folder, token = Path(name), "an-admin"
        async with processes.running(folder, RealClock(), build_peers.binary) as started:
            address = await control_plane.start_server(started, folder, token=token, accounts=False)
            kubeconfig = folder / "kubeconfig"
            kubeconfig.write_text(address.kubeconfig(token), encoding="utf-8")
            suite = [ROOT / "tests/contract" / name for name in CONTRACT]
            suite += sorted((ROOT / "tests/contract").glob("test_sim_api_*.py"))
            return await asyncio.to_thread(_pytest, *map(str, suite), HOLDFAST_KUBECONFIG=str(kubeconfig))


def _pytest(*arguments: str, **environ: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, env=os.environ | environ, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
