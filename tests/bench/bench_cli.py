"""How long the command line takes: `holdfast --help`, and `holdfast validate` on 100 objects.

Run by `make bench`. Prints medians; asserts nothing, since computers differ.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

RUNS = 20
OBJECTS = 100


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        manifests = Path(folder) / "manifests.yaml"
        manifests.write_text("\n---\n".join(json.dumps(obj, indent=1) for obj in objects()))
        print(f"median of {RUNS} runs")
        print(f"holdfast --help                    {median('--help'):6.3f} s   (goal 0.15)")
        print(f"holdfast validate, {OBJECTS} objects    {median('validate', '-f', str(manifests)):6.3f} s")


def median(*arguments: str) -> float:
    # Byte code is compiled once, as on any computer where the command runs twice.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [str(Path(sys.executable).parent / "holdfast"), *arguments]
    times = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, env=environment)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def objects() -> list[dict[str, object]]:
    """Fifty NodePools, each with an EC2NodeClass of its own."""
    found: list[dict[str, object]] = []
    for index in range(OBJECTS // 2):
        name = f"pool-{index}"
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
        requirements = [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved", "on-demand"]},
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["4"]},
        ]
        pool = {"template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}, "weight": 10}
        terms = [{"tags": {"karpenter.sh/discovery": "bench"}}]
        node_class = {
            "role": "bench",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
            "capacityReservationSelectorTerms": [{"id": f"cr-{index}"}, {"tags": {"team": "*"}}],
        }
        found.append(_object("karpenter.sh/v1", "NodePool", name, pool))
        found.append(_object("karpenter.k8s.aws/v1", "EC2NodeClass", name, node_class))
    return found


def _object(api_version: str, kind: str, name: str, spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


if __name__ == "__main__":
    main()
