"""The placements of the simulated kube-scheduler against the plain filters and scores over all nodes.

Random steps create, change and delete nodes, pods and volumes, and place pods. The nodes of the reference are built anew
at each placement.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.api.meta import Object, ObjectMeta, OwnerReference
from holdfast.ports import Change
from holdfast.runtime.cache import Caches, key_of
from holdfast.sim.cluster import amounts, filters, kinds, pods, scheduling_volumes, scores
from holdfast.sim.cluster.filters import Candidate
from holdfast.sim.cluster.kinds import Claim, CSINode, Namespace, Node, Pod, StorageClass, Volume
from holdfast.sim.cluster.node_infos import NodeInfo, NodeInfos, NodeUsage, PodInfo, with_one_pod
from holdfast.sim.cluster.placements import Placement, Placements, Refusal
from holdfast.sim.cluster.topology import Neighbours
from manual_ports import ManualClock

Json = dict[str, Any]

NODES = st.sampled_from([f"n{number}" for number in range(6)])
ZONES = st.sampled_from(["a", "b"])
APPS = st.sampled_from(["web", "db"])
TAINT = {"key": "team", "value": "x", "effect": "NoSchedule"}
SOFT = {"key": "old", "effect": "PreferNoSchedule"}
CPU = st.sampled_from(["100m", "500m", "1", "2"])
KEYS = st.sampled_from([names.ZONE, names.HOSTNAME])


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Seldom: most pods have few constraints."""
    return st.one_of(st.none(), st.none(), st.none(), st.none(), strategy)


def selector(app: str) -> Json:
    return {"matchLabels": {"app": app}}


def term(key: str, app: str) -> Json:
    return {"topologyKey": key, "labelSelector": selector(app)}


TERMS = st.builds(term, KEYS, APPS)
SPREADS = st.builds(
    lambda key, app, when, skew, honor: {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": when,
        "labelSelector": selector(app),
        **({"nodeTaintsPolicy": "Honor"} if honor else {}),
    },
    KEYS,
    APPS,
    st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    st.integers(1, 2),
    st.booleans(),
)
PREFERRED_NODE = st.builds(
    lambda zone, weight: {
        "weight": weight,
        "preference": {"matchExpressions": [{"key": names.ZONE, "operator": "In", "values": [zone]}]},
    },
    ZONES,
    st.integers(1, 100),
)


@st.composite
def affinities(draw: st.DrawFn) -> Json:
    found: Json = {}
    preferred = draw(optional(PREFERRED_NODE))
    if preferred:
        found["nodeAffinity"] = {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}
    if only := draw(optional(NODES)):
        fields = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [only]}]}
        required = {"nodeSelectorTerms": [fields]}
        found.setdefault("nodeAffinity", {})["requiredDuringSchedulingIgnoredDuringExecution"] = required
    for side in ("podAffinity", "podAntiAffinity"):
        required, liked = draw(optional(TERMS)), draw(optional(TERMS))
        terms: Json = {}
        if required:
            terms["requiredDuringSchedulingIgnoredDuringExecution"] = [required]
        if liked:
            terms["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": 5, "podAffinityTerm": liked}
            ]
        if terms:
            found[side] = terms
    return found


