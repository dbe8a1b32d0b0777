"""NodePools as values, and what is wrong with one that the API server let through.

Callers: `holdfast validate`, the preflight checks of a cloud, and the controllers, which turn problems into
the condition ValidationSucceeded instead of refusing the object.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from holdfast import errors, names
from holdfast.api import metadata
from holdfast.api.findings import Finding, Path
from holdfast.api.nodeclaim import NodeSelectorRequirement, Taint
from holdfast.api.nodepool import NodePool
from holdfast.model import label_rules, requirement, requirements, taints
from holdfast.model.requirement import Expression, Operator
from holdfast.model.requirements import Requirements

REQUIREMENTS: Path = ("spec", "template", "spec", "requirements")
LABELS: Path = ("spec", "template", "metadata", "labels")
_MAX_LABEL_VALUE = 63


def expression(wire: NodeSelectorRequirement) -> Expression:
    return Expression(wire.key, Operator(wire.operator), wire.values, wire.min_values)


def taint(wire: Taint) -> taints.Taint:
    return taints.Taint(wire.key, taints.Effect(wire.effect), wire.value or "")


def template_requirements(pool: NodePool) -> Requirements:
    """What every node of the pool is: its requirements, its labels, and the pool's own name."""
    template = pool.spec.template
    labels = requirements.from_labels(template.metadata.labels | {names.NODEPOOL: pool.metadata.name})
    return requirements.from_expressions(map(expression, template.spec.requirements)).union(labels)


def problems(pool: NodePool, well_known: AbstractSet[str]) -> Iterator[Finding]:
    """What keeps a NodePool from ever being used, whatever class it refers to."""
    if len(pool.metadata.name) > _MAX_LABEL_VALUE:
        yield Finding(
            ("metadata", "name"), "the name becomes a label of every node, so it has at most 63 characters"
        )
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
        found = list(_expression_problems(expression(wire), path, well_known))
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


def _expression_problems(wanted: Expression, path: Path, well_known: AbstractSet[str]) -> Iterator[Finding]:
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
        if (wire.key, wire.effect) in seen:
            yield Finding(
                (*path, index), f"{wire.key}:{wire.effect} is there before, in taints or startupTaints"
            )
        seen.add((wire.key, wire.effect))
