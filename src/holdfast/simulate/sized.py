"""A study with the slots that a sizing recommends, to simulate whether they save what was computed."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.api.simulation_results import SimulationResult, Sizing, SizingResult
from holdfast.sim import world_reading
from holdfast.simulate import sizing
from holdfast.simulate.study import Json, Study

VARIANT: Final = "sized"
_CLASSES: Final = ("EC2NodeClass", "HoldfastNodeClass")
_TERMS: Final = "capacityReservationSelectorTerms"


def size(study: Study, result: SimulationResult) -> Sizing:
    """The slots that would have paid for themselves in this run."""
    spec = study.spec
    return sizing.size(
        result.on_demand, result.begins, result.until, spec.reservation_prices, spec.savings_plan
    )


def with_slots(study: Study, results: Sequence[SizingResult]) -> Study:
    """The study with these slots, which every class of its files selects."""
    made = sizing.reservations(results)
    reserved = world_reading.reserved(study.world, made)
    setup = dataclasses.replace(study.setup, reservations=(*study.setup.reservations, *reserved))
    changes = tuple(
        f"{one.slots} more slots of {one.instance_type} in {one.zone} for {(one.ends - one.begins) // 3600} hours"
        for one in results
    )
    return dataclasses.replace(
        study,
        variant=VARIANT,
        changes=(*study.changes, *changes),
        setup=setup,
        objects=tuple(map(_selecting, study.objects)),
    )


def _selecting(document: Json) -> Json:
    if document.get("kind") not in _CLASSES:
        return document
    spec: dict[str, Any] = dict(document.get("spec") or {})
    spec[_TERMS] = [*(spec.get(_TERMS) or ()), msgspec.to_builtins(sizing.SELECTOR_TERM)]
    return {**document, "spec": spec}