@st.composite
def specs(draw: st.DrawFn) -> Json:
    port = draw(optional(st.sampled_from([80, 81])))
    ports = [{"containerPort": port, "hostPort": port}] if port else []
    requests = {"cpu": draw(CPU), "memory": draw(st.sampled_from(["1Gi", "2Gi"]))}
    spec: Json = {"containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}]}
    if draw(st.booleans()):
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
    if zone := draw(optional(ZONES)):
        spec["nodeSelector"] = {names.ZONE: zone}
    if affinity := draw(optional(affinities())):
        spec["affinity"] = affinity
    if spread := draw(optional(SPREADS)):
        spec["topologySpreadConstraints"] = [spread]
    if claim := draw(optional(st.sampled_from(["c-bound", "c-late", "c-none"]))):
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return spec


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    name = draw(NODES)
    labels = {names.ZONE: draw(ZONES), names.HOSTNAME: name}
    odd = draw(st.integers(0, 12))
    if odd == 0:
        labels[names.HOSTNAME] = "n0"
    elif odd == 1:
        del labels[draw(KEYS)]
    taints = [taint for taint in (TAINT, SOFT) if draw(st.integers(0, 5)) == 0]
    spec: Json = {"taints": taints, **({"unschedulable": True} if draw(st.integers(0, 7)) == 0 else {})}
    size = {"cpu": draw(st.sampled_from(["4", "4", "2"])), "memory": "8Gi", "pods": "4"}
    return Node(metadata=ObjectMeta(name=name, labels=labels), spec=spec, status={"allocatable": size})


OWNERS = st.sampled_from(["", "one", "two"])
POD_NUMBERS = st.integers(0, 19)
TEMPLATES = st.lists(specs(), min_size=1, max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("node"), nodes()),
    st.tuples(st.just("node"), nodes()),
    st.tuples(st.just("no_node"), NODES),
    st.tuples(st.just("place"), st.tuples(POD_NUMBERS, st.integers(0, 2), APPS, OWNERS)),
    st.tuples(st.just("place"), st.tuples(POD_NUMBERS, st.integers(0, 2), APPS, OWNERS)),
    st.tuples(st.just("place"), st.tuples(POD_NUMBERS, st.integers(0, 2), APPS, OWNERS)),
    st.tuples(st.just("deliver"), POD_NUMBERS),
    st.tuples(st.just("end"), POD_NUMBERS),
    st.tuples(st.just("terminate"), POD_NUMBERS),
    st.tuples(st.just("no_pod"), POD_NUMBERS),
)


