"""Whether a NodePool and its EC2NodeClass can ever launch a node together, according to these objects alone.

A value that is not resolved yet counts as possible, so every finding is certain.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.ec2nodeclass.status import RESERVATION_TYPES
from holdfast.api.findings import Finding, Path
from holdfast.api.nodepool import NodePool
from holdfast.cloud.aws.catalog import families, labels
from holdfast.model import requirement, requirements
from holdfast.model.requirement import Expression, Operator, Requirement
from holdfast.model.requirements import Requirements
from holdfast.state.conversion import nodepools

WELL_KNOWN_LABELS: Final = labels.WELL_KNOWN_LABELS


@dataclass(frozen=True, slots=True)
class Way:
    """One possible set of requirements of an instance of a class, such as one image."""

    words: str
    requirements: Requirements


def problems(pool: NodePool, node_class: EC2NodeClass) -> Iterator[Finding]:
    """Why this NodePool and class can never launch a node; nothing if they may."""
    wanted = nodepools.template_requirements(pool)
    respects = (capacity_ways(node_class), image_ways(node_class), zone_ways(node_class))
    found = [f for ways in respects if (f := _impossible(pool, node_class, wanted, ways))]
    yield from found
    if not found:
        # Each set alone may be possible while no zone has both the reservation and a subnet.
        joint = [
            Way(f"{a.words} and {b.words}", both)
            for a in respects[0]
            for b in respects[2]
            if a.requirements.intersects(b.requirements)
            for both in (a.requirements.union(b.requirements),)
        ]
        finding = _impossible(pool, node_class, wanted, joint)
        if finding:
            yield finding


def reference_problems(
    pool: NodePool, kinds: Collection[type[EC2NodeClass]] = (EC2NodeClass, HoldfastNodeClass)
) -> Iterator[Finding]:
    """A finding if the NodePool refers to a class of none of these kinds (C-11). By default both are accepted: the
    settings decide on which one Holdfast acts."""
    reference = pool.spec.template.spec.node_class_ref
    groups = [kind.api_version.partition("/")[0] for kind in kinds]
    if reference.kind == EC2NodeClass.kind and reference.group in groups:
        return
    path = ("spec", "template", "spec", "nodeClassRef")
    if (reference.group, reference.kind) == (aws.HOLDFAST_GROUP, EC2NodeClass.kind):
        words = "Holdfast acts on this NodePool only with --beside-karpenter"
        yield Finding(path, f"{reference.kind} of {reference.group}: {words}")
        return
    yield Finding(
        path,
        f"{reference.kind} of {reference.group} is a class of another autoscaler; "
        f"Holdfast leaves this NodePool alone and launches from {EC2NodeClass.kind} of {' or '.join(groups)}",
    )


def class_problems(node_class: EC2NodeClass) -> Iterator[Finding]:
    """Mistakes in a class that the API server accepts."""
    spec = node_class.spec
    lists = {
        "subnetSelectorTerms": spec.subnet_selector_terms,
        "securityGroupSelectorTerms": spec.security_group_selector_terms,
        "capacityReservationSelectorTerms": spec.capacity_reservation_selector_terms,
        "amiSelectorTerms": spec.ami_selector_terms,
    }
    for field, terms in lists.items():
        for index, term in enumerate(terms):
            given = [name for name, value in msgspec.structs.asdict(term).items() if value]
            if not given:
                yield Finding(("spec", field, index), "this term selects nothing: its tags are empty")
            elif "id" in given and len(given) > 1:
                yield Finding(
                    ("spec", field, index), "id stands alone in a term; the other fields are ignored"
                )


def capacity_ways(node_class: EC2NodeClass) -> Sequence[Way]:
    """The capacity types a class can launch, with the reservations it selects."""
    spec = node_class.spec
    target = spec.capacity_reservation_spec and spec.capacity_reservation_spec.capacity_reservation_target
    unreserved = (names.ON_DEMAND,) if target else (names.ON_DEMAND, names.SPOT)
    words = (
        "on-demand capacity (a capacityReservationTarget excludes spot)"
        if target
        else "on-demand or spot capacity"
    )
    ways = [Way(words, requirements.of(_is(names.CAPACITY_TYPE, *unreserved), *_outside_reservations()))]
    if node_class.status.capacity_reservations:
        ways += [
            Way(
                f"{r.id} ({r.instance_type} in {r.availability_zone})",
                requirements.of(
                    _is(names.CAPACITY_TYPE, names.RESERVED),
                    _is(aws.CAPACITY_RESERVATION_ID, r.id),
                    _is(aws.CAPACITY_RESERVATION_TYPE, r.reservation_type),
                    _is(aws.CAPACITY_RESERVATION_INTERRUPTIBLE, "true" if r.interruptible else "false"),
                    _is(names.INSTANCE_TYPE, r.instance_type),
                    _is(names.ZONE, r.availability_zone),
                ),
            )
            for r in node_class.status.capacity_reservations
        ]
    elif spec.capacity_reservation_selector_terms:
        ways.append(_selected(node_class))
    return ways


def image_ways(node_class: EC2NodeClass) -> Sequence[Way]:
    """The operating systems and architectures of the class's images."""
    if node_class.status.amis:
        return [
            Way(
                ami.name or ami.id,
                requirements.from_expressions(
                    Expression(r.key, requirement.operator(r.operator), r.values) for r in ami.requirements
                ),
            )
            for ami in node_class.status.amis
        ]
    aliased = {families.of_alias(t.alias) for t in node_class.spec.ami_selector_terms if t.alias}
    family = next(iter(aliased), node_class.spec.ami_family or "Custom")
    if family.startswith("Windows"):
        return [
            Way(
                f"{family} images (windows on amd64)",
                requirements.of(_is(names.OS, "windows"), _is(names.ARCH, "amd64")),
            )
        ]
    if family == "Custom":
        return [Way("images of its own", requirements.NO_REQUIREMENTS)]
    return [
        Way(
            f"{family} images (linux on amd64 or arm64)",
            requirements.of(_is(names.OS, "linux"), _is(names.ARCH, "amd64", "arm64")),
        )
    ]


