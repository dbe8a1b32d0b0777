"""Price and availability of every offering, as gauges under Karpenter's names (aws-7.5.7).

Called by `discovery`, each minute. A pool is available if any class can launch there; its price is the lowest one. Only
changes are recorded, because a region has thousands of series. A pool that is no longer offered is recorded once, as
not available.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from holdfast import names, ports
from holdfast.model import prices, resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.prices import PriceRange

AVAILABLE: Final = "karpenter_cloudprovider_instance_type_offering_available"
PRICE: Final = "karpenter_cloudprovider_instance_type_offering_price_estimate"
CORES: Final = "karpenter_cloudprovider_instance_type_cpu_cores"
MEMORY: Final = "karpenter_cloudprovider_instance_type_memory_bytes"
PERIOD_S: Final = 60.0
_BATCH: Final = 200  # recorded in about 3 ms
_NANO: Final = 10**9


class Pool(NamedTuple):
    instance_type: str
    capacity_type: str
    zone: str


class Gauge(NamedTuple):
    available: bool = False
    usd_per_hour: float = 0.0  # 0: unknown


Gauges = Mapping[Pool, Gauge]


def of(types: Iterable[InstanceType], known: PriceRange) -> dict[Pool, Gauge]:
    """The gauges for the types of all classes."""
    found: dict[Pool, Gauge] = {}
    for instance_type in types:
        for offering in instance_type.offerings:
            pool = Pool(instance_type.name, offering.capacity_type, offering.zone)
            before = found.get(pool, Gauge())
            known_usd = [p for p in (before.usd_per_hour, _usd(instance_type, offering, known)) if p]
            found[pool] = Gauge(before.available or offering.launchable, min(known_usd, default=0.0))
    return found


def changed(now: Gauges, before: Gauges) -> list[tuple[Pool, Gauge]]:
    gone = {pool: Gauge() for pool in before if pool not in now}
    return [(pool, gauge) for pool, gauge in {**now, **gone}.items() if gauge != before.get(pool)]


async def record(gauges: Sequence[tuple[Pool, Gauge]], recorder: ports.Recorder, clock: ports.Clock) -> None:
    """Records in batches, so that other tasks run in between."""
    for start in range(0, len(gauges), _BATCH):
        for pool, gauge in gauges[start : start + _BATCH]:
            labels = pool._asdict()
            recorder.gauge(AVAILABLE, labels, float(gauge.available))
            recorder.gauge(PRICE, labels, gauge.usd_per_hour)
        await clock.sleep(0)


def _usd(instance_type: InstanceType, offering: Offering, known: PriceRange) -> float:
    price = offering.price_nano_usd_per_hour
    if offering.capacity_type != names.RESERVED:
        return (price or 0) / _NANO
    has = instance_type.capacity
    return float(prices.near_zero(price, has[resources.CPU], has[resources.MEMORY], known)) / _NANO