class Environment:
    def __init__(self, templates: list[Json]) -> None:
        self.templates = templates
        self.version = 1
        self.caches = Caches(kinds.WATCHED, clock=ManualClock())
        self.node_infos = NodeInfos(self.caches)
        self.placements = Placements(self.node_infos)
        self.bound: dict[str, Pod] = {}  # pods with a node, by uid; the watch has not delivered all of them
        self.refused: list[tuple[Pod, Refusal]] = []
        self.spaces = {"default": {"name": "default"}}
        self.put(Namespace(metadata=ObjectMeta(name="default", labels=self.spaces["default"])))
        self.volumes()

    def volumes(self) -> None:
        inside = {"key": names.ZONE, "operator": "In", "values": ["a"]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [inside]}]}
        volume = {"csi": {"driver": "ebs"}, "nodeAffinity": {"required": required}}
        self.put(Volume(metadata=ObjectMeta(name="v"), spec=volume))
        allowed = [{"matchLabelExpressions": [{"key": names.ZONE, "values": ["b"]}]}]
        self.put(
            StorageClass(
                metadata=ObjectMeta(name="late"),
                provisioner="ebs",
                volume_binding_mode="WaitForFirstConsumer",
                allowed_topologies=allowed,
            )
        )
        for name, spec, phase in (
            ("c-bound", {"volumeName": "v"}, "Bound"),
            ("c-late", {"storageClassName": "late"}, "Pending"),
        ):
            meta = ObjectMeta(name=name, namespace="default")
            self.put(Claim(metadata=meta, spec=spec, status={"phase": phase}))
        for name in ("n0", "n1"):
            driver = {"name": "ebs", "allocatable": {"count": 1}}
            self.put(CSINode(metadata=ObjectMeta(name=name), spec={"drivers": [driver]}))

    def put(self, obj: Object) -> None:
        self.version += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        self.caches.of(type(obj)).apply(Change("MODIFIED", msgspec.structs.replace(obj, metadata=meta)))

    def drop(self, obj: Object | None) -> None:
        if obj is not None:
            self.version += 1
            meta = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
            self.caches.of(type(obj)).apply(Change("DELETED", msgspec.structs.replace(obj, metadata=meta)))

    def step(self, what: str, value: Any) -> None:
        getattr(self, what)(value)
        for pod, refusal in self.refused:
            if refusal.persists:
                assert not self.plain(pod, scheduling_volumes.find(pod, self.caches)).node

    def node(self, node: Node) -> None:
        self.put(node)

    def no_node(self, name: str) -> None:
        self.drop(self.caches.of(Node).get(("", name)))

    def place(self, value: tuple[int, int, str, str]) -> None:
        number, template, app, owner = value
        for each in range(number, number + 4):
            self.place_one(new_pod(each, self.templates[template % len(self.templates)], app, owner))

    def place_one(self, pod: Pod) -> None:
        if pod.metadata.uid in self.bound:
            return
        volumes = scheduling_volumes.find(pod, self.caches)
        placement = self.placements.find(pod, volumes, self.spaces)
        assert placement == self.plain(pod, volumes)
        if placement.node:
            self.node_infos.add(pod, placement.node)
            spec = {**pod.spec, "nodeName": placement.node}
            self.bound[pod.metadata.uid] = msgspec.structs.replace(pod, spec=spec)
        elif placement.refusal is not None:
            self.refused.append((pod, placement.refusal))

    def deliver(self, number: int) -> None:
        if pod := self.bound.get(f"p{number}"):
            self.put(pod)

    def change(self, pod: Pod) -> None:
        self.bound[pod.metadata.uid] = pod
        self.put(pod)

    def end(self, number: int) -> None:
        if pod := self.bound.get(f"p{number}"):
            self.change(msgspec.structs.replace(pod, status={"phase": "Succeeded"}))

    def terminate(self, number: int) -> None:
        if pod := self.bound.get(f"p{number}"):
            meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))
            self.change(msgspec.structs.replace(pod, metadata=meta))

    def no_pod(self, number: int) -> None:
        if pod := self.bound.pop(f"p{number}", None):
            if self.caches.of(Pod).get(key_of(pod)) is None:
                self.put(pod)
            self.drop(pod)

    def plain(self, pod: Pod, volumes: scheduling_volumes.Volumes) -> Placement:
        infos = self.all()
        if volumes.missing:
            return Placement(why=f"0/{len(infos)} nodes are available: {volumes.missing}.")
        neighbours = Neighbours(pod, infos, self.spaces)
        candidate = Candidate(pod, filters.needs_of(pod.spec), neighbours, volumes)
        reasons = [filters.refusals(candidate, info) for info in infos]
        fitting = [info for info, why in zip(infos, reasons, strict=True) if not why]
        if fitting:
            return Placement(scores.best(candidate, fitting).name)
        return Placement(why=filters.explain(len(infos), reasons))

    def all(self) -> list[NodeInfo]:
        found = []
        for node in sorted(self.caches.of(Node), key=lambda node: node.metadata.name):
            usage = NodeUsage()
            for pod in self.bound.values():
                if pods.node_of(pod) == node.metadata.name and not pods.ended(pod):
                    usage.add(PodInfo(pod, with_one_pod(pod.spec), tuple(pods.host_ports(pod.spec))))
            found.append(NodeInfo(node, usage, amounts.of(node.status["allocatable"])))
        return found


def new_pod(number: int, spec: Json, app: str, owner: str) -> Pod:
    owners = (
        (OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=owner, uid=owner, controller=True),)
        if owner
        else ()
    )
    meta = ObjectMeta(
        name=f"p{number}",
        namespace="default",
        uid=f"p{number}",
        labels={"app": app},
        owner_references=owners,
    )
    return Pod(metadata=meta, spec=spec, status={"phase": "Pending"})


@settings(max_examples=200)
@given(TEMPLATES, st.lists(nodes(), min_size=3, max_size=6), st.lists(STEPS, min_size=10, max_size=40))
def test_a_placement_is_that_of_the_plain_filters_and_scores(
    templates: list[Json], first: list[Node], steps: list[tuple[str, Any]]
) -> None:
    env = Environment(templates)
    for node in first:
        env.node(node)
    for what, value in steps:
        env.step(what, value)
