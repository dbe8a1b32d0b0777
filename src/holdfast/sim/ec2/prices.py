"""Prices of instances per hour in nano-USD: shipped list prices, and spot prices derived from them, unless the setup
has others.

No spot prices are shipped, so each pool has a discount that is derived from its name: the same in every run, different
for each pool.
"""

import hashlib

from holdfast.data import ec2
from holdfast.sim.ec2.setup import Setup

_CHEAPEST_PERCENT = 25
_SPREAD_PERCENT = 30
_DEPTHS = 10


def on_demand(setup: Setup, instance_type: str) -> int | None:
    """None for an unknown price."""
    if instance_type in setup.prices:
        return setup.prices[instance_type]
    return ec2.region(setup.region).on_demand_nano_usd.get(instance_type)


def spot(setup: Setup, instance_type: str, zone_id: str) -> int | None:
    if (instance_type, zone_id) in setup.spot_prices:
        return setup.spot_prices[instance_type, zone_id]
    price = on_demand(setup, instance_type)
    if price is None:
        return None
    return price * (_CHEAPEST_PERCENT + _drawn("price", instance_type, zone_id) % _SPREAD_PERCENT) // 100


def spot_depth(instance_type: str, zone_id: str) -> int:
    """The spare capacity of a spot pool, from 0 (nearly none) to 9."""
    return _drawn("depth", instance_type, zone_id) % _DEPTHS


def _drawn(*names: str) -> int:
    return int.from_bytes(hashlib.blake2b("/".join(names).encode(), digest_size=8).digest(), "big")
