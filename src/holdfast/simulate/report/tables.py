"""The CSV files of a report: one row for each variant and seed, and one for each of its reservations.

Called by `outputs`. Spreadsheets run a text that begins like a formula, so such a text gets an apostrophe.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.api.simulation_results import ReservationResult, SimulationResult
from holdfast.simulate.report import measures
from holdfast.simulate.report.study import Study, Variant

_DIGITS: Final = 6
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
_RUN: Final = ("study", "input", "variant", "seed")
_TIMES: Final = ("holdfast", "begins", "ends", "until", "partial")
_RESERVATION: Final = (
    "reservation",
    "kind",
    "instance_type",
    "zone",
    "slots",
    "begins",
    "ends",
    "slot_hours",
    "used_hours",
    "elsewhere_hours",
    "idle_hours",
    "usd",
    "idle_usd",
)

Cell = str | int | float


def variants(study: Study) -> str:
    """Times are seconds since the epoch."""
    compared = measures.all_measures(study.results)
    rows = [
        (
            *_run(variant, one),
            one.holdfast,
            one.begins,
            one.ends,
            one.until,
            "yes" if one.until < one.ends else "no",
            *(measure.value(one) for measure in compared),
        )
        for variant in study.variants
        for one in variant.results
    ]
    return _text((*_RUN, *_TIMES, *(measure.name for measure in compared)), rows)


def reservations(study: Study) -> str:
    rows = [
        (*_run(variant, one), *_reservation(reservation))
        for variant in study.variants
        for one in variant.results
        for reservation in one.reservations
    ]
    return _text((*_RUN, *_RESERVATION), rows)


def _run(variant: Variant, result: SimulationResult) -> Sequence[Cell]:
    return result.study, result.input, variant.name, result.seed


def _reservation(one: ReservationResult) -> Sequence[Cell]:
    return (
        one.id,
        one.kind,
        one.instance_type,
        one.zone,
        one.total,
        one.begins,
        one.ends,
        one.slot_hours,
        one.used_hours,
        one.elsewhere_hours,
        one.idle_hours,
        one.usd,
        one.idle_usd,
    )


def _text(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([_cell(one) for one in head])
    writer.writerows([_cell(one) for one in row] for row in rows)
    return file.getvalue()


def _cell(value: Cell) -> Cell:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return round(value, _DIGITS) if isinstance(value, float) else value
