"""The shipped EC2 data is complete, dated, small and equal to its sources."""

import gzip

import pytest

from holdfast import errors
from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo, Region

REGIONS = ("eu-west-1", "us-east-1", "us-west-2")


@pytest.fixture(params=REGIONS)
def region(request: pytest.FixtureRequest) -> Region:
    return ec2.region(request.param)


def info(name: str) -> InstanceTypeInfo:
    return next(i for i in ec2.region("us-east-1").types if i.name == name)


def test_region_names_are_listed() -> None:
    assert ec2.region_names() == REGIONS


def test_unknown_region_is_an_error_that_lists_the_shipped_regions() -> None:
    with pytest.raises(errors.InvalidInput, match=r"'mars-1' is not shipped.*us-west-2"):
        ec2.region("mars-1")


def test_every_type_is_offered_in_a_zone_and_every_zone_offers_types(region: Region) -> None:
    zones = {zone.name for zone in region.zones}
    assert [i.name for i in region.types] == sorted(region.zones_by_type)
    assert all(offered for offered in region.zones_by_type.values())
    assert {zone for offered in region.zones_by_type.values() for zone in offered} == zones
    assert len({zone.id for zone in region.zones}) == len(zones)
    assert all(zone.id and zone.name.startswith(region.name) for zone in region.zones)


def test_every_type_has_the_fields_that_capacity_is_computed_from(region: Region) -> None:
    assert len(region.types) > 1000
    for i in region.types:
        assert i.vcpus > 0, i.name
        assert i.memory_mib > 0, i.name
        assert {"x86_64", "arm64"} & set(i.architectures), i.name
        assert i.enis_per_card[i.default_card] > 0, i.name
        assert i.ipv4_per_eni > 1, i.name
        assert {"on-demand", "spot", "capacity-block"} >= set(i.usage_classes), i.name
        assert i.bare_metal == (not i.hypervisor), i.name


def test_nearly_every_type_has_a_price_and_none_is_free(region: Region) -> None:
    priced = [i for i in region.types if i.name in region.on_demand_nano_usd]
    assert len(priced) > 0.95 * len(region.types)
    assert all(price > 0 for price in region.on_demand_nano_usd.values())


def test_data_names_its_dates_and_the_region_of_its_prices(region: Region) -> None:
    assert region.types_as_of == "2026-10-27"
    assert region.prices_as_of == "2026-07-20"
    assert region.prices_of == "us-east-1"


@pytest.mark.parametrize(
    ("name", "usd_per_hour"),
    [("m5.large", "0.096"), ("t3.micro", "0.0104"), ("c5.xlarge", "0.17"), ("p5.48xlarge", "55.04")],
)
def test_prices_are_the_published_ones(name: str, usd_per_hour: str) -> None:
    whole, _, part = usd_per_hour.partition(".")
    assert ec2.region("us-east-1").on_demand_nano_usd[name] == int(whole + part.ljust(9, "0"))


def test_known_types_are_as_ec2_describes_them() -> None:
    m5 = info("m5.large")
    assert (m5.vcpus, m5.memory_mib, m5.enis_per_card, m5.ipv4_per_eni) == (2, 8192, (3,), 10)
    p5 = info("p5.48xlarge")
    assert (p5.gpus[0].name, p5.gpus[0].count, len(p5.enis_per_card), p5.efas) == ("H100", 8, 32, 32)
    assert "capacity-block" in p5.usage_classes
    trn1 = info("trn1.32xlarge")
    assert (trn1.neuron_devices[0].count, trn1.neuron_devices[0].cores) == (16, 2)
    assert info("c6g.large").architectures == ("arm64",)


def test_data_file_is_small_and_has_no_gzip_timestamp() -> None:
    packed = ec2.FILE.read_bytes()
    assert len(packed) < 100_000
    assert packed[4:8] == b"\0\0\0\0"
    assert gzip.decompress(packed).startswith(b'{"types_as_of"')


def test_notice_names_the_source_of_the_types() -> None:
    notice = ec2.FILE.with_name("NOTICE.md").read_text(encoding="utf-8")
    for words in ("Moto", "Steve Pulec", "Apache License, Version 2.0", "modified"):
        assert words in notice
