"""Random clusters: nodes with their pods, claims that are being launched, DaemonSets, namespaces."""

from typing import Any, Final

from checker import catalog, generate_pods, generate_pools, generate_storage, quantities, shapes
from checker.dice import Dice
from checker.generate_catalog import Document
from holdfast import names
from holdfast.api import aws

_STARTED: Final = "2026-11-15T08:00:00Z"


def namespaces() -> list[Document]:
    labels: dict[str, Document] = {"default": {"env": "prod"}, "shop": {"env": "test"}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": found}}
        for name, found in labels.items()
    ]


def daemon_sets(dice: Dice) -> list[Document]:
    return [_daemon_set(dice, index) for index in range(dice.pick((0, 0, 1, 1, 2, 3)))]


def _daemon_set(dice: Dice, index: int) -> Document:
    requests = {"cpu": dice.pick(("20m", "100m", "1")), "memory": "64Mi"}
    container: Document = {
        "name": "main",
        "image": "example.com/agent:1",
        "resources": {"requests": requests},
    }
    if dice.chance(0.3):
        container["ports"] = [{"containerPort": 9100, "hostPort": 9100 + index}]
    spec: Document = {"containers": [container]}
    if dice.chance(0.3):
        kind = {names.CAPACITY_TYPE: dice.pick(names.CAPACITY_TYPES)}
        spec["nodeSelector"] = dice.pick(({names.ARCH: "amd64"}, kind, {generate_pools.TEAM: "ml"}))
    if dice.chance(0.5):
        spec["tolerations"] = [{"operator": "Exists"}]
    labels = {"app": f"agent-{index}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": f"agent-{index}", "namespace": "default", "uid": f"uid-agent-{index}"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def nodes(dice: Dice, documents: list[Document]) -> list[Document]:
    """Nodes with and without a NodePool, each with some pods, and claims that hold slots."""
    found: list[Document] = []
    pools = [one for one in documents if one["kind"] == "NodePool"]
    types = next(one for one in documents if one["kind"] == "Catalog")["spec"]["instanceTypes"]
    everywhere = [one for one in documents if one["kind"] == "DaemonSet" and _runs_everywhere(one)]
    for index in range(dice.pick((0, 0, 1, 2, 3, 6))):
        pool = dice.pick(pools) if dice.chance(0.8) else None
        found += _node(dice, f"node-{index}", dice.pick(types), pool)
        found += [_daemon_pod(one, f"node-{index}") for one in everywhere if dice.chance(0.5)]
    return found + _holders(dice, documents)


def _runs_everywhere(daemon_set: Document) -> bool:
    spec = daemon_set["spec"]["template"]["spec"]
    return "nodeSelector" not in spec and "tolerations" in spec and "ports" not in spec["containers"][0]


def _daemon_pod(daemon_set: Document, node: str) -> Document:
    name, template = daemon_set["metadata"]["name"], daemon_set["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": name,
        "uid": f"uid-{name}",
        "controller": True,
    }
    own = {"name": f"{name}-{node}", "namespace": "default", "ownerReferences": [owner]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": template["metadata"] | own,
        "spec": template["spec"] | {"nodeName": node},
        "status": {"phase": "Running"},
    }


def _node(dice: Dice, name: str, instance_type: Document, pool: Document | None) -> list[Document]:
    offering = dice.pick([one for one in instance_type["offerings"] if "reservation" not in one])
    labels = _node_labels(dice, name, instance_type, offering, pool)
    taints = pool["spec"]["template"]["spec"].get("taints", []) if pool else []
    capacity = quantities.resources(instance_type["capacity"])
    allocatable = catalog.allocatable(capacity, quantities.resources(instance_type["overhead"]))
    status = {"capacity": quantities.amounts(capacity), "allocatable": quantities.amounts(allocatable)}
    provider_id = f"aws:///{offering['zone']}/i-{name}"
    found: list[Document] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"providerID": provider_id, "taints": taints},
            "status": status | {"conditions": [{"type": "Ready", "status": "True"}]},
        }
    ]
    if pool:
        found.append(_registered(name, labels, taints, pool, status | {"providerID": provider_id}))
    if dice.chance(0.3):
        drivers = [
            {"name": generate_storage.DRIVER, "nodeID": name, "allocatable": {"count": dice.number(0, 2)}}
        ]
        found.append(_csi_node(name, drivers))
    return found + _running(dice, name, allocatable)


def _node_labels(
    dice: Dice, name: str, instance_type: Document, offering: Document, pool: Document | None
) -> Document:
    labels: Document = {
        **instance_type["labels"],
        names.INSTANCE_TYPE: instance_type["name"],
        names.ZONE: offering["zone"],
        aws.ZONE_ID: offering["zoneID"],
        names.HOSTNAME: name,
    }
    if pool is None:
        return labels
    template = pool["spec"]["template"]
    racks = [one for one in template["spec"]["requirements"] if one["key"] == generate_pools.RACK]
    rack_label = {generate_pools.RACK: dice.pick(racks[0]["values"])} if racks else {}
    own = {
        names.NODEPOOL: pool["metadata"]["name"],
        names.CAPACITY_TYPE: offering["capacityType"],
        aws.EC2NODECLASS: template["spec"]["nodeClassRef"]["name"],
        names.REGISTERED: "true",
        names.INITIALIZED: "true",
    }
    return {**labels, **template["metadata"]["labels"], **rack_label, **own}


