"""The objects of a simulation that starts from a file of `holdfast snapshot`. Pure.

Pods become Deployments and Jobs without nodes: they arrive at the start, and the program launches nodes for them. Nodes and
NodeClaims are left out. A snapshot has no EC2NodeClasses, so a plain one is generated for each that the files do not have.
"""

import copy
import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast import names
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.conditions import FALSE, READY
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import to_wire
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.recording import Shape
from holdfast.api.scenario import Catalog
from holdfast.api.workloads import DaemonSet
from holdfast.model import wording
from holdfast.scenarios.history import owners, shapes
from holdfast.scenarios.history.owners import Owner
from holdfast.scenarios.snapshot_documents import ANNOTATIONS
from holdfast.simulate import recordings, replay
from holdfast.simulate.actions import Create
from holdfast.simulate.recordings import (
    RecordedBudget,
    RecordedDaemon,
    RecordedGroup,
    RecordedRun,
    Recording,
)
from holdfast.simulate.snapshot_world import CLASS_TAG
from holdfast.state.conversion import pod_states

Json = dict[str, Any]

# Of the cluster at that time; the simulation has its own. Services and ReplicationControllers have no pods in a snapshot.
LEFT_OUT: Final = (
    "NodeClaim",
    "CSINode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "Service",
    "ReplicationController",
)
_NAME_MAX: Final = 40  # of a Deployment or Job; its pods have longer ones
_DEFAULT: Final = "default"
_SCRUBBED_RESOURCE: Final = re.compile(r"resource-[0-9]+")
_DOMAIN: Final = "scrubbed.holdfast.dev"  # the API server accepts no other resource without a domain


@dataclass(frozen=True, slots=True)
class SnapshotObjects:
    documents: tuple[Json, ...]
    notes: tuple[str, ...]


def workloads(
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    daemon_sets: Iterable[DaemonSet],
    budgets: Iterable[PodDisruptionBudget],
) -> SnapshotObjects:
    """Deployments, Jobs and DaemonSets with what they need, and notes about pods that are left out."""
    launched = {"", *(one.metadata.name for one in nodes if names.NODEPOOL in one.metadata.labels)}
    found = [one for one in pods if not owners.owner_of(one).is_ignored and pod_states.is_active(one)]
    kept = [one for one in found if not one.spec.scheduling_gates and one.spec.node_name in launched]
    groups, runs = _groups(kept)
    recording = Recording(
        begins_s=0,
        until_s=0,
        groups=groups,
        runs=runs,
        daemons=tuple(map(_daemon, daemon_sets)),
        budgets=tuple(
            RecordedBudget(one.metadata.name, _namespace(one), msgspec.to_builtins(one.spec))
            for one in budgets
        ),
    )
    jobs = [one.what.document for one in replay.actions(recording, 0) if isinstance(one.what, Create)]
    return SnapshotObjects((*replay.initial(recording), *map(dict, jobs)), tuple(_notes(found, kept)))


def _notes(found: Sequence[Pod], kept: Sequence[Pod]) -> Iterator[str]:
    gated = sum(bool(one.spec.scheduling_gates) for one in found)
    elsewhere = len(found) - len(kept) - gated
    if gated:
        yield f"left out: {wording.count(gated, 'pod')} with scheduling gates"
    if elsewhere > 0:
        yield f"left out: {wording.count(elsewhere, 'pod')} on nodes without a NodePool"
    volumes = sum(
        any(one.persistent_volume_claim or one.ephemeral for one in pod.spec.volumes) for pod in kept
    )
    if volumes:
        yield f"left out: the PersistentVolumeClaims of {wording.count(volumes, 'pod')}"
    endless = sum(not owners.owner_of(one).counts for one in kept)
    if endless:
        yield f"until the end run: {wording.count(endless, 'pod')} of Jobs or without a controller"


def _groups(pods: Sequence[Pod]) -> tuple[tuple[RecordedGroup, ...], tuple[RecordedRun, ...]]:
    """Equal pods of one controller are a group; the other pods count by themselves."""
    members: dict[tuple[Owner, bytes], list[Pod]] = {}
    runs: list[RecordedRun] = []
    for pod in pods:
        owner = owners.owner_of(pod)
        if owner.counts:
            shape = msgspec.json.encode(_shape(pod), order="deterministic")
            members.setdefault((dataclasses.replace(owner, revision=""), shape), []).append(pod)
        else:
            name, template = _short(pod.metadata.name), recordings.pod_template(_shape(pod))
            runs.append(RecordedRun(name, _namespace(pod), 0, None, None, "", template, None))
    used: Counter[tuple[str, str]] = Counter()
    groups: list[RecordedGroup] = []
    for (owner, _), found in members.items():
        namespace, name = _namespace(found[0]), _short(owner.name)
        used[namespace, name] += 1
        number = used[namespace, name]
        template = recordings.pod_template(_shape(found[0]))
        unique = f"{name}-{number}" if number > 1 else name
        groups.append(RecordedGroup(unique, namespace, owner.kind, ((0, template),), ((0, len(found)),)))
    return tuple(groups), tuple(runs)


