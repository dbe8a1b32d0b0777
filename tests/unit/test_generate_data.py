"""How the shipped EC2 data is generated. No test needs the package that it is generated from."""

from decimal import Decimal
from pathlib import Path

import pytest

import generate_data
from datalib import convert, prices, source
from holdfast.data import ec2

ROOT = Path(__file__).resolve().parents[2]
PAGE = """# Prices
As of whenever, as of 2026-07-20.
| family | USD / vCPU-hour | | family | USD / vCPU-hour |
| --- | --- | --- | --- | --- |
| m5 | 0.048 | | c7gd | 0.0453594 |

## Types
| type | USD / hour | | type | USD / hour |
| --- | --- | --- | --- | --- |
| m5.metal | 4.5 | |  |  |
"""


def of(name: str, vcpus: int = 2) -> ec2.InstanceTypeInfo:
    return ec2.InstanceTypeInfo(name=name, vcpus=vcpus, memory_mib=1, enis_per_card=(1,), ipv4_per_eni=2)


def test_price_is_the_rate_of_the_family_unless_the_type_has_its_own() -> None:
    listed = prices.parse(PAGE)
    assert listed.as_of == "2026-07-20"
    assert listed.per_vcpu == {"m5": Decimal("0.048"), "c7gd": Decimal("0.0453594")}
    assert listed.nano_usd_per_hour(of("m5.large")) == 96_000_000
    assert listed.nano_usd_per_hour(of("c7gd.large")) == 90_718_800
    assert listed.nano_usd_per_hour(of("m5.metal", 96)) == 4_500_000_000
    assert listed.nano_usd_per_hour(of("x9.large")) is None
    assert prices.of_types(listed, [of("m5.large"), of("x9.large")]) == {"m5.large": 96_000_000}


def test_a_page_without_a_date_is_refused() -> None:
    with pytest.raises(ValueError, match="no date"):
        prices.parse("# Prices\n\n## Types\n")


def test_the_shipped_prices_are_those_of_the_page() -> None:
    listed = prices.parse((ROOT / "docs/spec/ec2-prices.md").read_text(encoding="utf-8"))
    for name in ec2.region_names():
        region = ec2.region(name)
        assert region.prices_as_of == listed.as_of
        for info in region.types:
            assert region.on_demand_nano_usd.get(info.name) == listed.nano_usd_per_hour(info)


def test_zone_names_and_ids_are_matched_by_the_types_they_offer() -> None:
    region = convert.region(
        "r-1",
        {"r-1a": {"m5.large", "mac1.metal"}, "r-1b": {"m5.large", "c5.large"}},
        {"r1-az1": {"m5.large", "c5.large"}, "r1-az2": {"m5.large", "mac1.metal"}},
        {"m5.large", "c5.large"},
    )
    assert region.zones == (ec2.Zone("r-1a", "r1-az2"), ec2.Zone("r-1b", "r1-az1"))
    assert region.offered == {"c5.large": "b", "m5.large": "ab"}


def test_ambiguous_zones_are_an_error() -> None:
    same = {"m5.large"}
    with pytest.raises(ValueError, match="2 zone ids"):
        convert.region("r-1", {"r-1a": same}, {"r1-az1": same, "r1-az2": same}, same)


def test_check_without_the_package_fails_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate_data, "CACHE", tmp_path)
    assert generate_data.main(["--check"]) == 2
    assert "cannot check" in capsys.readouterr().err


def test_package_with_another_hash_is_not_used(tmp_path: Path) -> None:
    (tmp_path / source.WHEEL).write_bytes(b"something else")
    assert source.cached(tmp_path) is None
