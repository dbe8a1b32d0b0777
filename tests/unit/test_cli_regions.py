"""Scenarios that name a shipped region and list no instance types: types, prices and reserved offerings."""

from pathlib import Path
from typing import Any

import yaml

from builders import ec2nodeclass_document, nodepool_document
from holdfast import names
from holdfast.api import scenario as wire
from holdfast.cli import aws, scenarios
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.data import ec2
from holdfast.model.offerings import InstanceType
from holdfast.scenarios.scenario import Scenario
from objects import NOW
from scenarios import catalog_document, instance_type, reservation

REGION = "us-west-2"
TERMS: dict[str, Any] = {"capacityReservationSelectorTerms": [{"tags": {"team": "*"}}]}


def types(folder: Path, node_class: dict[str, Any], **spec: Any) -> dict[str, InstanceType]:
    catalog = catalog_document(now=NOW, region=REGION, **({"instanceTypes": []} | spec))
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump_all([catalog, nodepool_document(), node_class]))
    scenario = scenarios.read([str(file)], now_s=None, clock=lambda: 0, flags={})
    assert isinstance(scenario, Scenario), scenario
    (pool,) = scenario.request.snapshot.node_pools
    return {t.name: t for t in pool.instance_types}


def test_shipped_region_provides_instance_types_with_prices(tmp_path: Path) -> None:
    got = types(tmp_path, ec2nodeclass_document())
    assert len(got) == len(ec2.region(REGION).types)
    large = got["m5.large"]
    assert {o.capacity_type for o in large.offerings} == {"on-demand", "spot"}
    assert all(
        o.price_nano_usd_per_hour == 96_000_000 for o in large.offerings if o.capacity_type == "on-demand"
    )


def test_a_type_of_the_catalog_replaces_a_shipped_one(tmp_path: Path) -> None:
    got = types(tmp_path, ec2nodeclass_document(), instanceTypes=[instance_type("m5.large")])
    assert len(got["m5.large"].offerings) == 1
    assert len(got["m5.xlarge"].offerings) > 1


def test_selected_reservations_become_offerings_of_shipped_types(tmp_path: Path) -> None:
    listed = [
        reservation("cr-1", tags={"team": "ml"}, available=3),
        reservation("cr-2", tags={"team": "ml"}, state="scheduled"),
        reservation("cr-3"),
    ]
    large = types(tmp_path, ec2nodeclass_document(**TERMS), reservations=listed)["m5.large"]
    count_and_health = {o.reservation_id: (o.count, o.healthy) for o in large.offerings if o.reservation_id}
    assert count_and_health == {"cr-1": (3, True), "cr-2": (4, False)}
    assert large.requirements.get(names.CAPACITY_TYPE).has("reserved")


def test_reservation_states_and_types_of_the_format_match_those_of_aws() -> None:
    assert set(wire.RESERVATION_STATES) == set(capacity_reservation.STATES)
    assert {kind.name for kind in aws.TERMS.kinds} == set(wire.RESERVATION_TYPES)
