"""A random scenario from a seed: the same seed gives the same documents.

It leaves out what docs/scenario.md does not define: claims that wait for an instance, counts of on-demand and
spot between 0 and unlimited, label selectors on labels that some instance types do not have.
"""

from collections.abc import Iterator
from typing import Final

from checker import (
    generate_catalog,
    generate_cluster,
    generate_more,
    generate_pods,
    generate_pools,
    generate_storage,
)
from checker.dice import Dice
from checker.generate_catalog import Document
from checker.generate_storage import NAMESPACES

MOST_PODS: Final = 60
MORE: Final = 10**9  # additions use random numbers of another seed


def scenario(seed: int) -> list[Document]:
    """The plain scenario of the seed with all additional features."""
    found = plain(seed)
    found += generate_more.add(Dice(seed + MORE), found)
    generate_more.label(Dice(seed + 2 * MORE), found)
    return found


def plain(seed: int) -> list[Document]:
    """A scenario with only the features that Karpenter's scheduler has too."""
    dice = Dice(seed)
    found = [generate_catalog.catalog(dice)]
    found += generate_pools.pools(dice, found[0])
    found += generate_cluster.namespaces()
    found += generate_storage.volumes(dice)
    found += generate_cluster.daemon_sets(dice)
    found += generate_cluster.nodes(dice, found)
    return found + list(_workloads(dice, found))


def _workloads(dice: Dice, documents: list[Document]) -> Iterator[Document]:
    reservations = [one["id"] for one in documents[0]["spec"]["reservations"]]
    left, most = dice.number(1, MOST_PODS), dice.pick((3, 10, 40))
    index = 0
    while left > 0:
        where, count = dice.pick(NAMESPACES), min(left, dice.number(1, most))
        app = f"app-{index}"
        template = generate_pods.template(dice, app, _claims(documents, where), reservations)
        yield from _workload(dice, app, where, count, template)
        left, index = left - count, index + 1


def _claims(documents: list[Document], where: str) -> list[str]:
    return [
        one["metadata"]["name"]
        for one in documents
        if one["kind"] == "PersistentVolumeClaim" and one["metadata"]["namespace"] == where
    ]


def _workload(dice: Dice, app: str, where: str, count: int, template: Document) -> Iterator[Document]:
    """A workload of a random kind, or its pods themselves."""
    metadata = {"name": app, "namespace": where, "uid": f"uid-{where}-{app}"}
    selector = {"matchLabels": {"app": app}}
    kind = dice.pick(("Deployment", "Deployment", "StatefulSet", "ReplicaSet", "Job", "Pod"))
    if kind == "Pod":
        for index in range(count):
            own = template["metadata"] | {"name": f"{app}-{index}", "namespace": where}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]}
    elif kind == "Job":
        jobs = template["spec"] | {"restartPolicy": "Never"}
        spec = {"parallelism": count, "completions": count, "template": template | {"spec": jobs}}
        yield {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": spec}
    else:
        present = 1 if dice.chance(0.15) else 0
        spec = {"replicas": count + present, "selector": selector, "template": template}
        yield {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for index in range(present):
            yield _owned(app, where, kind, index, template)


def _owned(app: str, where: str, kind: str, index: int, template: Document) -> Document:
    """A pod that the workload already has: pending, with an owner reference."""
    owner: Document = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": app,
        "uid": f"uid-{where}-{app}",
        "controller": True,
    }
    own = template["metadata"] | {
        "name": f"{app}-own{index}",
        "namespace": where,
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template["spec"]}
