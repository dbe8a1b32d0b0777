"""Scenario documents of the benchmarks: the same file for Karpenter's scheduler and for Holdfast's planner."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from builders import ec2nodeclass_document, nodepool_document
from holdfast import names
from holdfast.api import aws
from holdfast.api.pods import Pod
from holdfast.model import prices, resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirement import Operator
from holdfast.model.resources import Resources

NOW = "2026-11-15T10:00:00Z"


def scenario(
    pods: Iterable[Pod],
    types: Iterable[InstanceType],
    requirements: Sequence[dict[str, Any]] = (),
    reservations: Sequence[dict[str, Any]] = (),
) -> list[dict[str, Any]]:
    """One NodePool, its instance types, and pods; its EC2NodeClass selects every reservation."""
    spec = {
        "now": NOW,
        "instanceTypes": [instance_type(one) for one in types],
        "reservations": list(reservations),
    }
    catalog = {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Catalog",
        "metadata": {"name": "bench"},
        "spec": spec,
    }
    pool = nodepool_document()
    pool["spec"]["template"]["spec"]["requirements"] = list(requirements)
    terms = [{"id": one["id"]} for one in reservations]
    node_class = ec2nodeclass_document()
    if terms:
        node_class["spec"]["capacityReservationSelectorTerms"] = terms
    return [catalog, pool, node_class, *(pod(one) for one in pods)]


def pod(one: Pod) -> dict[str, Any]:
    written: dict[str, Any] = msgspec.to_builtins(one)
    return {"apiVersion": "v1", "kind": "Pod", **written}


def instance_type(known: InstanceType) -> dict[str, Any]:
    """Without reserved offerings: a scenario lists its reservations separately."""
    set_elsewhere = (names.INSTANCE_TYPE, names.ZONE, names.CAPACITY_TYPE, aws.ZONE_ID)
    labels = {
        one.key: list(one.values)
        for one in known.requirements.expressions()
        if one.operator is Operator.IN and one.key not in set_elsewhere
    }
    return {
        "name": known.name,
        "labels": labels,
        "capacity": _amounts(known.capacity),
        "overhead": _amounts(known.overhead),
        "offerings": [_offering(one) for one in known.offerings if one.capacity_type != names.RESERVED],
    }


def _offering(one: Offering) -> dict[str, Any]:
    price = one.price_nano_usd_per_hour
    written = {"zone": one.zone, "capacityType": one.capacity_type, "healthy": one.healthy}
    return written if price is None else {**written, "price": prices.text(price)}


def _amounts(vector: Resources) -> dict[str, str]:
    return {name: resources.text(name, amount) for name, amount in vector.amounts}
