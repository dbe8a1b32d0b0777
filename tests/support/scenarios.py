"""Builders of scenarios: a Catalog, a NodePool, an EC2NodeClass and pods, as documents and as requests."""

from typing import Any

from builders import ec2nodeclass_document, nodepool_document
from holdfast.api import kinds
from holdfast.api.meta import Object
from holdfast.api.scenario import Catalog
from holdfast.cli import aws
from holdfast.core.scheduling.input.request import Settings
from holdfast.scenarios import scenario
from holdfast.scenarios.catalog import RegionTypes
from holdfast.scenarios.checks import Wrong
from holdfast.scenarios.scenario import Scenario
from objects import NOW_S

CAPACITY = {"cpu": "2", "memory": "8Gi", "pods": "29"}


def offering(zone: str = "us-west-2a", kind: str = "on-demand", **more: Any) -> dict[str, Any]:
    return {"zone": zone, "capacityType": kind} | more


def instance_type(name: str = "m5.large", **more: Any) -> dict[str, Any]:
    defaults = {"name": name, "capacity": CAPACITY, "offerings": [offering(price="0.096")]}
    return defaults | more


def reservation(id_: str = "cr-1", **more: Any) -> dict[str, Any]:
    return {"id": id_, "instanceType": "m5.large", "zone": "us-west-2a", "total": 4} | more


def catalog_document(**spec: Any) -> dict[str, Any]:
    meta = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "Catalog", "metadata": {"name": "example"}}
    return meta | {"spec": {"instanceTypes": [instance_type()]} | spec}


def catalog(**spec: Any) -> Catalog:
    parsed = kinds.from_plain(catalog_document(**spec), Catalog)
    assert isinstance(parsed, Catalog)
    return parsed


def pool_and_class(**class_spec: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return nodepool_document(), ec2nodeclass_document(**class_spec)


def build(
    *objects: Object,
    regions: dict[str, RegionTypes] | None = None,
    now_s: int = NOW_S,
    **spec: Any,
) -> Scenario | tuple[Wrong, ...]:
    catalog_ = catalog(**spec)
    return scenario.build(
        [catalog_, *objects], catalog_, now_s=now_s, how=Settings(), terms=aws.TERMS, regions=regions or {}
    )


def built(*objects: Object, **spec: Any) -> Scenario:
    result = build(*objects, **spec)
    assert isinstance(result, Scenario), result
    return result


def wrong(*objects: Object, **spec: Any) -> tuple[Wrong, ...]:
    result = build(*objects, **spec)
    assert not isinstance(result, Scenario)
    return result
