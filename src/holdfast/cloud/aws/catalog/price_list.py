"""Reads prices: list prices from the Pricing API, spot prices from EC2's price history.

Called by `discovery`, every twelve hours. Shipped prices are used until the account's own are read. A price that cannot
be parsed is left out. Prices are integers in nano-USD per hour (decision 29). The filters are Karpenter's (aws-7.5.1):
Linux with shared tenancy, and bare metal.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.cloud.aws.client import answers, calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.data import ec2
from holdfast.model import prices

PERIOD_S: Final = 12 * 3600.0
NO_PRICE_LIST: Final = ("us-gov-", "us-iso")  # regions that the price list does not have
_FALLBACK_REGION: Final = "us-east-1"
_PAGE: Final = 100
_SPOT_PAGE: Final = 1000
_SYSTEMS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_COMMON: Final = {
    "serviceCode": "AmazonEC2",
    "preInstalledSw": "NA",
    "operatingSystem": "Linux",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}
_PARTS: Final = (
    {"tenancy": "Shared", "productFamily": "Compute Instance"},
    {"tenancy": "Dedicated", "productFamily": "Compute Instance (bare metal)"},
)


def shipped(region: str) -> Mapping[str, int]:
    """The shipped prices of a region; for a region without any, those of us-east-1."""
    known = region if region in ec2.region_names() else _FALLBACK_REGION
    return ec2.region(known).on_demand_nano_usd


def has_price_list(region: str) -> bool:
    return not region.startswith(NO_PRICE_LIST)


async def read_on_demand(aws: Calls) -> dict[str, int]:
    """Prices by type. Raises Retryable if a part has no prices: such a response is wrong."""
    parts = await asyncio.gather(*(_products(aws, part) for part in _PARTS))
    currency = "CNY" if aws.region.startswith("cn-") else "USD"
    found = await aws.executor.run(lambda: [_prices(products, currency) for products in parts])
    if not all(found):
        raise errors.Retryable("GetProducts: the price list came without any price")
    return {name: price for part in found for name, price in part.items()}


async def read_spot(aws: Calls, now_s: int) -> dict[tuple[str, str], int]:
    """The newest price by type and zone."""
    history: list[Any] = await aws.pages(
        calls.EC2,
        "DescribeSpotPriceHistory",
        "SpotPriceHistory",
        ProductDescriptions=list(_SYSTEMS),
        StartTime=datetime.fromtimestamp(now_s, UTC),
        MaxResults=_SPOT_PAGE,
    )
    newest = await aws.executor.run(lambda: _newest(history))
    if not newest:
        raise errors.Retryable("DescribeSpotPriceHistory: no prices at all")
    return {key: price for key, (_, price) in newest.items() if price}


def _newest(history: Iterable[Any]) -> dict[tuple[str, str], tuple[int, int]]:
    newest: dict[tuple[str, str], tuple[int, int]] = {}
    for key, price in answers.each("DescribeSpotPriceHistory", history, _spot_price):
        newest[key] = max(newest.get(key, price), price)
    return newest


def _spot_price(entry: Any) -> tuple[tuple[str, str], tuple[int, int]]:
    price = answers.epoch_s(entry["Timestamp"]), prices.parse(entry["SpotPrice"])
    return (entry["InstanceType"], entry["AvailabilityZone"]), price


async def _products(aws: Calls, part: Mapping[str, str]) -> list[Any]:
    wanted = {**_COMMON, **part, "regionCode": aws.region}
    return await aws.pages(
        calls.PRICING,
        "GetProducts",
        "PriceList",
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in wanted.items()],
        MaxResults=_PAGE,
    )


def _prices(products: Iterable[str], currency: str) -> dict[str, int]:
    def priced(text: str) -> dict[str, int]:
        product = msgspec.json.decode(text)
        name = product["product"]["attributes"].get("instanceType")
        return {
            str(name): price
            for term in product.get("terms", {}).get("OnDemand", {}).values()
            for dimension in term["priceDimensions"].values()
            if (price := prices.parse(dimension["pricePerUnit"].get(currency, "0"))) and name
        }

    found: dict[str, int] = {}
    for of_product in answers.each("GetProducts", products, priced):
        found |= of_product
    return found
