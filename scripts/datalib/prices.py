"""Reads list prices from docs/spec/ec2-prices.md: a price per vCPU for each family, and types with another price.

Called by `generate_data` and by its test. Decimals become integers without a float in between.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from holdfast.data import ec2

_DATE: Final = re.compile(r"as of (\d{4}-\d{2}-\d{2})")
_CELLS: Final = re.compile(r"\| ([a-z][a-z0-9.-]*) \| ([0-9.]+) (?=\|)")
_NANO: Final = 10**9


@dataclass(frozen=True, slots=True)
class PriceList:
    as_of: str
    per_vcpu: dict[str, Decimal]  # by family
    per_type: dict[str, Decimal]

    def nano_usd_per_hour(self, info: ec2.InstanceTypeInfo) -> int | None:
        price = self.per_type.get(info.name)
        if price is None:
            rate = self.per_vcpu.get(info.name.partition(".")[0])
            if rate is None:
                return None
            price = rate * info.vcpus
        return int((price * _NANO).to_integral_value())


def parse(page: str) -> PriceList:
    families, _, types = page.partition("\n## ")
    date = _DATE.search(families)
    if not date or not types:
        raise ValueError("ec2-prices.md has no date, or no second table")
    return PriceList(date[1], _table(families), _table(types))


def of_types(prices: PriceList, types: Iterable[ec2.InstanceTypeInfo]) -> dict[str, int]:
    """Prices by type; types without a price are left out."""
    found = ((info.name, prices.nano_usd_per_hour(info)) for info in types)
    return {name: price for name, price in found if price is not None}


def _table(text: str) -> dict[str, Decimal]:
    return {name: Decimal(price) for name, price in _CELLS.findall(text)}
