"""How long it takes to convert a pod, with the mix of Karpenter's scheduling benchmark.

Run it by hand: `python tests/bench/bench_state_pods.py`. It prints microseconds a pod and asserts nothing.
"""

import gc
import random
import time
from collections.abc import Sequence
from typing import Any, Final

from holdfast import names
from holdfast.api import kinds
from holdfast.api.pods import Pod
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pods import PodConverter

PODS: Final = 10_000
ROUNDS: Final = 5
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def main() -> None:
    rules = LabelRules(WELL_KNOWN_LABELS)
    for case, pods in (
        ("a few thousand shapes", mix(unique=False)),
        ("every pod with a label of its own", mix(unique=True)),
        ("every pod with requests of its own", mix(unique=False, own_requests=True)),
    ):
        gc.collect()
        gc.freeze()  # the pods themselves are not measured
        first = min(timed(PodConverter(rules), pods) for _ in range(ROUNDS))
        converter = PodConverter(rules)
        timed(converter, pods)
        again = min(timed(converter, pods) for _ in range(ROUNDS))
        print(f"{case:36} first {first:5.1f} us a pod, again {again:4.1f} us a pod")


def timed(converter: PodConverter, pods: Sequence[Pod]) -> float:
    start = time.perf_counter()
    for pod in pods:
        converter.view(pod, now_s=0)
    return (time.perf_counter() - start) / len(pods) * 1e6


def mix(*, unique: bool, own_requests: bool = False) -> list[Pod]:
    """Generic pods, zonal and per-node spread, affinity by zone and node, anti-affinity: a sixth each."""
    dice = random.Random(1)
    made = []
    for number in range(PODS):
        labels = {"my-label": dice.choice("abcdefg")}
        if unique:
            labels["statefulset.kubernetes.io/pod-name"] = f"pod-{number}"
        cpu = number + 1 if own_requests else dice.choice((100, 250, 500, 1000, 1500))
        memory = dice.choice((100, 256, 512, 1024, 2048, 4096))
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
        selector = {"matchLabels": {"my-label": dice.choice("abcdefg")}}
        made.append(pod(number, labels, requests, constraint(number % 6, selector)))
    return made


def constraint(kind: int, selector: dict[str, Any]) -> dict[str, Any]:
    if kind in (1, 2):
        key = names.ZONE if kind == 1 else names.HOSTNAME
        spread = {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector,
        }
        return {"topologySpreadConstraints": [spread]}
    if kind in (3, 4, 5):
        which = "podAntiAffinity" if kind == 5 else "podAffinity"
        key = names.ZONE if kind == 3 else names.HOSTNAME
        return {"affinity": {which: {REQUIRED: [{"labelSelector": selector, "topologyKey": key}]}}}
    return {}


def pod(number: int, labels: dict[str, str], requests: dict[str, str], more: dict[str, Any]) -> Pod:
    tolerated = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in (names.NOT_READY_TAINT, names.UNREACHABLE_TAINT)
    ]
    made = kinds.from_plain(
        {
            "metadata": {
                "name": f"pod-{number}",
                "namespace": "default",
                "uid": f"uid-{number}",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels,
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "x"}
                ],
            },
            "spec": {
                "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
                "tolerations": tolerated,
                "volumes": [{"name": f"kube-api-access-{number}"}],
            }
            | more,
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            },
        },
        Pod,
    )
    assert isinstance(made, Pod)
    return made


if __name__ == "__main__":
    main()
