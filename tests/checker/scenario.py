"""A scenario as values: NodePools, nodes, pods, instance types, and the reservations that each NodePool may use."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from checker import catalog, labels, quantities, shapes, volumes, workloads
from checker.catalog import InstanceType, Reservation
from checker.labels import Expression, Taint
from checker.quantities import Resources
from checker.shapes import Shape
from checker.volumes import Storage
from checker.workloads import Document, Pod
from holdfast import names
from holdfast.api import aws

Documents: TypeAlias = list[dict[str, Any]]

SOMETHING_ELSE: Final = "~something-else"  # stands for every value that the scenario does not mention


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    weight: int
    labels: Mapping[str, str]
    requirements: tuple[Expression, ...]
    taints: tuple[Taint, ...]
    limits: Resources
    selected: frozenset[str]  # ids of the reservations that its EC2NodeClass selects
    wait_s: float  # how long its pods may wait for a slot
    opens: bool = True  # whether nodes are launched for it (S-10)


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    capacity: Resources
    allocatable: Resources
    pool: str | None
    deleting: bool
    volume_limits: Mapping[str, int] = field(default_factory=dict)  # by storage driver; others are unlimited


@dataclass(frozen=True, slots=True)
class Daemon:
    name: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that start together: of a PodGroup, or with the same labels."""

    least: int | None  # None: the PodGroup does not exist
    together: str | None  # the node label of which all pods need the same value
    since: dt.datetime | None = None  # its creation; None: of labels


@dataclass(frozen=True, slots=True)
class Scenario:
    now: dt.datetime
    settings: Mapping[str, Any]
    pools: Mapping[str, Pool]
    types: Mapping[str, InstanceType]
    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    daemons: tuple[Daemon, ...]
    namespaces: Mapping[str, Mapping[str, str]]
    storage: Storage
    held: Mapping[str, int]  # slots of launches that the counts do not include yet
    mentioned: Mapping[str, frozenset[str]]  # every value that the scenario names, by label key
    gangs: Mapping[str, Gang] = field(default_factory=dict)  # by namespace and name

    def reservations(self) -> dict[str, Reservation]:
        return {found.id: found for one in self.types.values() for _, found in one.reserved()}

    def free(self, found: Reservation) -> int:
        """Slots that a plan may use; 0 for an unhealthy reservation."""
        return max(0, found.available - self.held.get(found.id, 0)) if found.healthy else 0

    def shapes(self) -> set[Shape]:
        return {pod.shape for pod in self.pods.values()}

    def bound(self, node: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node == node]

    def pending(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node is None]


def read(documents: Documents) -> Scenario:
    by_kind: dict[str, list[Document]] = {}
    for one in documents:
        by_kind.setdefault(one["kind"], []).append(one)
    spec = by_kind["Catalog"][0]["spec"]
    now, settings = catalog.moment(spec["now"]), spec.get("settings") or {}
    types = catalog.read(spec, now)
    storage = volumes.read([*documents, *workloads.made_claims(documents)])
    pools = _pools(by_kind, types, settings)
    # Without a NodePool that launches nodes, the limits of existing nodes' types are unknown.
    launched = types if any(pool.opens for pool in pools.values()) else {}
    nodes = {one.name: one for one in _nodes(by_kind, launched, storage)}
    deleting_nodes = {one.name for one in nodes.values() if one.deleting}
    pods = {
        pod.name: pod
        for pod in _lasting(
            workloads.read(documents, deleting_nodes, now), catalog.reservations(spec, now), now, settings
        )
    }
    daemons = tuple(_daemon(one, by_kind.get("Pod", ())) for one in by_kind.get("DaemonSet", ()))
    return Scenario(
        now=now,
        settings=settings,
        pools=pools,
        types=types,
        nodes=nodes,
        pods=pods,
        daemons=daemons,
        namespaces=_namespaces(by_kind),
        storage=storage,
        gangs=_gangs(by_kind.get("PodGroup", ()), pods.values()),
        held=_held(by_kind.get("NodeClaim", ()), now, settings),
        mentioned=_mentioned(
            pools.values(), [pod.shape for pod in pods.values()] + [d.shape for d in daemons]
        ),
    )


