"""Prices of burstable types include a surcharge for CPU credits."""

import pytest

from aws_builders import offerings_of, real, shipped_supply, supply
from builders import ec2nodeclass
from holdfast import names
from holdfast.cloud.aws.catalog import builder, burstable
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.model.offerings import InstanceType

NOW = 1000


def built(*type_names: str, percent: int = 100) -> dict[str, InstanceType]:
    settings = Settings(burstable_cpu_percent=percent)
    found = builder.build(shipped_supply(), ec2nodeclass(), now_s=NOW, settings=settings)
    return {it.name: it for it in found if it.name in type_names}


@pytest.mark.parametrize(
    ("name", "percent", "usd"),
    [
        ("t3.medium", 100, 0.08),  # two vCPUs, 80 % of each above the baseline, at 0.05
        ("t3a.medium", 100, 0.08),
        ("t4g.medium", 100, 0.064),  # at 0.04
        ("t3.2xlarge", 100, 0.24),
        ("t2.xlarge", 100, 0.155),
        ("t3.medium", 50, 0.03),
        ("t3.medium", 20, 0.0),
        ("t3.medium", 0, 0.0),
        ("t1.micro", 100, 0.045),
        ("m5.large", 100, 0.0),
    ],
)
def test_surcharge_covers_cpu_use_above_the_baseline(name: str, percent: int, usd: float) -> None:
    assert burstable.surcharge_nano_usd_per_hour(real(name), percent) == round(usd * 10**9)


def test_every_burstable_type_that_is_shipped_has_a_baseline() -> None:
    """5 % is the lowest baseline, so at 5 % use no type has a surcharge."""
    types = [info for info in shipped_supply().types if info.burstable]
    assert types
    assert {burstable.surcharge_nano_usd_per_hour(info, 5) for info in types} == {0}


def test_at_full_cpu_use_a_type_that_is_not_burstable_sorts_first() -> None:
    types = built("t3a.medium", "c6a.large")
    small, large = (offerings_of(types[name], names.ON_DEMAND)[0] for name in ("t3a.medium", "c6a.large"))
    assert (small.price_nano_usd_per_hour or 0) < (large.price_nano_usd_per_hour or 0)
    assert types["c6a.large"].order_key(large) < types["t3a.medium"].order_key(small)


def test_at_low_cpu_use_a_burstable_type_sorts_first() -> None:
    types = built("t3a.medium", "c6a.large", percent=20)
    small, large = (offerings_of(types[name], names.ON_DEMAND)[0] for name in ("t3a.medium", "c6a.large"))
    assert types["t3a.medium"].order_key(small) < types["c6a.large"].order_key(large)


def test_on_demand_and_spot_offerings_have_the_same_surcharge() -> None:
    (found,) = builder.build(supply(real("t3.medium")), ec2nodeclass(), now_s=NOW)
    assert {one.capacity_type for one in found.offerings} == {names.ON_DEMAND, names.SPOT}
    assert {one.surcharge_nano_usd_per_hour for one in found.offerings} == {80_000_000}
