"""Manifests of kind World: findings of the schema, references, and the CloudSetup that results."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from holdfast.api import kinds, scenario_schema, world
from holdfast.api.findings import Finding, text_of
from holdfast.api.world import World
from holdfast.cli import main
from holdfast.sim import world_reading
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.sim.cluster.timings import Timings as ClusterTimings
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.setup import Timings

DOCS = Path(__file__).resolve().parents[2] / "docs"
START_S = 1_794_736_800  # 2026-11-15T10:00:00Z
ODCR = {"id": "cr-1", "instanceType": "m5.large", "zone": "us-west-2a", "total": 2}
LENT = ODCR | {"id": "cr-9", "total": 1, "lentFrom": "cr-1", "instanceMatchCriteria": "targeted"}
BLOCK = ODCR | {"type": "capacity-block", "instanceMatchCriteria": "targeted"}


def document(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "World",
        "metadata": {"name": "example"},
        "spec": spec,
    }


def of(value: dict[str, Any]) -> World:
    obj = kinds.from_plain(value, World)
    assert isinstance(obj, World)
    return obj


def read(**spec: Any) -> CloudSetup:
    value = document(**spec)
    assert scenario_schema.findings(value, World) == []
    setup = world_reading.read(of(value), START_S)
    assert isinstance(setup, CloudSetup)
    return setup


def example() -> dict[str, Any]:
    blocks = (DOCS / "scenario.md").read_text().split("```yaml\n")[1:]
    (found,) = [block.split("```")[0] for block in blocks if "kind: World" in block]
    return dict(yaml.safe_load(found))


def test_an_empty_spec_gives_the_default_cloud_setup() -> None:
    assert read() == CloudSetup()


def test_the_example_in_docs_gives_its_cloud_setup() -> None:
    value = example()
    assert scenario_schema.findings(value, World) == []
    assert world_reading.begin_s(of(value)) == START_S
    setup = world_reading.read(of(value), START_S)
    assert isinstance(setup, CloudSetup)
    assert (setup.cluster, setup.roles) == ("demo", ("KarpenterNodeRole-demo",))
    assert (setup.accounts, setup.vcpu_limits) == (("111122223333", "444455556666"), {"111122223333": 512})
    ours, theirs, block, lent = setup.reservations
    assert (ours.zone_id, ours.total, ours.elsewhere, ours.criteria) == ("usw2-az2", 4, 1, "targeted")
    assert (theirs.owner, theirs.shared_with) == ("444455556666", ("111122223333",))
    assert (block.kind, block.start_s - START_S, block.end_s - START_S) == ("capacity-block", 7200, 91800)
    assert (lent.lent_from, lent.total) == ("cr-0a", 1)
    assert setup.page_size == 100
    assert world_reading.cluster_timings(of(value)) == ClusterTimings(boot_s=25, ready_s=10, devices_s=15)
    assert setup.limits == {("m5.large", "usw2-az2", "spot"): 3}
    assert (setup.prices, setup.spot_prices) == (
        {"m5.large": 100_000_000},
        {("m5.large", "usw2-az2"): 31_000_000},
    )
    assert setup.timings == Timings(boot_s=40, release_lag_s=60)
    assert setup.faults == (
        faults.Throttled(operation="CreateFleet", chance=0.1, from_s=START_S),
        faults.NoCapacity(
            instance_type="m5.large",
            zone_id="usw2-az2",
            market="on-demand",
            from_s=START_S + 600,
            until_s=START_S + 1800,
        ),
        faults.Taken(reservation_id="cr-0a", count=1, times=1, from_s=START_S),
    )


def test_a_spot_price_of_one_zone_overrides_that_of_all_zones() -> None:
    both = [
        {"instanceType": "m5.large", "capacityType": "spot", "zone": "us-west-2a", "price": "0.02"},
        {"instanceType": "m5.large", "capacityType": "spot", "price": "0.03"},
    ]
    prices = dict(read(prices=both).spot_prices)
    assert prices.pop(("m5.large", "usw2-az2")) == 20_000_000
    assert set(prices.values()) == {30_000_000}


@pytest.mark.parametrize("kind", sorted(world.FAULT_FIELDS))
def test_every_fault_type_becomes_a_fault_of_the_simulator_with_its_fields(kind: str) -> None:
    values: dict[str, Any] = {
        "operation": "DescribeInstances", "lag": "1m", "instanceType": "m5.large", "zone": "us-west-2a",
        "capacityType": "spot", "code": "X", "reservation": "cr-1", "count": 3, "atMost": 0, "after": "2m",
    }  # fmt: skip
    own = {name: values[name] for name in world.FAULT_FIELDS[kind]}
    (fault,) = read(reservations=[ODCR], faults=[{"type": kind, **own}]).faults
    assert type(fault).__name__ == kind
    plain = {"from_s", "until_s", "chance", "times"}
    field_values = {getattr(fault, name) for name in fault.__dataclass_fields__ if name not in plain}
    known = {"DescribeInstances", 60, "m5.large", "usw2-az2", "spot", "X", "cr-1", 3, 0, 120}
    assert len(field_values) == len(own)
    assert field_values <= known


@pytest.mark.parametrize(
    ("spec", "where", "message"),
    [
        ({"regions": "us-west-2"}, ".spec.regions", "did you mean region?"),
        ({"accounts": []}, ".spec.accounts", "1"),
        ({"accounts": [{"id": "me"}]}, ".spec.accounts[0].id", "twelve digits"),
        ({"kubernetes": "latest"}, ".spec.kubernetes", "a version in quotes"),
        ({"timings": {"boot": "soon"}}, ".spec.timings.boot", "a duration"),
        (
            {"prices": [{"instanceType": "m5.large", "price": "cheap"}]},
            ".spec.prices[0].price",
            "USD an hour",
        ),
        (
            {"prices": [{"instanceType": "m5.large", "price": "1", "zone": "us-west-2a"}]},
            ".spec.prices[0]",
            "zone is only allowed with the capacityType spot",
        ),
        ({"reservations": [ODCR | {"total": 0}]}, ".spec.reservations[0].total", "minimum of 1"),
        ({"reservations": [ODCR | {"usedElsewhere": 3}]}, ".spec.reservations[0]", "more than total"),
        ({"reservations": [BLOCK]}, ".spec.reservations[0]", "a capacity-block needs an end"),
        (
            {"reservations": [LENT | {"instanceMatchCriteria": "open"}]},
            ".spec.reservations[0]",
            "is targeted",
        ),
        (
            {"reservations": [LENT | {"end": "2026-11-15T10:00:00Z"}]},
            ".spec.reservations[0]",
            "has no start, end",
        ),
        ({"faults": [{"type": "Rain"}]}, ".spec.faults[0].type", "Lost"),
        ({"faults": [{"type": "Partial"}]}, ".spec.faults[0]", "Partial needs the field atMost"),
        (
            {"faults": [{"type": "Lost", "lag": "5s"}]},
            ".spec.faults[0]",
            "lag is only allowed with the type Stale",
        ),
    ],
)
def test_an_invalid_field_is_reported_with_its_path(spec: dict[str, Any], where: str, message: str) -> None:
    found = {text_of(f.path): f.message for f in scenario_schema.findings(document(**spec), World)}
    assert list(found) == [where]
    assert message in found[where]


@pytest.mark.parametrize(
    ("spec", "where", "message"),
    [
        ({"region": "mars-1"}, ".spec.region", "not a region that is shipped"),
        ({"accounts": [{"id": "111122223333"}] * 2}, ".spec.accounts[1].id", "there twice"),
        ({"reservations": [ODCR, ODCR]}, ".spec.reservations[1].id", "cr-1 is there twice"),
        (
            {"reservations": [ODCR | {"ownerID": "999999999999"}]},
            ".spec.reservations[0].ownerID",
            "not among the accounts",
        ),
        (
            {"reservations": [ODCR | {"sharedWith": ["999999999999"]}]},
            ".spec.reservations[0].sharedWith[0]",
            "not among the accounts",
        ),
        (
            {"reservations": [ODCR | {"start": "2026-11-15T10:00:00Z", "end": "2026-11-15T10:00:00+01:00"}]},
            ".spec.reservations[0].end",
            "after start",
        ),
        (
            {"reservations": [ODCR | {"instanceType": "m5.huge"}]},
            ".spec.reservations[0].instanceType",
            "not offered in us-west-2",
        ),
        (
            {"reservations": [ODCR | {"zone": "us-west-2z"}]},
            ".spec.reservations[0].zone",
            "not a zone of this region",
        ),
        (
            {"capacity": [{"instanceType": "m5.large", "zone": "b", "left": 1}]},
            ".spec.capacity[0].zone",
            "not a zone",
        ),
        ({"prices": [{"instanceType": "m5.huge", "price": "1"}]}, ".spec.prices[0].instanceType", "m5.huge"),
        ({"reservations": [LENT]}, ".spec.reservations[0].lentFrom", "not among the reservations"),
        (
            {"reservations": [LENT, ODCR | {"end": "2026-12-15T10:00:00Z"}]},
            ".spec.reservations[0].lentFrom",
            "cr-1 cannot lend",
        ),
        (
            {"reservations": [LENT | {"zone": "us-west-2b"}, ODCR]},
            ".spec.reservations[0].lentFrom",
            "cr-1 is of m5.large in us-west-2a",
        ),
        (
            {"reservations": [LENT, ODCR | {"usedElsewhere": 2}]},
            ".spec.reservations[0].lentFrom",
            "cr-1 has 0 slots",
        ),
        ({"faults": [{"type": "Taken", "reservation": "cr-2"}]}, ".spec.faults[0].reservation", "cr-2"),
        (
            {"faults": [{"type": "Lost", "operation": "CreateFleets"}]},
            ".spec.faults[0].operation",
            "not a call that is simulated",
        ),
        ({"timings": {"stale": "11m"}}, ".spec.timings.stale", "600s"),
    ],
)
def test_an_inconsistent_or_unknown_reference_is_reported_with_its_path(
    spec: dict[str, Any], where: str, message: str
) -> None:
    value = document(**spec)
    assert scenario_schema.findings(value, World) == []
    found = world_reading.read(of(value), START_S)
    assert isinstance(found, tuple)
    (finding,) = found
    assert isinstance(finding, Finding)
    assert text_of(finding.path) == where
    assert message in finding.message


def test_validate_prints_file_line_and_path_and_exits_with_1(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text(yaml.safe_dump(document(reservations=[ODCR | {"zone": "us-west-2z"}]), sort_keys=False))
    result = CliRunner().invoke(main, ["validate", "-f", str(file)])
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{file}:9: World/example: .spec.reservations[0].zone: us-west-2z is not")
    file.write_text(yaml.safe_dump(example(), sort_keys=False))
    assert CliRunner().invoke(main, ["validate", "-f", str(file)]).exit_code == 0