def _shape(pod: Pod) -> Shape:
    meta = pod.metadata
    return Shape(
        id=0,
        ns=_namespace(pod),
        labels={
            key: value for key, value in meta.labels.items() if shapes.is_kept_label(key, value, meta.name)
        },
        annotations={key: value for key, value in meta.annotations.items() if key in ANNOTATIONS[Pod]},
        spec=_with_domains(shapes.pod_spec(pod)),
    )


def _with_domains(value: Any) -> Any:
    """Resources that `--scrub` has renamed, with a domain."""
    if isinstance(value, list):
        return [_with_domains(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        f"{_DOMAIN}/{key}" if _SCRUBBED_RESOURCE.fullmatch(key) else key: _with_domains(one)
        for key, one in value.items()
    }


def _daemon(daemon_set: DaemonSet) -> RecordedDaemon:
    template = daemon_set.spec.template
    meta = msgspec.structs.replace(template.metadata, namespace=_namespace(daemon_set))
    shape = _shape(Pod(metadata=meta, spec=template.spec))
    name = daemon_set.metadata.name
    return RecordedDaemon(name, _namespace(daemon_set), ((0, recordings.pod_template(shape)),))


def _namespace(one: Pod | DaemonSet | PodDisruptionBudget) -> str:
    return one.metadata.namespace or _DEFAULT


def _short(name: str) -> str:
    return name[:_NAME_MAX].rstrip("-.")


# --- NodePools and classes ----------------------------------------------------------------------------------


def node_pools(pools: Iterable[NodePool]) -> SnapshotObjects:
    """The NodePools, which refer to EC2NodeClasses. One that was not ready had no nodes in plans."""
    found: list[Json] = []
    notes: list[str] = []
    for one in pools:
        why = next((c.message for c in one.status.conditions if (c.type, c.status) == (READY, FALSE)), None)
        if why is not None:
            notes.append(f"NodePool {one.metadata.name} is left out, because it was not ready: {why}")
            continue
        written = to_wire(one)
        written.pop("status", None)
        meta = one.metadata
        written["metadata"] = {
            "name": meta.name,
            "labels": dict(meta.labels),
            "annotations": dict(meta.annotations),
        }
        group = EC2NodeClass.api_version.partition("/")[0]
        written["spec"]["template"]["spec"]["nodeClassRef"] |= {"group": group, "kind": EC2NodeClass.kind}
        found.append(written)
    return SnapshotObjects(tuple(found), tuple(notes))


def missing_classes(pools: Iterable[Json], documents: Iterable[Json]) -> list[str]:
    """The names of the classes that the NodePools use and the files do not have."""
    known = {one["metadata"]["name"] for one in documents if one.get("kind") == EC2NodeClass.kind}
    wanted = (one["spec"]["template"]["spec"]["nodeClassRef"]["name"] for one in pools)
    return [name for name in dict.fromkeys(wanted) if name not in known]


def limited(pool: Json, catalog: Catalog) -> Json:
    """The NodePool with the zones, architectures and systems that its class had: a generated class has more."""
    name = pool["spec"]["template"]["spec"]["nodeClassRef"]["name"]
    types = [one for one in catalog.spec.instance_types if name in one.node_classes]
    values = {names.ZONE: {offering.zone for one in types for offering in one.offerings}}
    for key in (names.ARCH, names.OS):
        values[key] = {value for one in types for value in _values(one.labels.get(key, ()))}
    added = [
        {"key": key, "operator": "In", "values": sorted(found)} for key, found in values.items() if found
    ]
    changed = copy.deepcopy(pool)
    spec = changed["spec"]["template"]["spec"]
    spec["requirements"] = [*spec.get("requirements", ()), *added]
    return changed


def _values(label: Any) -> Sequence[str]:
    return [label] if isinstance(label, str) else label


def generated_class(name: str, cluster: str, role: str) -> Json:
    """A class with the newest AL2023 image. It selects the reservations that the class selected in the cluster."""
    discovery = [{"tags": {"karpenter.sh/discovery": cluster}}]
    return {
        "apiVersion": EC2NodeClass.api_version,
        "kind": EC2NodeClass.kind,
        "metadata": {"name": name},
        "spec": {
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "role": role,
            "subnetSelectorTerms": discovery,
            "securityGroupSelectorTerms": discovery,
            "capacityReservationSelectorTerms": [{"tags": {f"{CLASS_TAG}{name}": "true"}}],
        },
    }