def _registered(name: str, labels: Document, taints: list[Any], pool: Document, status: Document) -> Document:
    stages = ("Launched", "Registered", "Initialized", "Ready")
    done = [_condition(one, _STARTED) for one in stages]
    claim = node_claim(f"{name}-claim", pool, labels)
    claim["spec"]["taints"] = taints
    return claim | {"status": status | {"nodeName": name, "conditions": done}}


def _condition(name: str, since: str) -> Document:
    return {"type": name, "status": "True", "lastTransitionTime": since, "reason": name, "message": ""}


def node_claim(name: str, pool: Document, labels: Document) -> Document:
    spec = {
        "nodeClassRef": pool["spec"]["template"]["spec"]["nodeClassRef"],
        "requirements": pool["spec"]["template"]["spec"]["requirements"],
    }
    own = {**labels, names.NODEPOOL: pool["metadata"]["name"]}
    metadata = {"name": name, "labels": own, "creationTimestamp": _STARTED}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}


def _csi_node(name: str, drivers: list[Document]) -> Document:
    spec = {"drivers": drivers}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": spec}


def _running(dice: Dice, node: str, allocatable: quantities.Resources) -> list[Document]:
    """Pods that already run on the node, as long as they fit."""
    found: list[Document] = []
    left, ports = allocatable, set[Any]()
    for index in range(dice.number(0, 5)):
        template = generate_pods.template(dice, f"app-{dice.number(0, 3)}", [], [])
        spec = {key: value for key, value in template["spec"].items() if key in ("containers", "affinity")}
        needed, wanted = shapes.requests(spec), set(shapes.ports(spec))
        if quantities.fits(needed, left) and not wanted & ports:
            left, ports = quantities.less(left, needed), ports | wanted
            metadata = template["metadata"] | {
                "name": f"run-{node}-{index}",
                "namespace": dice.pick(generate_storage.NAMESPACES),
            }
            found.append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": metadata,
                    "spec": spec | {"nodeName": node},
                    "status": {"phase": "Running"},
                }
            )
    return found


def _holders(dice: Dice, documents: list[Document]) -> list[Document]:
    """Claims that hold a slot which EC2 still counts as free: one that is not launched, one that was just launched.
    Only of NodePools without limits: the resources of a node without an instance type are not defined."""
    pools = [one for one in documents if one["kind"] == "NodePool" and "limits" not in one["spec"]]
    spec = next(one for one in documents if one["kind"] == "Catalog")["spec"]
    free = [one for one in spec["reservations"] if one["available"] > 0]
    if not pools or not free:
        return []
    found = []
    if dice.chance(0.2):
        found.append(node_claim("holder", dice.pick(pools), {}))
        found[-1]["metadata"]["annotations"] = {names.RESERVATION_ID: dice.pick(free)["id"]}
    if dice.chance(0.15):
        found.append(_launching(dice, dice.pick(pools), dice.pick(free), spec["instanceTypes"]))
    return found


def _launching(dice: Dice, pool: Document, slot: Document, types: list[Document]) -> Document:
    """Launched half a minute ago: pods may be placed on it, and EC2's count does not include its slot yet."""
    own = next(one for one in types if one["name"] == slot["instanceType"])
    offering = {"zone": slot["zone"], "zoneID": f"usw2-az{slot['zone'][-1]}", "capacityType": names.RESERVED}
    labels = _node_labels(dice, "launching", own, offering, pool) | {
        aws.CAPACITY_RESERVATION_ID: slot["id"],
        aws.CAPACITY_RESERVATION_TYPE: slot["type"],
        aws.CAPACITY_RESERVATION_INTERRUPTIBLE: str(slot.get("interruptible", False)).lower(),
    }
    for key in (names.HOSTNAME, names.REGISTERED, names.INITIALIZED):
        del labels[key]
    claim = node_claim("launching", pool, labels)
    claim["metadata"]["annotations"] = {names.RESERVATION_ID: slot["id"]}
    claim["spec"]["taints"] = pool["spec"]["template"]["spec"].get("taints", [])
    capacity = quantities.resources(own["capacity"])
    allocatable = catalog.allocatable(capacity, quantities.resources(own["overhead"]))
    claim["status"] = {
        "providerID": f"aws:///{slot['zone']}/i-launching",
        "capacity": quantities.amounts(capacity),
        "allocatable": quantities.amounts(allocatable),
        "conditions": [_condition("Launched", "2026-11-15T09:59:30Z")],
    }
    return claim