def _lasting(
    pods: Iterable[Pod], reservations: Iterable[Reservation], now: dt.datetime, settings: Mapping[str, Any]
) -> Iterator[Pod]:
    """The pods, whose shapes exclude the blocks that are drained before they end."""
    blocks = {found.id: found for found in reservations if found.drains is not None}
    starts = now + dt.timedelta(seconds=float(quantities.seconds(settings.get("startEstimate", "5m"))))
    known: dict[tuple[Shape, tuple[str, ...]], Shape] = {}
    for pod in pods:
        excluded = tuple(sorted(id_ for id_, block in blocks.items() if _ends_too_soon(block, pod, starts)))
        if not excluded:
            yield pod
            continue
        key = pod.shape, excluded
        if key not in known:
            term = (Expression(aws.CAPACITY_RESERVATION_ID, "NotIn", excluded),)
            known[key] = replace(pod.shape, lasting=term)
        yield replace(pod, shape=known[key])


def _ends_too_soon(block: Reservation, pod: Pod, starts: dt.datetime) -> bool:
    ends = [] if pod.ends is None else [pod.ends]
    if pod.lasts_s is not None:
        begins = starts if block.starts is None else max(starts, block.starts)
        ends.append(begins + dt.timedelta(seconds=float(pod.lasts_s)))
    assert block.drains is not None
    return bool(ends) and min(ends) > block.drains


def _gangs(groups: Iterable[Document], pods: Iterable[Pod]) -> dict[str, Gang]:
    """Those that pods name, without PodGroups whose pods are scheduled one by one. Gangs of labels need all of their pods."""
    pods = tuple(pods)
    known = {f"{workloads.namespace(one)}/{one['metadata']['name']}": one for one in groups}
    found = {}
    for name in {pod.group for pod in pods if pod.group}:
        group = known.get(name)
        if name.count("/") > 1:
            found[name] = Gang(sum(pod.group == name for pod in pods), None)
        elif group is None:
            found[name] = Gang(None, None)
        elif "gang" in (spec := group["spec"])["schedulingPolicy"]:
            keys = [one["key"] for one in (spec.get("schedulingConstraints") or {}).get("topology") or ()]
            created = group["metadata"].get("creationTimestamp")
            since = None if created is None else catalog.moment(created)
            found[name] = Gang(spec["schedulingPolicy"]["gang"]["minCount"], keys[0] if keys else None, since)
    return found


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
    template_labels = (template.get("metadata") or {}).get("labels") or {}
    own = {names.NODEPOOL: metadata["name"], aws.EC2NODECLASS: node_class}
    wait = (metadata.get("annotations") or {}).get(
        names.RESERVATION_WAIT, settings.get("reservationWait", "0s")
    )
    return Pool(
        name=metadata["name"],
        weight=spec.get("weight") or 0,
        labels={labels.name(key): value for key, value in template_labels.items()} | own,
        requirements=labels.expressions(template["spec"].get("requirements")),
        taints=tuple(template["spec"].get("taints") or ()),
        limits=quantities.resources(spec.get("limits")),
        selected=frozenset(
            found.id for found in known if _selects_reservation(classes.get(node_class), found)
        ),
        wait_s=float(quantities.seconds(wait)),
        opens=_opens(document),
    )


def _opens(pool: Document) -> bool:
    """False for a NodePool that is static, being deleted, not Ready, or of another autoscaler (S-10)."""
    reference = pool["spec"]["template"]["spec"]["nodeClassRef"]
    ready = [one for one in (pool.get("status") or {}).get("conditions") or () if one["type"] == "Ready"]
    return (
        pool["spec"].get("replicas") is None
        and not pool["metadata"].get("deletionTimestamp")
        and all(one["status"] == "True" for one in ready)
        and (reference.get("group", aws.GROUP), reference["kind"]) == (aws.GROUP, "EC2NodeClass")
    )


def _selects_reservation(node_class: Document | None, found: Reservation) -> bool:
    """By the status of the EC2NodeClass if it has one, otherwise by its selector terms."""
    if node_class is None:
        return False
    status = node_class.get("status") or {}
    stated = [
        *(status.get("capacityReservations") or ()),
        *(status.get("upcomingCapacityReservations") or ()),
    ]
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


# --- nodes and launched claims ----------------------------------------------------------------------


def _nodes(
    by_kind: Mapping[str, list[Document]], types: Mapping[str, InstanceType], storage: Storage
) -> Iterator[Node]:
    """Nodes, and launched claims without a node. A node is deleting if its claim is (ST-13)."""
    documents = by_kind.get("Node", [])
    claims = {(one.get("status") or {}).get("providerID"): one for one in by_kind.get("NodeClaim", ())}
    appeared = {one["spec"].get("providerID") for one in documents}
    for one in documents:
        node = _node(one, types, storage)
        claim = claims.get(one["spec"].get("providerID") or "no claim", one)
        yield replace(node, deleting=bool(claim["metadata"].get("deletionTimestamp")))
    for provider_id, one in claims.items():
        if provider_id and provider_id not in appeared:
            yield _node(one, types, storage)


