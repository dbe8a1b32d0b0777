"""Runs what needs real peers: `make e2e`.

Two parts: the contract suite of the Kube door against a real kube-apiserver, beside the embedded server; and Karpenter's
scheduler beside ours on random scenarios. Exit code 3 where the peers are not there and cannot be built.
"""

import os
import subprocess
import sys

import build_peers
from peers import control_plane

CONTRACT = ("tests/contract/test_kube_door.py", "tests/contract/test_kube_lists.py")
MORE_CONTRACT = (
    "tests/contract/test_kube_pods.py",
    "tests/contract/test_kube_runtime.py",
    "tests/contract/test_kube_wire.py",
)


def main() -> int:
    needed = ["etcd", "kube-apiserver", "karpenter-plan-1.15"]
    if code := build_peers.main(needed):
        return code
    with control_plane.running() as kubeconfig:
        contract = _pytest(*CONTRACT, *MORE_CONTRACT, HOLDFAST_KUBECONFIG=str(kubeconfig))
    return contract or _pytest("-o", "python_files=e2e_*.py", "tests/peers")


def _pytest(*arguments: str, **environ: str) -> int:
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, env=os.environ | environ, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
