"""Converts NodePools to values, and finds mistakes that the API server accepts."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import msgspec

from holdfast import errors, names
from holdfast.api import conditions, metadata
from holdfast.api.findings import Finding, Path
from holdfast.api.nodeclaim import NodeSelectorRequirement, Taint
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import NodeTaint
from holdfast.model import label_rules, requirement, requirements, resources, taints
from holdfast.model.offerings import InstanceType
from holdfast.model.requirement import Expression, Operator
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodePoolView, NodeView
from holdfast.state.conversion import fingerprint, times

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
LABELS: Path = ("spec", "template", "metadata", "labels")
HASH_VERSION: Final = "holdfast-v1"
VALIDATION: Final = "ValidationSucceeded"
NODE_CLASS: Final = "NodeClassReady"
INSTANCE_TYPES: Final = (
    "InstanceTypesReady"  # only while False: no instance type of the class suits the NodePool
)
_LAUNCH_NEEDS: Final = (VALIDATION, NODE_CLASS)
NONE_USED: Final = resources.of({resources.NODES: 0})
_MAX_LABEL_VALUE = 63
_MAX_KNOWN: Final = 1000  # NodePools that `PoolViews` keeps


def expression(wire: NodeSelectorRequirement) -> Expression:
    return Expression(wire.key, requirement.operator(wire.operator), wire.values, wire.min_values)


def taint(wire: Taint | NodeTaint) -> taints.Taint:
    if wire.effect not in tuple(taints.Effect):
        known = ", ".join(taints.Effect)
        raise errors.InvalidInput(f"taint {wire.key} has the effect {wire.effect!r}; known are {known}")
    return taints.Taint(wire.key, taints.Effect(wire.effect), wire.value or "")


def template_labels(pool: NodePool) -> dict[str, str]:
    """Labels that every node of the pool gets: the template's, the pool's name and the class's name."""
    template = pool.spec.template
    reference = template.spec.node_class_ref
    return template.metadata.labels | {
        names.NODEPOOL: pool.metadata.name,
        f"{reference.group}/{reference.kind.lower()}": reference.name,
    }


def template_requirements(pool: NodePool) -> Requirements:
    """The requirements and labels of every node of the pool (S-13).

    The planner adds the two labels that exist for simulation only (label_rules.SIMULATION_ONLY). Added here, they would
    be compared for drift, shown and written.
    """
    wanted = requirements.from_expressions(map(expression, pool.spec.template.spec.requirements))
    return wanted.union(requirements.from_labels(template_labels(pool)))


def template_hash(pool: NodePool) -> str:
    """The hash of the NodePool's template, for drift. Requirements are not part of it: they are compared with the
    labels of each node (P-14)."""
    template = msgspec.to_builtins(pool.spec.template)
    return fingerprint.of(template | {"spec": template["spec"] | {"requirements": None}})


def why_no_nodes(pool: NodePool, classes: Container[tuple[str, str]], *, needs_ready: bool) -> str | None:
    """Why the planner launches no nodes of a NodePool; None: it may (S-10).

    `classes` are the groups and kinds of our node classes. A NodePool in a file may have no Ready condition; this
    counts as not ready only if `needs_ready`.
    """
    reference = pool.spec.template.spec.node_class_ref
    if (reference.group, reference.kind) not in classes:
        return f"{reference.kind} of {reference.group} is a class of another autoscaler"
    if pool.spec.replicas is not None:
        return "it has a fixed number of replicas"
    if pool.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    ready = conditions.find(pool.status.conditions, conditions.READY)
    if (needs_ready and ready is None) or (ready is not None and not _is_usable(pool, ready)):
        return "it is not Ready"
    return None


def _is_usable(pool: NodePool, ready: conditions.Condition) -> bool:
    """A NodePool that is not Ready only because no instance type suits it is planned with: the catalog may have one since,
    and the reasons of pods name the NodePool."""
    if ready.status == conditions.TRUE:
        return True
    found = pool.status.conditions
    types = conditions.find(found, INSTANCE_TYPES)
    return (
        types is not None
        and types.status == conditions.FALSE
        and all(conditions.holds(found, one) for one in _LAUNCH_NEEDS)
    )


def view(pool: NodePool, instance_types: tuple[InstanceType, ...], used: Resources) -> NodePoolView:
    """The NodePool as a value; `used` is the capacity of its nodes (S-70)."""
    spec = pool.spec.template.spec
    after = pool.spec.disruption.consolidate_after
    return NodePoolView(
        name=pool.metadata.name,
        requirements=template_requirements(pool),
        labels=tuple(sorted(template_labels(pool).items())),
        weight=pool.spec.weight or 0,
        taints=tuple(map(taint, spec.taints)),
        startup_taints=tuple(map(taint, spec.startup_taints)),
        limits=resources.parse(pool.spec.limits),
        used=used,
        consolidate_after_s=None if after == times.NEVER else times.duration_s(after),
        reservation_wait_s=times.duration_s(pool.metadata.annotations.get(names.RESERVATION_WAIT, "")),
        instance_types=instance_types,
    )