def _node(document: Document, types: Mapping[str, InstanceType], storage: Storage) -> Node:
    metadata, status, taints = (
        document["metadata"],
        document.get("status") or {},
        document["spec"].get("taints"),
    )
    found = {labels.name(key): str(value) for key, value in (metadata.get("labels") or {}).items()}
    lasting_taints = tuple(taints or ())
    if names.NODEPOOL in found and found.get(names.INITIALIZED) != "true":
        lasting_taints = tuple(taint for taint in lasting_taints if not _is_startup_taint(taint))
    return Node(
        name=metadata["name"],
        labels=found,
        taints=lasting_taints,
        capacity=quantities.resources(status.get("capacity")),
        allocatable=quantities.resources(status.get("allocatable")),
        pool=found.get(names.NODEPOOL),
        deleting=bool(metadata.get("deletionTimestamp")),
        volume_limits=_volume_limits(
            types.get(found.get(names.INSTANCE_TYPE, "")), storage.limits.get(metadata["name"], {})
        ),
    )


def _volume_limits(one: InstanceType | None, reported: Mapping[str, int | None]) -> dict[str, int]:
    """The limits that the node's drivers report; for a driver that has not reported, the limit of the instance type. A driver
    that reports no count has no limit (S-95)."""
    stated = {
        driver: count
        for driver, count in (one.volume_limits if one else {}).items()
        if driver not in reported
    }
    return stated | {driver: count for driver, count in reported.items() if count is not None}


def _is_startup_taint(taint: Taint) -> bool:
    """Whether the taint is removed when the node has started (S-52)."""
    starting = (
        names.NOT_READY_TAINT,
        names.UNREACHABLE_TAINT,
        names.UNINITIALIZED_TAINT,
        names.UNREGISTERED_TAINT,
    )
    return taint["key"] in starting or str(taint["key"]).startswith(names.READINESS_TAINT_PREFIX)


def _held(claims: Iterable[Document], now: dt.datetime, settings: Mapping[str, Any]) -> dict[str, int]:
    """Slots of claims that are not launched, or were launched so recently that a count may not include them (row 23). A claim
    that is deleted before its launch holds none."""
    lag = dt.timedelta(seconds=float(quantities.seconds(settings.get("ledgerLag", "2m"))))
    held: Counter[str] = Counter()
    for claim in claims:
        slot = (claim["metadata"].get("annotations") or {}).get(names.RESERVATION_ID)
        launched = _launched(claim)
        if launched is None and claim["metadata"].get("deletionTimestamp"):
            continue
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


def _daemon(document: Document, pods: Iterable[Document]) -> Daemon:
    """The shape of a DaemonSet is that of its newest pod, with the node affinity of the template; without pods, the template (S-56)."""
    where, template = workloads.namespace(document), document["spec"]["template"]
    name = f"{where}/{document['metadata']['name']}"
    own = [one for one in pods if workloads.is_of_daemon_set(one, name)]
    if not own:
        return Daemon(name, workloads.template_shape(document))
    newest = max(own, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"]))
    affinity = dict(newest["spec"].get("affinity") or {})
    affinity["nodeAffinity"] = (template["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return Daemon(name, shapes.read(newest["metadata"], {**newest["spec"], "affinity": affinity}, where))


def _namespaces(by_kind: Mapping[str, list[Document]]) -> dict[str, dict[str, str]]:
    return {
        one["metadata"]["name"]: (one["metadata"].get("labels") or {})
        | {"kubernetes.io/metadata.name": one["metadata"]["name"]}
        for one in by_kind.get("Namespace", ())
    }


def _mentioned(pools: Iterable[Pool], all_shapes: Iterable[Shape]) -> dict[str, frozenset[str]]:
    """Enough values to distinguish any two conditions of the scenario: all mentioned values, the neighbouring numbers, and one
    that stands for the rest."""
    named: dict[str, set[str]] = {}
    terms = [pool.requirements for pool in pools] + [term for shape in all_shapes for term in shape.terms]
    for one in (one for term in terms for one in term):
        named.setdefault(one.key, {SOMETHING_ELSE}).update(one.values)
    return {key: frozenset(values | _beside(values)) for key, values in named.items()}


def _beside(values: Iterable[str]) -> set[str]:
    numbers = [int(value) for value in values if value.lstrip("-").isdigit()]
    return {str(number + step) for number in numbers for step in (-1, 1)}
