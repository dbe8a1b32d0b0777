"""The JSON document of a report. Called by `outputs`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.api.simulation_reports import MeasureReport, SimulationReport, VariantReport
from holdfast.api.simulation_results import Sizing
from holdfast.simulate.report import measures
from holdfast.simulate.report.measures import Measure
from holdfast.simulate.report.study import Study, Variant


def build(study: Study, sizing: Sizing | None = None) -> SimulationReport:
    compared = measures.all_measures(study.results)
    return SimulationReport(
        study=study.name,
        base=study.base.name,
        variants=tuple(_variant(one, study.base, compared) for one in study.variants),
        missing=study.missing,
        sizing=sizing,
        results=tuple(study.results),
    )


def text(report: SimulationReport) -> str:
    plain: dict[str, Any] = {
        "apiVersion": report.api_version,
        "kind": report.kind,
        **msgspec.to_builtins(report),
    }
    # Each result is a document as well, so that a program can read it with the same code as a result file.
    plain["results"] = [
        {"apiVersion": result.api_version, "kind": result.kind, **body}
        for result, body in zip(report.results, plain["results"], strict=True)
    ]
    return msgspec.json.encode(plain, order="deterministic").decode() + "\n"


def _variant(variant: Variant, base: Variant, compared: Sequence[Measure]) -> VariantReport:
    return VariantReport(
        variant=variant.name,
        input=variant.first.input,
        seeds=tuple(one.seed for one in variant.results),
        partial_seeds=tuple(one.seed for one in variant.partial),
        is_comparable=variant.is_comparable(base),
        changes=variant.first.changes,
        measures=tuple(_measure(one, variant, base) for one in compared),
    )


def _measure(measure: Measure, variant: Variant, base: Variant) -> MeasureReport:
    spread = measures.spread(measure, variant)
    return MeasureReport(
        name=measure.name,
        unit=measure.unit.value,
        median=spread.median,
        smallest=spread.smallest,
        largest=spread.largest,
        difference=measures.difference(measure, variant, base),
    )
