"""Documents of a file of `holdfast snapshot`, and the study of a simulation that starts from them."""

import json
from pathlib import Path
from typing import Any

from holdfast.cli import studies
from holdfast.cli.studies import Variant
from holdfast.simulate.study import Study

Json = dict[str, Any]
SLOTS = "cr-01"


def offering(capacity_type: str, price: str, **fields: Any) -> Json:
    return {"zone": "us-west-2a", "capacityType": capacity_type, "price": price} | fields


def instance_type(name: str = "m5.large", *offerings: Json) -> Json:
    return {
        "name": name,
        "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
        "offerings": list(offerings) or [offering("on-demand", "0.5")],
        "nodeClasses": ["special"],
    }


def reservation(id_: str = SLOTS, **fields: Any) -> Json:
    return {"id": id_, "instanceType": "m5.large", "zone": "us-west-2a", "total": 4, "available": 4} | fields


def catalog(**spec: Any) -> Json:
    plain: Json = {"now": "2026-11-16T08:00:00Z", "instanceTypes": [instance_type()]}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Catalog",
        "metadata": {"name": "snapshot"},
        "spec": plain | spec,
    }


def pool(**fields: Any) -> Json:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "special"}
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["reserved", "on-demand"]}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": [on_demand]}}},
    } | fields


def node(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": f"aws:///us-west-2a/i-{name}"},
    }


def pod(name: str, owner: str = "", node_name: str = "", kind: str = "ReplicaSet", **spec: Any) -> Json:
    version = "batch/v1" if kind == "Job" else "apps/v1"
    owners = [{"apiVersion": version, "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}]
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    meta: Json = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": {"app": owner or "bare"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta | ({"ownerReferences": owners} if owner else {}),
        "spec": {"containers": [container], **({"nodeName": node_name} if node_name else {}), **spec},
    }


def read(folder: Path, *documents: Json, changes: Json | None = None) -> list[Study]:
    path, variant = folder / "snapshot.json", folder / "variant.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    variant.write_text(json.dumps(changes))
    return studies.read([str(path)], [Variant("more", str(variant))] if changes else (), (), "1h")


def of_kind(study: Study, kind: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: dict(one) for one in study.objects if one["kind"] == kind}
