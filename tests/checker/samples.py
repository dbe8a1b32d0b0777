"""Small scenarios and plans, valid by default: a test only states what it changes.

Two zones, a small type (2 CPU, 0.10 an hour) and a large one (8 CPU, 0.40), one NodePool that allows all.
"""

from typing import Any, TypeAlias

from holdfast import names
from holdfast.api import aws

Document: TypeAlias = dict[str, Any]

A, B = "zone-a", "zone-b"
RESERVATION = "cr-1"


def instance_type(name: str, cpu: int, price: str | None, **labels: Any) -> Document:
    """On demand in both zones, unless `offerings` is given."""
    offered = [{"zone": zone, "capacityType": names.ON_DEMAND} for zone in (A, B)]
    if price is not None:
        offered = [{**one, "price": price} for one in offered]
    offerings = labels.pop("offerings", offered)
    all_labels = {names.ARCH: "amd64", names.OS: "linux", aws.INSTANCE_CPU: str(cpu)} | labels
    capacity = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20"}
    return {"name": name, "labels": all_labels, "capacity": capacity, "offerings": offerings}


def small(**labels: Any) -> Document:
    return instance_type("small", 2, "0.10", **labels)


def large(**labels: Any) -> Document:
    return instance_type("large", 8, "0.40", **labels)


def catalog(*types: Document, reservations: list[Document] | None = None, **settings: Any) -> Document:
    spec = {
        "now": "2026-11-15T10:00:00Z",
        "settings": settings,
        "instanceTypes": list(types or (small(), large())),
        "reservations": reservations or [],
    }
    return {"apiVersion": "holdfast.dev/v1alpha1", "kind": "Catalog", "metadata": {"name": "x"}, "spec": spec}


def reservation(name: str = RESERVATION, **more: Any) -> Document:
    return {"id": name, "instanceType": "small", "zone": A, "total": 1, "ownerID": "111122223333"} | more


def node_class(**spec: Any) -> Document:
    """It selects the reservations of the own account."""
    terms = {"capacityReservationSelectorTerms": [{"ownerID": "111122223333"}]}
    kind = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default"}}
    return kind | {"spec": terms | spec}


def pool(name: str = "default", **more: Any) -> Document:
    """`requirements` and `taints` go into the template's spec, `labels` into its metadata."""
    reference = {"group": aws.GROUP, "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": reference, "requirements": more.pop("requirements", [])}
    spec["taints"] = more.pop("taints", [])
    template = {"metadata": {"labels": more.pop("labels", {})}, "spec": spec}
    kind = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}}
    return kind | {"spec": {"template": template, **more}}


def pod(name: str, cpu: str = "1", **spec: Any) -> Document:
    """Pending unless `nodeName` is given; `labels` and `namespace` go into its metadata."""
    metadata = {"name": name, "labels": spec.pop("labels", {"app": "web"})}
    metadata["namespace"] = spec.pop("namespace", "default")
    own = {"name": "main", "resources": {"requests": {"cpu": cpu}}, "ports": spec.pop("ports", [])}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [own], **spec}}


def node(name: str = "node-1", cpu: str = "2", zone: str = A, **labels: Any) -> Document:
    spec = {"taints": labels.pop("taints", [])}
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
    all_labels = {names.ZONE: zone, names.HOSTNAME: name, names.ARCH: "amd64"} | labels
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": all_labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def wanted(key: str, operator: str, *values: str) -> Document:
    return {"key": key, "operator": operator, "values": list(values)}


def claim(*pods: str, **more: Any) -> Document:
    """A small node on demand in zone a, and nothing else; `extra` requirements go beside the usual ones."""
    extra = more.pop("extra", [])
    found: Document = {
        "nodePool": "default",
        "instanceType": "small",
        "zone": A,
        "capacityType": names.ON_DEMAND,
        "pricePerHour": "0.10",
        "reservationID": None,
        "reservationIDs": [],
        "requests": {"cpu": "64", "pods": "20", "nvidia.com/gpu": "0"},
        "pods": [f"default/{name}" for name in pods],
    } | more
    found.setdefault("instanceTypes", [found["instanceType"]])
    usual = [
        wanted(names.CAPACITY_TYPE, "In", found["capacityType"]),
        wanted(names.ZONE, "In", found["zone"]),
        wanted(names.INSTANCE_TYPE, "In", *found["instanceTypes"]),
        *extra,
    ]
    if found["reservationIDs"]:
        usual.append(wanted(aws.CAPACITY_RESERVATION_ID, "In", *found["reservationIDs"]))
    return {"requirements": usual} | found


def big_claim(*pods: str, **more: Any) -> Document:
    return claim(*pods, **{"instanceType": "large", "pricePerHour": "0.40"} | more)


def slot_claim(*pods: str, slot: str = RESERVATION, **more: Any) -> Document:
    """A small node in a slot."""
    ids = more.pop("reservationIDs", [slot])
    reserved = {
        "capacityType": names.RESERVED,
        "pricePerHour": "0",
        "reservationID": slot,
        "reservationIDs": ids,
    }
    return claim(*pods, **reserved | more)


def plan(*claims: Document, **more: Any) -> Document:
    """With a correct cost, unless `cost` is given. `nodes` maps a node to its pods."""
    bill = sum(round(float(one["pricePerHour"] or 0) * 100) for one in claims)
    text = f"{bill // 100}.{bill % 100:02}"
    nodes = [{"name": k, "pods": [f"default/{p}" for p in v]} for k, v in more.pop("nodes", {}).items()]
    found: Document = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Plan",
        "claims": list(claims),
        "nodes": nodes,
        "unplaced": [],
        "waiting": [],
        "notReserved": [],
        "cost": {
            "perHour": text,
            "baselinePerHour": text,
            "baselineUnplaced": 0,
            "baselineNodes": 0,
            "nodeCostPerHour": "0",
            "packing": "first-fit",
        },
        "slotsLeft": {},
    }
    return found | more


def unplaced(name: str, code: str = "Resources") -> Document:
    return {"pod": f"default/{name}", "reasons": [{"code": code, "subject": "default", "text": "why"}]}


def spread(key: str, **more: Any) -> Document:
    """A pod's spec with a topologySpreadConstraint of maxSkew 1."""
    found = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    found["labelSelector"] = {"matchLabels": {"app": "web"}}
    return {"topologySpreadConstraints": [found | more]}


def neighbours(side: str, key: str, **more: Any) -> Document:
    """A pod's spec: `podAffinity` or `podAntiAffinity` to pods of the app `web`."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}} | more
    return {"affinity": {side: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
