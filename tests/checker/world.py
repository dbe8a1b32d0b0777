"""The scenario, read once: pools, nodes, pods, types, reservations, and who may use which reservation."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from checker import catalog, labels, quantities, volumes, workloads
from checker.catalog import InstanceType, Reservation
from checker.labels import Expression, Taint
from checker.quantities import Resources
from checker.shapes import Shape
from checker.volumes import Storage
from checker.workloads import Document, Pod
from holdfast import names
from holdfast.api import aws

Documents: TypeAlias = list[dict[str, Any]]

SOMETHING_ELSE: Final = "~something-else"  # stands for every value that nobody mentions


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    weight: int
    labels: Mapping[str, str]
    requirements: tuple[Expression, ...]
    taints: tuple[Taint, ...]
    limits: Resources
    selected: frozenset[str]  # ids of the reservations that its class sees
    wait_s: float  # how long its pods may wait for a slot


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Resources
    allocatable: Resources
    pool: str | None
    deleting: bool


@dataclass(frozen=True, slots=True)
class Daemon:
    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class World:
    now: dt.datetime
    settings: Mapping[str, Any]
    pools: Mapping[str, Pool]
    types: Mapping[str, InstanceType]
    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    daemons: tuple[Daemon, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    storage: Storage
    held: Mapping[str, int]  # slots of launches that the counts do not show yet
    mentioned: Mapping[str, frozenset[str]]  # every value that the scenario names, by label key

    def reservations(self) -> dict[str, Reservation]:
        return {found.id: found for one in self.types.values() for _, found in one.reserved()}

    def free(self, found: Reservation) -> int:
        """Slots that a plan may still hand out; none where nothing may be launched."""
        return max(0, found.available - self.held.get(found.id, 0)) if found.healthy else 0

    def bound(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def pending(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node is None]


def read(documents: Documents) -> World:
    by_kind: dict[str, list[Document]] = {}
    for one in documents:
        by_kind.setdefault(one["kind"], []).append(one)
    spec = by_kind["Catalog"][0]["spec"]
    now, settings = catalog.moment(spec["now"]), spec.get("settings") or {}
    types = catalog.read(spec, now)
    pods = {pod.name: pod for pod in workloads.read(documents)}
    daemons = tuple(_daemon(one) for one in by_kind.get("DaemonSet", ()))
    pools = _pools(by_kind, types, settings)
    return World(
        now=now,
        settings=settings,
        pools=pools,
        types=types,
        nodes={one.name: one for one in _nodes(by_kind)},
        pods=pods,
        daemons=daemons,
        namespaces=_namespaces(by_kind),
        storage=volumes.read(documents),
        held=_held(by_kind.get("NodeClaim", ()), now, settings),
        mentioned=_mentioned(
            pools.values(), [pod.shape for pod in pods.values()] + [d.shape for d in daemons]
        ),
    )


# --- pools and the reservations they may use --------------------------------------------------------


def _pools(
    by_kind: Mapping[str, list[Document]], types: Mapping[str, InstanceType], settings: Mapping[str, Any]
) -> dict[str, Pool]:
    classes = {one["metadata"]["name"]: one for one in by_kind.get("EC2NodeClass", ())}
    known = [found for one in types.values() for _, found in one.reserved()]
    pools = [_pool(one, classes, known, settings) for one in by_kind.get("NodePool", ())]
    return {pool.name: pool for pool in pools}


def _pool(
    document: Document,
    classes: Mapping[str, Document],
    known: Iterable[Reservation],
    settings: Mapping[str, Any],
) -> Pool:
    metadata, spec, template = document["metadata"], document["spec"], document["spec"]["template"]
    node_class = template["spec"]["nodeClassRef"]["name"]
    marks = (template.get("metadata") or {}).get("labels") or {}
    own = {names.NODEPOOL: metadata["name"], aws.EC2NODECLASS: node_class}
    wait = (metadata.get("annotations") or {}).get(
        names.RESERVATION_WAIT, settings.get("reservationWait", "0s")
    )
    return Pool(
        name=metadata["name"],
        weight=spec.get("weight") or 0,
        labels={labels.name(key): value for key, value in marks.items()} | own,
        requirements=labels.expressions(template["spec"].get("requirements")),
        taints=tuple(template["spec"].get("taints") or ()),
        limits=quantities.resources(spec.get("limits")),
        selected=frozenset(found.id for found in known if _sees(classes.get(node_class), found)),
        wait_s=float(quantities.seconds(wait)),
    )


def _sees(node_class: Document | None, found: Reservation) -> bool:
    """By its status where it has one, else by its selector terms."""
    if node_class is None:
        return False
    stated = (node_class.get("status") or {}).get("capacityReservations")
    if stated:
        return any(one["id"] == found.id for one in stated)
    terms = node_class["spec"].get("capacityReservationSelectorTerms") or ()
    return any(_selects(term, found) for term in terms)


def _selects(term: Mapping[str, Any], found: Reservation) -> bool:
    """Every field that the term has must agree; `*` is any value of a tag."""
    fields = {"id": found.id, "ownerID": found.owner, "instanceMatchCriteria": found.criteria}
    same = all(term[key] == value for key, value in fields.items() if key in term)
    tags = term.get("tags") or {}
    return same and all(key in found.tags and value in ("*", found.tags[key]) for key, value in tags.items())


# --- nodes and claims on their way ------------------------------------------------------------------


def _nodes(by_kind: Mapping[str, list[Document]]) -> Iterator[Node]:
    """Nodes, and claims that were launched and whose node has not appeared."""
    documents = by_kind.get("Node", [])
    appeared = {one["spec"].get("providerID") for one in documents}
    for one in documents:
        yield _node(one, one["spec"].get("taints"))
    for one in by_kind.get("NodeClaim", ()):
        provider_id = (one.get("status") or {}).get("providerID")
        if provider_id and provider_id not in appeared:
            yield _node(one, one["spec"].get("taints"))


def _node(document: Document, taints: Iterable[Taint] | None) -> Node:
    metadata, status = document["metadata"], document.get("status") or {}
    found = {labels.name(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
    lasting = tuple(taints or ())
    if names.NODEPOOL in found and found.get(names.INITIALIZED) != "true":
        lasting = tuple(taint for taint in lasting if not _passing(taint))
    return Node(
        name=metadata["name"],
        labels=found,
        taints=lasting,
        capacity=quantities.resources(status.get("capacity")),
        allocatable=quantities.resources(status.get("allocatable")),
        pool=found.get(names.NODEPOOL),
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def _passing(taint: Taint) -> bool:
    """Gone once the node has started (S-52)."""
    starting = (
        names.NOT_READY_TAINT,
        names.UNREACHABLE_TAINT,
        names.UNINITIALIZED_TAINT,
        names.UNREGISTERED_TAINT,
    )
    return taint["key"] in starting or str(taint["key"]).startswith(names.READINESS_TAINT_PREFIX)


def _held(claims: Iterable[Document], now: dt.datetime, settings: Mapping[str, Any]) -> dict[str, int]:
    """Slots of claims that were not launched yet, or so lately that a count may not show it (row 23)."""
    lag = dt.timedelta(seconds=float(quantities.seconds(settings.get("ledgerLag", "2m"))))
    held: Counter[str] = Counter()
    for claim in claims:
        slot = (claim["metadata"].get("annotations") or {}).get(names.SLOT)
        launched = _launched(claim)
        if slot and (launched is None or launched + lag > now):
            held[slot] += 1
    return held


def _launched(claim: Document) -> dt.datetime | None:
    status = claim.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Launched" and condition["status"] == "True" and status.get("providerID"):
            return catalog.moment(condition["lastTransitionTime"])
    return None


# --- the rest ---------------------------------------------------------------------------------------


def _daemon(document: Document) -> Daemon:
    name = f"{workloads.namespace(document)}/{document['metadata']['name']}"
    return Daemon(name, workloads.template_shape(document))


def _namespaces(by_kind: Mapping[str, list[Document]]) -> dict[str, dict[str, str]]:
    return {
        one["metadata"]["name"]: (one["metadata"].get("labels") or {})
        | {"kubernetes.io/metadata.name": one["metadata"]["name"]}
        for one in by_kind.get("Namespace", ())
    }


def _mentioned(pools: Iterable[Pool], all_shapes: Iterable[Shape]) -> dict[str, frozenset[str]]:
    """Enough values to tell any two conditions of the scenario apart: all that are named, the numbers beside
    them, and one that stands for the rest."""
    named: dict[str, set[str]] = {}
    terms = [pool.requirements for pool in pools] + [term for shape in all_shapes for term in shape.terms]
    for one in (one for term in terms for one in term):
        named.setdefault(one.key, {SOMETHING_ELSE}).update(one.values)
    return {key: frozenset(values | _beside(values)) for key, values in named.items()}


def _beside(values: Iterable[str]) -> set[str]:
    numbers = [int(value) for value in values if value.lstrip("-").isdigit()]
    return {str(number + step) for number in numbers for step in (-1, 1)}
