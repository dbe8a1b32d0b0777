"""Runs what needs real peers: `make e2e`.

The contract suite of the Kube door against a real kube-apiserver, beside the embedded server; then tests/peers: real
Karpenter in our world, and Karpenter's scheduler beside ours. Exit code 3 where the peers are not there and cannot be
built.
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

CONTRACT = ("tests/contract/test_kube_door.py", "tests/contract/test_kube_lists.py")
NEEDED = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "karpenter-aws",
    "karpenter-plan-1.15",
]
MORE_CONTRACT = ("tests/contract/test_kube_pods.py", "tests/contract/test_kube_runtime.py")


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
            return await asyncio.to_thread(
                _pytest, *CONTRACT, *MORE_CONTRACT, HOLDFAST_KUBECONFIG=str(kubeconfig)
            )


def _pytest(*arguments: str, **environ: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, env=os.environ | environ, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
