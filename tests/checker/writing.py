"""Writes plan documents for the naive planner and the exhaustive search."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from checker import quantities
from checker.case import Case, Target
from checker.labels import Expression
from holdfast import names
from holdfast.api import aws


def claim(target: Target) -> dict[str, Any]:
    """A claim that allows every option of the target, and expects the chosen one."""
    chosen, pool = target.chosen, target.pool
    assert chosen is not None
    assert chosen.offering is not None
    assert pool is not None
    slot = chosen.reservation.id if chosen.reservation else None
    price = Fraction(0) if slot else chosen.offering.price
    ids = sorted({option.reservation.id for option in target.options if option.reservation})
    types = sorted({option.instance_type for option in target.options})
    written = [*pool.requirements, *target.wanted, *_launch(target, types, ids)]
    return {
        "nodePool": pool.name,
        "instanceType": chosen.instance_type,
        "zone": chosen.offering.zone,
        "capacityType": chosen.offering.capacity_type,
        "pricePerHour": None if price is None else quantities.decimal(price),
        "reservationID": slot,
        "reservationIDs": ids,
        "instanceTypes": types,
        "requirements": [_requirement(one) for one in dict.fromkeys(written)],
        "requests": quantities.amounts(quantities.total(pod.shape.requests for pod in target.planned)),
        "pods": sorted(pod.name for pod in target.planned),
    }


def _launch(target: Target, types: list[str], ids: list[str]) -> Iterable[Expression]:
    offered = {option.offering.capacity_type for option in target.options if option.offering}
    yield Expression(names.CAPACITY_TYPE, "In", tuple(sorted(offered)))
    yield Expression(names.INSTANCE_TYPE, "In", tuple(types))
    if ids:
        yield Expression(aws.CAPACITY_RESERVATION_ID, "In", tuple(ids))


def _requirement(one: Expression) -> dict[str, Any]:
    wire = {"key": one.key, "operator": one.operator, "values": list(one.values)}
    return wire if one.min_values is None else wire | {"minValues": one.min_values}


def slots_left(case: Case) -> dict[str, int]:
    left = case.slots_left()
    selected = frozenset().union(*(pool.selected for pool in case.scenario.pools.values()))
    return {name: max(0, left[name]) for name in sorted(selected)}


def cost(claims: Iterable[Mapping[str, Any]]) -> dict[str, str | int]:
    prices = [quantities.price(one["pricePerHour"]) for one in claims]
    bill = quantities.decimal(sum((price for price in prices if price is not None), Fraction(0)))
    return {
        "perHour": bill,
        "baselinePerHour": bill,
        "baselineUnplaced": 0,
        "baselineNodes": 0,
        "nodeCostPerHour": "0",
        "packing": "naive",
    }