class PoolViews:
    """The same as `view`. A NodePool that did not change is not converted again, and stays the same object with the same
    types and nodes."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[NodePool, NodePoolView]] = {}  # by name, without types and nodes
        self._views: dict[str, tuple[NodePoolView, NodePoolView]] = {}  # by name, of which of `_parsed`

    def parsed(self, pool: NodePool) -> NodePoolView:
        """The NodePool without types and nodes. Raises InvalidInput if it cannot be parsed."""
        known = self._parsed.get(pool.metadata.name)
        if known is None or known[0] is not pool:
            if len(self._parsed) >= _MAX_KNOWN:
                self._parsed.clear()
                self._views.clear()
            known = self._parsed[pool.metadata.name] = pool, view(pool, (), NONE_USED)
        return known[1]

    def view(self, pool: NodePool, instance_types: tuple[InstanceType, ...], used: Resources) -> NodePoolView:
        parsed, known = self.parsed(pool), self._views.get(pool.metadata.name)
        if known is None or known[0] is not parsed:
            known = parsed, parsed
        if known[1].instance_types is not instance_types or known[1].used != used:
            known = parsed, replace(parsed, instance_types=instance_types, used=used)
        self._views[pool.metadata.name] = known
        return known[1]


def used(nodes: Iterable[NodeView]) -> dict[str, Resources]:
    """By NodePool that has nodes: the capacity and number of its nodes that are not deleting (S-70)."""
    found = Used()
    for node in nodes:
        found.change(None, node)
    return found.by_pool()


class Used:
    """The same, updated as nodes change. Nodes are counted by capacity, since most have the same as others."""

    def __init__(self) -> None:
        self._alike: Counter[tuple[str, tuple[tuple[str, int], ...]]] = Counter()

    def change(self, before: NodeView | None, after: NodeView | None) -> None:
        for node, count in ((after, 1), (before, -1)):
            if node is not None and node.node_pool and not node.deleting:
                key = node.node_pool, node.capacity.amounts
                self._alike[key] += count
                if not self._alike[key]:
                    del self._alike[key]

    def by_pool(self) -> dict[str, Resources]:
        found: dict[str, list[Resources]] = {}
        for (pool, amounts), count in self._alike.items():
            total = Resources(amounts).times(count)
            found.setdefault(pool, []).append(resources.add(total, resources.of({resources.NODES: count})))
        return {pool: resources.add(*totals) for pool, totals in found.items()}


def problems(pool: NodePool, well_known: AbstractSet[str]) -> Iterator[Finding]:
    """Why a NodePool can never be used, with any node class."""
    if len(pool.metadata.name) > _MAX_LABEL_VALUE:
        yield Finding(
            ("metadata", "name"), "the name becomes a label of every node, so it has at most 63 characters"
        )
    wait = pool.metadata.annotations.get(names.RESERVATION_WAIT)
    if wait is not None and times.duration_s(wait) is None:
        path = ("metadata", "annotations", names.RESERVATION_WAIT)
        yield Finding(path, f"{wait!r} is not a duration such as 90s or 5m")
    for name, written in sorted(pool.spec.limits.items()):
        try:
            resources.amount(name, written)
        except errors.InvalidInput as error:
            yield Finding(("spec", "limits", name), str(error))
    yield from metadata.labels(pool.spec.template.metadata.labels, LABELS)
    yield from _requirement_problems(pool, well_known)
    yield from _taint_problems(pool)


def _requirement_problems(pool: NodePool, well_known: AbstractSet[str]) -> Iterator[Finding]:
    combined = requirements.NO_REQUIREMENTS
    for key, value in sorted(pool.spec.template.metadata.labels.items()):
        restricted = label_rules.why_restricted(key, well_known)
        if restricted:
            yield Finding((*LABELS, key), restricted)
        combined = combined.add(requirement.of(key, Operator.IN, (value,)))
    for index, wire in enumerate(pool.spec.template.spec.requirements):
        path = (*REQUIREMENTS, index)
        try:
            found = list(expression_problems(expression(wire), path, well_known))
        except errors.InvalidInput as error:
            found = [Finding((*path, "operator"), str(error))]
        yield from found
        if found:
            continue
        new = requirement.of(wire.key, Operator(wire.operator), wire.values, wire.min_values)
        before = combined.get(new.key)
        if (
            new.key in combined
            and not before.intersects(new)
            and before.operator is not Operator.DOES_NOT_EXIST
        ):
            yield Finding(path, f"{new} leaves no value beside {before}; no node can be both")
        combined = combined.add(new)


def expression_problems(wanted: Expression, path: Path, well_known: AbstractSet[str]) -> Iterator[Finding]:
    """Why a requirement of a NodePool or of a pod can never be satisfied (S-45, S-46)."""
    restricted = label_rules.why_restricted(wanted.key, well_known)
    if restricted:
        yield Finding((*path, "key"), restricted)
    capacity_type = label_rules.why_no_capacity_type(wanted)
    if capacity_type:
        yield Finding((*path, "values"), capacity_type)
    if wanted.operator in (Operator.IN, Operator.NOT_IN):
        for index, value in enumerate(wanted.values):
            if not metadata.is_label_value(value):
                yield Finding((*path, "values", index), f"{value!r} can never be the value of a label")
    try:
        requirement.of(wanted.key, wanted.operator, wanted.values)
    except errors.InvalidInput as error:
        yield Finding((*path, "values"), str(error))


def _taint_problems(pool: NodePool) -> Iterator[Finding]:
    spec = pool.spec.template.spec
    seen: set[tuple[str, str]] = set()
    for field, wires in (("taints", spec.taints), ("startupTaints", spec.startup_taints)):
        yield from _repeated(wires, ("spec", "template", "spec", field), seen)


def _repeated(wires: Iterable[Taint], path: Path, seen: set[tuple[str, str]]) -> Iterator[Finding]:
    for index, wire in enumerate(wires):
        try:
            taint(wire)
        except errors.InvalidInput as error:
            yield Finding((*path, index, "effect"), str(error))
        if (wire.key, wire.effect) in seen:
            yield Finding(
                (*path, index), f"{wire.key}:{wire.effect} is there before, in taints or startupTaints"
            )
        seen.add((wire.key, wire.effect))
