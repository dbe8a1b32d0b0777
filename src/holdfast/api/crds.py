"""The CustomResourceDefinitions of our kinds, as values.

Written to charts/holdfast/crds by scripts/generate_crds.py, served by the embedded API server, and the
source of `validation`: one description of the API, used everywhere.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.schema import structural

Column = tuple[str, str, str]  # name, type, JSONPath

_READY = '.status.conditions[?(@.type=="Ready")].status'
_SLOTS: Column = ("Slots", "string", ".status.reservationSlots.summary")  # free/total
_AGE: Column = ("Age", "date", ".metadata.creationTimestamp")


@cache
def all_crds() -> tuple[dict[str, Any], ...]:
    """Every CRD, in the order a chart installs them. Do not change what it returns."""
    return (nodepool(), nodeclaim(), ec2nodeclass(), holdfastnodeclass())


def nodepool() -> dict[str, Any]:
    return _crd(
        NodePool,
        columns=(
            ("NodeClass", "string", ".spec.template.spec.nodeClassRef.name"),
            ("Nodes", "string", ".status.nodes"),
            ("Ready", "string", _READY),
            _AGE,
        ),
        wide_columns=(
            ("Weight", "integer", ".spec.weight"),
            ("CPU", "string", ".status.resources.cpu"),
            ("Memory", "string", ".status.resources.memory"),
        ),
        subresources={
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
        },
    )


def nodeclaim() -> dict[str, Any]:
    return _crd(
        NodeClaim,
        columns=(
            ("Type", "string", r".metadata.labels.node\.kubernetes\.io/instance-type"),
            ("Capacity", "string", r".metadata.labels.karpenter\.sh/capacity-type"),
            ("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone"),
            ("Node", "string", ".status.nodeName"),
            ("Reservation", "string", r".metadata.labels.karpenter\.k8s\.aws/capacity-reservation-id"),
            ("Ready", "string", _READY),
            _AGE,
        ),
        wide_columns=(
            ("ImageID", "string", ".status.imageID"),
            ("ID", "string", ".status.providerID"),
            ("NodePool", "string", r".metadata.labels.karpenter\.sh/nodepool"),
            ("NodeClass", "string", ".spec.nodeClassRef.name"),
            ("Drifted", "string", '.status.conditions[?(@.type=="Drifted")].status'),
        ),
    )


def ec2nodeclass() -> dict[str, Any]:
    return _crd(
        EC2NodeClass,
        short_names=("ec2nc", "ec2ncs"),
        columns=(_SLOTS, ("Ready", "string", _READY), _AGE),
        wide_columns=(("Role", "string", ".spec.role"),),
    )


def holdfastnodeclass() -> dict[str, Any]:
    return _crd(
        HoldfastNodeClass,
        singular="holdfastnodeclass",
        short_names=("hfnc",),
        columns=(_SLOTS, ("Ready", "string", _READY), _AGE),
        wide_columns=(("Role", "string", ".spec.role"),),
    )


def _crd(
    kind: type[Object],
    *,
    columns: Sequence[Column],
    wide_columns: Sequence[Column],
    short_names: Sequence[str] = (),
    singular: str = "",
    subresources: dict[str, Any] | None = None,
) -> dict[str, Any]:
    group, version = kind.api_version.split("/")
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": singular or kind.kind.lower(),
        "categories": ["karpenter"],
    }
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        *(_column(column) for column in columns),
                        *(_column(column) | {"priority": 1} for column in wide_columns),
                    ],
                    "schema": {"openAPIV3Schema": _root_schema(kind)},
                    "subresources": subresources or {"status": {}},
                }
            ],
        },
    }


def _root_schema(kind: type[Object]) -> dict[str, Any]:
    schema = structural(kind)
    # The API server validates metadata itself and allows no schema for it.
    properties = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
    }
    return {**schema, "properties": {**schema["properties"], **properties}}


def _column(column: Column) -> dict[str, Any]:
    name, type_, path = column
    return {"name": name, "type": type_, "jsonPath": path}
