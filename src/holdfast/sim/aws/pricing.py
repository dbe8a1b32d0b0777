"""The simulated price list: on-demand prices of Linux, from the shipped data.

Products are JSON strings inside JSON, with decimal strings as prices, as in the real list. Every type is listed with
shared tenancy; bare metal types also as dedicated ones, in their own product family.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo, Region
from holdfast.sim.aws.errors import ApiError, NoSuchOperation
from holdfast.sim.aws.pages import page
from holdfast.sim.aws.service import Caller

SERVICE_CODE: Final = "AmazonEC2"
ON_DEMAND_TERM: Final = "JRTCKXETXF"
PER_HOUR: Final = "6YS6EN2CT7"
_PAGE: Final = 100
_NANO: Final = 10**9
_EXPIRED: Final = ApiError(
    "InvalidNextTokenException", "The pagination token is invalid. Try again without it."
)


class Pricing:
    def __init__(self, regions: Sequence[str], prices: Mapping[str, int] | None = None) -> None:
        """`prices` override the shipped ones: nano-USD per hour by instance type."""
        self._products = tuple(
            product for name in regions for product in _products(ec2.region(name), prices or {})
        )

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:  # noqa: ARG002
        if operation != "GetProducts":
            raise NoSuchOperation(operation)
        if params["ServiceCode"] != SERVICE_CODE:
            raise ApiError("NotFoundException", f"{params['ServiceCode']} is not a valid service code.")
        size = params.get("MaxResults", _PAGE)
        if not 1 <= size <= _PAGE:
            raise ApiError("InvalidParameterException", f"MaxResults must be from 1 to {_PAGE}.")
        wanted = (p for p in self._products if all(_matches(p, f) for f in params.get("Filters", ())))
        found, token = page(
            wanted, lambda p: str(p["product"]["sku"]), size, params.get("NextToken"), _EXPIRED
        )
        more = {"NextToken": token} if token else {}
        return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(p) for p in found], **more}


def _products(region: Region, prices: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for info in region.types:
        price = prices.get(info.name, region.on_demand_nano_usd.get(info.name))
        if price is None:
            continue
        yield _product(region, info, "Shared", price)
        if info.bare_metal:
            yield _product(region, info, "Dedicated", price)


def _product(region: Region, info: InstanceTypeInfo, tenancy: str, price_nano_usd: int) -> dict[str, Any]:
    sku = hashlib.sha256(f"{region.name}/{info.name}/{tenancy}".encode()).hexdigest()[:16].upper()
    term = f"{sku}.{ON_DEMAND_TERM}"
    usd = f"{price_nano_usd // _NANO}.{price_nano_usd % _NANO:09d}0"
    dimension = {
        "unit": "Hrs",
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${usd} per On Demand Linux {info.name} Instance Hour",
        "appliesTo": [],
        "rateCode": f"{term}.{PER_HOUR}",
        "pricePerUnit": {"USD": usd},
    }
    on_demand = {
        "sku": sku,
        "offerTermCode": ON_DEMAND_TERM,
        "effectiveDate": f"{region.prices_as_of}T00:00:00Z",
        "termAttributes": {},
        "priceDimensions": {f"{term}.{PER_HOUR}": dimension},
    }
    return {
        "product": {
            "sku": sku,
            "productFamily": "Compute Instance (bare metal)" if info.bare_metal else "Compute Instance",
            "attributes": _attributes(region.name, info, tenancy),
        },
        "serviceCode": SERVICE_CODE,
        "terms": {"OnDemand": {term: on_demand}},
        "version": region.prices_as_of.replace("-", "") + "000000",
        "publicationDate": f"{region.prices_as_of}T00:00:00Z",
    }


def _attributes(region: str, info: InstanceTypeInfo, tenancy: str) -> dict[str, str]:
    return {
        "servicecode": SERVICE_CODE,
        "servicename": "Amazon Elastic Compute Cloud",
        "regionCode": region,
        "locationType": "AWS Region",
        "instanceType": info.name,
        "currentGeneration": "Yes" if info.current_generation else "No",
        "vcpu": str(info.vcpus),
        "memory": f"{info.memory_mib / 1024:g} GiB",
        "networkPerformance": info.network_performance,
        "tenancy": tenancy,
        "operatingSystem": "Linux",
        "licenseModel": "No License required",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "operation": "RunInstances",
        "usagetype": f"{'BoxUsage' if tenancy == 'Shared' else 'DedicatedUsage'}:{info.name}",
    }


def _matches(product: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Whether a filter matches the product: by an attribute, its family or its service."""
    about = product["product"]
    named = {
        "productFamily": about["productFamily"],
        "serviceCode": product["serviceCode"],
        "sku": about["sku"],
    }
    value = {**about["attributes"], **named}.get(wanted["Field"])
    return value is not None and _TESTS[wanted["Type"]](value, wanted["Value"])


_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "TERM_MATCH": lambda value, wanted: value == wanted,
    "EQUALS": lambda value, wanted: value == wanted,
    "CONTAINS": lambda value, wanted: wanted in value,
    "ANY_OF": lambda value, wanted: value in wanted.split(","),
    "NONE_OF": lambda value, wanted: value not in wanted.split(","),
}
