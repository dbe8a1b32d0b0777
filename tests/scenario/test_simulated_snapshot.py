"""A simulation that starts from a file of `holdfast snapshot`."""

import dataclasses
from pathlib import Path

from msgspec.structs import replace

from holdfast.simulate import run
from snapshot_builders import catalog, instance_type, node, pod, pool, read


def test_snapshot_with_many_kinds_of_objects_runs(tmp_path: Path) -> None:
    """The API server accepts what is made of each, also of resources that --scrub has renamed."""
    owned = pod("agent-1", "agent", "n-1", kind="DaemonSet")
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": owned["spec"] | {"nodeName": ""}},
        },
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    unknown = {"name": "main", "resources": {"limits": {"resource-01": "1"}}}
    pods = [
        pod("a", "web", "n-1", priority=1000, nodeSelector={"kubernetes.io/hostname": "n-1"}),
        pod("b", "web", priority=1000),
        pod("c", "train", kind="Job", priority=-5),
        pod("d" * 80, priority=2_000_000_000),
        pod("e", "gpu", containers=[unknown]),
        owned,
    ]
    types = [instance_type(name) for name in ("m5.large", "m5.xlarge")]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}}
    managed = node("n-1", **{"karpenter.sh/nodepool": "default"})
    found = [catalog(instanceTypes=types), pool(), namespace, managed, daemon_set, budget, *pods]
    (study,) = read(tmp_path, *found)
    result = run.simulate(dataclasses.replace(study, spec=replace(study.spec, duration="10m")))
    assert (result.pods.created, result.pods.started) == (5, 4)
    (unplaced,) = result.unplaced
    assert unplaced.pod.startswith("shop/gpu-")
    assert "scrubbed.holdfast.dev/resource-01" in unplaced.reason
