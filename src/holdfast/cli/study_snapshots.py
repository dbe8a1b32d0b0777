"""Reads the start of a simulation from a file of `holdfast snapshot`, for `studies`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from holdfast.api import kinds
from holdfast.api.cluster import Namespace, PodDisruptionBudget
from holdfast.api.findings import Finding
from holdfast.api.meta import Object
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scenario import Catalog
from holdfast.api.workloads import DaemonSet, Deployment, ReplicaSet, StatefulSet
from holdfast.api.world import World
from holdfast.cli import manifests
from holdfast.cli.manifests import Loaded, Located, Raw
from holdfast.simulate import snapshot_objects, snapshot_world

Json = dict[str, Any]
K = TypeVar("K", bound=Object)

_READ: Final = {
    (kind.api_version, kind.kind): kind
    for kind in cast(
        "tuple[type[Object], ...]", (Pod, Node, DaemonSet, PodDisruptionBudget, NodePool, Namespace)
    )
}
_MAKERS: Final = (Deployment.kind, ReplicaSet.kind, StatefulSet.kind)


@dataclass(frozen=True, slots=True)
class Start:
    world: World
    objects: tuple[Json, ...]
    notes: tuple[str, ...]


def read(files: Sequence[Raw], catalog: Loaded, written: Loaded | None) -> Start | tuple[Located, ...]:
    """What a simulation starts with. `files`: without Catalog, World and Simulation; `written`: the World of the files."""
    assert isinstance(catalog.obj, Catalog)
    found = snapshot_world.read(catalog.obj)
    if isinstance(found, Finding):
        return (catalog.located(found),)
    loaded = _loaded([raw for raw in files if raw.gvk in _READ])
    if isinstance(loaded, tuple):
        return loaded
    others = [raw.document.value for raw in files if raw.gvk not in _READ and _is_kept(raw)]
    pools = snapshot_objects.node_pools(_of(loaded, NodePool))
    classes = snapshot_objects.missing_classes(pools.documents, others)
    world = _world(snapshot_world.merged(found.spec, _spec(written), classes))
    made = snapshot_objects.workloads(
        _of(loaded, Pod), _of(loaded, Node), _of(loaded, DaemonSet), _of(loaded, PodDisruptionBudget)
    )
    generated = [
        snapshot_objects.generated_class(name, world.spec.cluster, next(iter(world.spec.roles), ""))
        for name in classes
    ]
    node_pools = [
        snapshot_objects.limited(one, catalog.obj) if _class(one) in classes else one
        for one in pools.documents
    ]
    namespaces = map(_namespace, _of(loaded, Namespace))
    objects = (*namespaces, *generated, *node_pools, *made.documents, *others)
    return Start(world, objects, (*found.notes, *pools.notes, *made.notes, *_notes(catalog.obj, classes)))


def _notes(catalog: Catalog, classes: Sequence[str]) -> Sequence[str]:
    notes = [
        f"EC2NodeClass {name} is not in the files, so a plain one with AL2023 is used" for name in classes
    ]
    if catalog.spec.scheduler_config.pod_topology_spread.default_constraints:
        notes.append("the default spread constraints of kube-scheduler are left out")
    return notes


def _class(pool: Json) -> str:
    return str(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"])


def _spec(world: Loaded | None) -> Json:
    spec: Json = (world.document.value.get("spec") if world else None) or {}
    return spec


def _world(spec: Json) -> World:
    document = {"apiVersion": World.api_version, "kind": World.kind, "metadata": {"name": "snapshot"}}
    return cast("World", kinds.from_plain({**document, "spec": spec}, World))


def _loaded(files: Sequence[Raw]) -> list[Object] | tuple[Located, ...]:
    objects: list[Object] = []
    findings: list[Located] = []
    for raw in files:
        found = manifests.load(raw, _READ[raw.gvk])
        if isinstance(found, tuple):
            findings += found
        else:
            objects.append(found.obj)
    return tuple(findings) or objects


def _of(objects: Sequence[Object], kind: type[K]) -> list[K]:
    return [one for one in objects if isinstance(one, kind)]


def _is_kept(raw: Raw) -> bool:
    """A snapshot has Deployments only for the default spread constraints, without their pods' template."""
    value, (_, kind) = raw.document.value, raw.gvk
    return kind not in snapshot_objects.LEFT_OUT and not (
        kind in _MAKERS and "template" not in (value.get("spec") or {})
    )


def _namespace(namespace: Namespace) -> Json:
    meta = namespace.metadata
    labels = dict(meta.labels)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": meta.name, "labels": labels}}
