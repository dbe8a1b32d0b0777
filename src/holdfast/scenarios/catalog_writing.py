"""Writes the instance types, reservations and settings of a snapshot as a Catalog, which `catalog_documents` reads back.

Called by `snapshot_documents`. The values that are read back are equal, so a plan is the same. A type that several node
classes have in the same form is written once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast.api import scenario as wire
from holdfast.api.scheduler_config import SchedulerConfig
from holdfast.core.scheduling.input.request import Settings
from holdfast.model import gangs, prices, reservations, resources
from holdfast.model.instances import Instance
from holdfast.model.offerings import UNLIMITED, InstanceType, Offering
from holdfast.model.reservations import Reservation, State
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CountBefore, Snapshot
from holdfast.scenarios.catalog import CloudTerms
from holdfast.state.conversion import times

Json = dict[str, Any]

# For a state that a Catalog does not know.
_STATES: Final = {State.PENDING: "pending", State.ACTIVE: "active", State.GONE: "expired"}


def catalog(
    snapshot: Snapshot,
    types: Mapping[str, tuple[InstanceType, ...]],
    settings: Settings,
    scheduler: SchedulerConfig,
    terms: CloudTerms,
) -> Json:
    """The Catalog of a snapshot; `types` by name of node class. Reservations that a Catalog cannot have are left out."""
    reserved = {one.id: one for one in snapshot.reservations if _is_expressible(one, terms)}
    spec: Json = {
        "now": times.text(snapshot.taken_s),
        "countsRead": times.text(snapshot.counts_read_s),
        "settings": _settings(settings),
        "schedulerConfig": msgspec.to_builtins(scheduler),
        "instanceTypes": [_type(one, classes, reserved, terms) for one, classes in _shared(types)],
        "reservations": [
            _reservation(one, snapshot.count_before.get(one.id), terms) for one in reserved.values()
        ],
        "instances": [_instance(one) for one in snapshot.instances if one.reservation_id is not None],
    }
    return {
        "apiVersion": wire.Catalog.api_version,
        "kind": wire.Catalog.kind,
        "metadata": {"name": "snapshot"},
        "spec": _filled(spec),
    }


def _settings(settings: Settings) -> Json:
    return {
        "packing": settings.packing.value,
        "packingCandidates": settings.packing_candidates,
        "gangCandidates": settings.gang_candidates,
        "gangHold": f"{settings.gang_hold_s}s",
        "gangsOf": gangs.sources_text(settings.gangs_of),
        "nodeCost": prices.text(settings.node_cost_nano),
        "reservedCapacity": settings.reserved_capacity,
        "reservedBeforeWeight": settings.reserved_before_weight,
        "reservedMode": settings.reserved_mode.value,
        "reservationWait": f"{settings.reservation_wait_s}s",
        "preferencePolicy": settings.preference_policy.value,
        "minValuesPolicy": settings.min_values_policy.value,
        "maxInstanceTypes": settings.max_instance_types,
        "startEstimate": f"{settings.start_estimate_s}s",
        "ledgerLag": f"{settings.ledger_lag_s}s",
    }


def _shared(types: Mapping[str, tuple[InstanceType, ...]]) -> Iterable[tuple[InstanceType, list[str]]]:
    """Each form of a type with its classes, in the order in which the classes have the types."""
    classes: dict[InstanceType, list[str]] = {}
    places: dict[str, int] = {}
    for name, known in sorted(types.items()):
        for one in known:
            classes.setdefault(one, []).append(name)
            places.setdefault(one.name, len(places))
    return sorted(classes.items(), key=lambda item: places[item[0].name])


def _is_expressible(one: Reservation, terms: CloudTerms) -> bool:
    """Whether its kind is known and its dates make sense. Nothing is launched into others."""
    is_known = one.kind in {kind.name for kind in terms.kinds}
    has_time = one.start_s is None or one.end_s is None or one.start_s < one.end_s
    return is_known and has_time and not reservations.ends_unannounced(one)


def _type(
    known: InstanceType, classes: list[str], reserved: Mapping[str, Reservation], terms: CloudTerms
) -> Json:
    return _filled(
        {
            "name": known.name,
            "nodeClasses": classes,
            "labels": _labels(known),
            "capacity": _amounts(known.capacity),
            "overhead": _amounts(known.overhead),
            "volumeLimits": dict(known.volume_limits),
            "offerings": [
                _offering(one, terms)
                for one in known.offerings
                if one.reservation_id is None or one.reservation_id in reserved
            ],
        }
    )


def _labels(known: InstanceType) -> Json:
    """A value, several possible values, or an empty list: the label does not exist."""
    found: Json = {}
    for one in known.requirements:
        assert not one.complement, f"{one}: the labels of an instance type are values"
        values = sorted(one.values)
        found[one.key] = values[0] if len(values) == 1 else values
    return found


def _offering(one: Offering, terms: CloudTerms) -> Json:
    assert not one.capacity_override.amounts, "a Catalog has no overrides of offerings"
    assert not one.overhead_override.amounts, "a Catalog has no overrides of offerings"
    price, surcharge = one.price_nano_usd_per_hour, one.surcharge_nano_usd_per_hour
    written: Json = {
        "zone": one.zone,
        "zoneID": next(iter(one.requirements.get(terms.zone_id).values), None)
        if terms.zone_id in one.requirements
        else None,
        "capacityType": one.capacity_type,
        "price": None if price is None else prices.text(price),
        "surcharge": prices.text(surcharge) if surcharge else None,
    }
    if not one.healthy:
        written["healthy"] = False
    if one.reservation_id is not None:
        written["reservation"] = {"id": one.reservation_id}
    elif one.count != UNLIMITED:
        written["available"] = one.count
    return _filled(written)


def _reservation(one: Reservation, before: CountBefore | None, terms: CloudTerms) -> Json:
    kind = next(known for known in terms.kinds if known.name == one.kind)
    written: Json = {
        "id": one.id,
        "type": one.kind,
        "instanceType": one.instance_type,
        "zone": one.zone,
        "ownerID": one.owner or None,
        "total": one.total,
        "available": one.available,
        "start": None if one.start_s is None else times.text(one.start_s),
        "end": None if one.end_s is None else times.text(one.end_s),
        "state": one.state_name if one.state_name in wire.RESERVATION_STATES else _STATES[one.state],
        "countBefore": None if before is None else _count_before(before),
    }
    if one.interruptible:
        written["interruptible"] = True
    if one.tenancy != "default":
        written["tenancy"] = one.tenancy
    if (one.drain_lead_s, one.reclaim_lead_s) != (kind.drain_lead_s, kind.reclaim_lead_s):
        written |= {"drainLead": f"{one.drain_lead_s}s", "reclaimLead": f"{one.reclaim_lead_s}s"}
    return _filled(written)


def _count_before(before: CountBefore) -> Json:
    return {
        "read": times.text(before.read_s),
        "free": before.free,
        "elsewhere": before.elsewhere,
        "here": before.here,
    }


def _instance(one: Instance) -> Json:
    return {
        "providerID": one.provider_id,
        "reservationID": one.reservation_id,
        "instanceType": one.instance_type,
        "zone": one.zone,
        "state": one.state.value,
        "launched": times.text(one.launched_s),
    }


def _amounts(amounts: Resources) -> dict[str, str]:
    return {name: resources.text(name, amount) for name, amount in amounts.amounts}


def _filled(written: Json) -> Json:
    """Without fields that have no value."""
    return {key: value for key, value in written.items() if value is not None and value not in ({}, [])}