def zone_ways(node_class: EC2NodeClass) -> Sequence[Way]:
    """The zones of the class's subnets."""
    if not node_class.status.subnets:
        return [Way("subnets that are not resolved yet", requirements.NO_REQUIREMENTS)]
    return [
        Way(
            f"a subnet in {subnet.zone}",
            requirements.of(
                _is(names.ZONE, subnet.zone), *([_is(aws.ZONE_ID, subnet.zone_id)] if subnet.zone_id else [])
            ),
        )
        for subnet in node_class.status.subnets
    ]


def _selected(node_class: EC2NodeClass) -> Way:
    """The selected reservations before they are resolved: the listed ids, or with tags any id."""
    terms = node_class.spec.capacity_reservation_selector_terms
    ids = sorted(term.id for term in terms if term.id)
    by_id = len(ids) == len(terms)
    return Way(
        f"reservations {', '.join(ids)}" if by_id else "the reservations it selects",
        requirements.of(
            _is(names.CAPACITY_TYPE, names.RESERVED),
            _is(aws.CAPACITY_RESERVATION_ID, *ids) if by_id else _exists(aws.CAPACITY_RESERVATION_ID),
            _is(aws.CAPACITY_RESERVATION_TYPE, *RESERVATION_TYPES),
            _is(aws.CAPACITY_RESERVATION_INTERRUPTIBLE, "true", "false"),
        ),
    )


def _impossible(
    pool: NodePool, node_class: EC2NodeClass, wanted: Requirements, ways: Sequence[Way]
) -> Finding | None:
    if any(wanted.compatible(way.requirements, WELL_KNOWN_LABELS) for way in ways):
        return None
    conflicts = [c for way in ways for c in wanted.incompatibilities(way.requirements, WELL_KNOWN_LABELS)]
    required = sorted({str(conflict.existing) for conflict in conflicts if conflict.existing})
    offered = "; or ".join(way.words for way in ways) or "nothing that fits together"
    keys = {conflict.key for conflict in conflicts}
    return Finding(
        _field_path(pool, keys),
        f"can never launch with EC2NodeClass/{node_class.metadata.name}: the NodePool asks for "
        f"{' and '.join(required) or 'what it requires'}, the class has {offered}{_hint(node_class, wanted, keys)}",
    )


def _hint(node_class: EC2NodeClass, wanted: Requirements, keys: set[str]) -> str:
    wants_reservations = bool(keys & set(aws.RESERVED_CAPACITY_LABELS)) or (
        names.CAPACITY_TYPE in keys and wanted.get(names.CAPACITY_TYPE).has(names.RESERVED)
    )
    if wants_reservations and not node_class.spec.capacity_reservation_selector_terms:
        return "; select reservations with spec.capacityReservationSelectorTerms"
    return ""


def _field_path(pool: NodePool, keys: set[str]) -> Path:
    for index, wire in enumerate(pool.spec.template.spec.requirements):
        if names.LABEL_ALIASES.get(wire.key, wire.key) in keys:
            return (*nodepools.REQUIREMENTS, index)
    for key in sorted(pool.spec.template.metadata.labels):
        if key in keys:
            return (*nodepools.LABELS, key)
    return ("spec", "template", "spec", "nodeClassRef")


def _outside_reservations() -> tuple[Requirement, ...]:
    return tuple(requirement.of(key, Operator.DOES_NOT_EXIST) for key in aws.RESERVED_CAPACITY_LABELS)


def _is(key: str, *values: str) -> Requirement:
    return requirement.of(key, Operator.IN, values)


def _exists(key: str) -> Requirement:
    return requirement.of(key, Operator.EXISTS)
