"""Converts a plan to the document that `holdfast plan -o json` prints (docs/scenario.md).

The same plan gives the same bytes: everything is sorted here, and prices and amounts are exact strings. Pods with the
same reasons are one entry, and a reason lists a few of its subjects, so that the size depends on the number of causes
and not on the number of pods times reservations.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from holdfast.core.scheduling.output.plan import NotReserved, Plan, PlannedClaim, Unplaced
from holdfast.model import prices, resources, wording
from holdfast.model.reasons import Reason
from holdfast.model.requirement import Expression
from holdfast.model.resources import Resources
from holdfast.state.conversion import times

API_VERSION: Final = "holdfast.dev/v1alpha1"
KIND: Final = "Plan"


def document_of_uids(plan: Plan, rejected: Iterable[Unplaced], names: Mapping[str, str]) -> dict[str, Any]:
    """The document of a plan whose pods are uids; `names` are the names of the pods."""
    plan = _named(plan, names)
    return document(plan, rejected=_named_unplaced(rejected, names), not_reserved=plan.not_reserved)


def document(
    plan: Plan, *, rejected: Iterable[Unplaced] = (), not_reserved: Iterable[NotReserved] = ()
) -> dict[str, Any]:
    """The plan as a document. Pods that were rejected before planning are listed as unplaced."""
    rejected = tuple(rejected)
    unplaced = (*plan.unplaced, *rejected)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "claims": [_claim(claim) for claim in ordered(plan.claims)],
        "nodes": [
            {"name": placed.node, "pods": sorted(placed.pods)}
            for placed in sorted(plan.placed, key=lambda placed: placed.node)
        ],
        "unplaced": _grouped((one.pod, one.reasons, {}) for one in unplaced if one.waits_for is None),
        "waiting": _grouped(
            (one.pod, one.reasons, _wait(one)) for one in unplaced if one.waits_for is not None
        ),
        "notReserved": _grouped((one.pod, one.reasons, {}) for one in not_reserved),
        "cost": {
            "perHour": prices.text(plan.price_nano_usd_per_hour),
            "baselinePerHour": prices.text(plan.baseline_nano_usd_per_hour),
            "baselineUnplaced": plan.baseline_unplaced + len(rejected),
            "baselineNodes": plan.baseline_nodes,
            "nodeCostPerHour": prices.text(plan.node_cost_nano),
            "packing": plan.packing,
        },
        "slotsLeft": dict(sorted(plan.slots_left)),
    }


def _named(plan: Plan, names: Mapping[str, str]) -> Plan:
    """The plan with the names of its pods instead of their uids."""

    def of(pods: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names.get(pod, pod) for pod in pods))

    return replace(
        plan,
        claims=tuple(claim._replace(pods=of(claim.pods)) for claim in plan.claims),
        placed=tuple(replace(placed, pods=of(placed.pods)) for placed in plan.placed),
        unplaced=_named_unplaced(plan.unplaced, names),
        not_reserved=tuple(replace(one, pod=names.get(one.pod, one.pod)) for one in plan.not_reserved),
    )


def _named_unplaced(unplaced: Iterable[Unplaced], names: Mapping[str, str]) -> tuple[Unplaced, ...]:
    return tuple(replace(one, pod=names.get(one.pod, one.pod)) for one in unplaced)


def text(written: dict[str, Any]) -> str:
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def ordered(claims: Iterable[PlannedClaim]) -> list[PlannedClaim]:
    """Claims by pool, type, zone, capacity type and slot, then by their pods: a total order."""
    return sorted(
        claims,
        key=lambda c: (
            c.node_pool,
            c.instance_type,
            c.zone,
            c.capacity_type,
            c.reservation_id or "",
            sorted(c.pods),
        ),
    )


def price(nano_usd_per_hour: int | None) -> str | None:
    return None if nano_usd_per_hour is None else prices.text(nano_usd_per_hour)


def _claim(claim: PlannedClaim) -> dict[str, Any]:
    return {
        "nodePool": claim.node_pool,
        "instanceType": claim.instance_type,
        "zone": claim.zone,
        "capacityType": claim.capacity_type,
        "pricePerHour": price(claim.price_nano_usd_per_hour),
        "reservationID": claim.reservation_id,
        "reservationIDs": sorted(claim.reservation_ids),
        "instanceTypes": list(claim.instance_types),  # the planner sorted them, cheapest first
        "requirements": [_requirement(expression) for expression in claim.requirements.expressions()],
        "requests": _amounts(claim.requests),
        "pods": sorted(claim.pods),
    }


def _requirement(expression: Expression) -> dict[str, Any]:
    written: dict[str, Any] = {"key": expression.key, "operator": str(expression.operator)}
    if expression.values:
        written["values"] = list(expression.values)
    if expression.min_values is not None:
        written["minValues"] = expression.min_values
    return written


def _amounts(requests: Resources) -> dict[str, str]:
    return {name: resources.text(name, amount) for name, amount in requests.amounts}


def _wait(one: Unplaced) -> dict[str, Any]:
    until_s = one.waits_until_s
    return {"reservation": one.waits_for, "until": None if until_s is None else times.text(until_s)}


def _grouped(entries: Iterable[tuple[str, tuple[Reason, ...], dict[str, Any]]]) -> list[dict[str, Any]]:
    """One entry for all pods with the same reasons, in the order of their first pods."""
    groups: dict[tuple[object, ...], dict[str, Any]] = {}
    for pod, reasons, more in sorted(entries, key=lambda entry: entry[0]):
        key = reasons, *more.values()
        entry = groups.get(key)
        if entry is None:
            entry = groups[key] = {"pods": [], **more, "reasons": _reasons(reasons)}
        entry["pods"].append(pod)
    return list(groups.values())


def _reasons(reasons: Sequence[Reason]) -> list[dict[str, Any]]:
    """Reasons in the planner's order; `more` is how many subjects are not listed."""
    return [
        {
            "code": str(r.code),
            "kind": r.kind,
            "subjects": list(r.subjects[: wording.LISTED_MAX]),
            "more": max(0, len(r.subjects) - wording.LISTED_MAX),
            "text": r.text,
        }
        for r in reasons
    ]
