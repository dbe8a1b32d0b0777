"""The objects of a scenario, and mistakes in them that the schemas do not find.

Called by `scenario` before it plans. All mistakes are reported at once, each with its object and path. A mistake in a
file is never reported as a pod that does not fit.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from holdfast import errors
from holdfast.api import cluster
from holdfast.api import scenario as wire
from holdfast.api.findings import Finding, Path
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod, PodSpec, ResourceRequirements
from holdfast.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from holdfast.model import resources
from holdfast.scenarios import workloads
from holdfast.scenarios.catalog import CloudTerms
from holdfast.state.conversion import budgets, claims, nodepools, nodes
from holdfast.state.conversion.nodes import NodeAndClaim
from holdfast.state.conversion.pods import PodConverter

K = TypeVar("K", bound=Object)

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"  # the API server adds this label to every namespace


@dataclass(frozen=True, slots=True)
class Wrong:
    """A mistake in an object, or in the scenario as a whole."""

    obj: Object | None
    finding: Finding


class Objects:
    """The objects of a scenario, by kind, each kind sorted by name."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self._by_kind: dict[type[Object], list[Object]] = {}
        for obj in sorted(objects, key=lambda o: (o.metadata.namespace, o.metadata.name)):
            self._by_kind.setdefault(type(obj), []).append(obj)

    def of(self, kind: type[K]) -> tuple[K, ...]:
        return tuple(obj for obj in self._by_kind.get(kind, ()) if isinstance(obj, kind))

    def workloads(self) -> list[workloads.Workload]:
        return [*self.of(Deployment), *self.of(ReplicaSet), *self.of(StatefulSet), *self.of(Job)]

    def namespaces(self) -> dict[str, dict[str, str]]:
        """Every namespace that has an object, with its labels."""
        found: dict[str, dict[str, str]] = {"default": {}}
        for obj in (obj for objects in self._by_kind.values() for obj in objects if obj.namespaced):
            found.setdefault(obj.metadata.namespace or "default", {})
        found |= {n.metadata.name: n.metadata.labels for n in self.of(cluster.Namespace)}
        return {name: labels | {_NAMESPACE_NAME: name} for name, labels in found.items()}


def full_name(pod: Pod) -> str:
    return f"{workloads.namespace_of(pod)}/{pod.metadata.name}"


def wrong_region(written: wire.Catalog, regions: Collection[str]) -> Iterator[Wrong]:
    region = written.spec.region
    if region is not None and region not in regions:
        shipped = ", ".join(sorted(regions)) or "none"
        message = f"{region} is not a region that is shipped ({shipped}); list its instanceTypes instead"
        yield Wrong(written, Finding(("spec", "region"), message))


def unreadable(reading: Objects, terms: CloudTerms) -> Iterator[Wrong]:
    """Mistakes that the API server or a controller would reject."""
    for pool in reading.of(NodePool):
        found = list(nodepools.problems(pool, terms.labels.well_known))
        yield from (Wrong(pool, finding) for finding in found)
        if not found:
            yield from _tried([pool], ("spec",), lambda p: nodepools.view(p, (), resources.NOTHING))
    yield from _tried(reading.of(NodeClaim), ("spec",), claims.requirements_of)
    yield from _tried(reading.of(NodeClaim), ("spec", "resources", "requests"), claims.check_requests)
    yield from _tried(reading.of(Node), (), lambda n: nodes.check(NodeAndClaim(n, None)))
    yield from _tried(reading.of(NodeClaim), (), lambda c: nodes.check(NodeAndClaim(None, c)))
    yield from _tried(reading.of(cluster.PodDisruptionBudget), ("spec", "selector"), budgets.check)
    for workload in reading.workloads():
        if workloads.count(workload) > workloads.PODS_MAX:
            yield Wrong(workload, Finding(("spec",), f"more than {workloads.PODS_MAX} pods of one workload"))


def _tried(objects: Iterable[K], path: Path, read: Callable[[K], object]) -> Iterator[Wrong]:
    for obj in objects:
        try:
            read(obj)
        except errors.InvalidInput as error:
            yield Wrong(obj, Finding(path, str(error)))


def wrong_pods(reading: Objects, pods: Sequence[Pod], converter: PodConverter) -> Iterator[Wrong]:
    known = {node.metadata.name for node in reading.of(Node)}
    for original, pod in zip(reading.of(Pod), pods, strict=False):  # pods of workloads follow
        if pod.spec.node_name and pod.spec.node_name not in known:
            message = f"there is no Node {pod.spec.node_name} among the files"
            yield Wrong(original, Finding(("spec", "nodeName"), message))
        if converter.convert(pod).problems:
            yield from (Wrong(original, f) for f in _wrong_amounts(pod.spec, ("spec",)))
    for workload in (*reading.workloads(), *reading.of(DaemonSet)):
        template = ("spec", "template", "spec")
        yield from (Wrong(workload, f) for f in _wrong_amounts(workload.spec.template.spec, template))
    names = Counter(full_name(pod) for pod in pods)
    for name in sorted(name for name, times_seen in names.items() if times_seen > 1):
        yield Wrong(None, Finding((), f"more than one pod would be named {name}; rename one of them"))
    uids = Counter(pod.metadata.uid for pod in pods if pod.metadata.uid)
    for original, pod in zip(reading.of(Pod), pods, strict=False):
        if uids[pod.metadata.uid] > 1:
            yield Wrong(original, Finding(("metadata", "uid"), "another pod has the same uid"))


def _wrong_amounts(spec: PodSpec, path: Path) -> Iterator[Finding]:
    """Quantities that cannot be parsed: such a pod is a mistake in the file, not a pod that does not fit."""
    declared: list[tuple[Path, ResourceRequirements]] = []
    if spec.resources is not None:
        declared.append((("resources",), spec.resources))
    declared += [(("containers", i, "resources"), c.resources) for i, c in enumerate(spec.containers)]
    declared += [
        (("initContainers", i, "resources"), c.resources) for i, c in enumerate(spec.init_containers)
    ]
    amounts: list[tuple[Path, Mapping[str, str | int | float]]] = [(("overhead",), spec.overhead)]
    amounts += [((*where, "requests"), of.requests) for where, of in declared]
    amounts += [((*where, "limits"), of.limits) for where, of in declared]
    for where, by_name in amounts:
        for name, written in by_name.items():
            try:
                resources.request(name, written)
            except errors.InvalidInput as error:
                yield Finding((*path, *where, name), str(error))
