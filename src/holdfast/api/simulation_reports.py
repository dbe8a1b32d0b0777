"""The JSON document of a report: all results of a study, and how its variants compare."""

from typing import ClassVar

from holdfast.api.meta import Wire
from holdfast.api.simulation_results import SimulationResult, Sizing


class MeasureReport(Wire, frozen=True, kw_only=True):
    """One measure of one variant, over its seeds."""

    name: str  # a column of variants.csv
    unit: str  # usd, hours, seconds, percent or count
    median: float
    smallest: float
    largest: float
    difference: float | None = None  # median less that of the base; unset if the two are not comparable


class VariantReport(Wire, frozen=True, kw_only=True):
    variant: str
    input: str
    seeds: tuple[int, ...]
    partial_seeds: tuple[int, ...] = ()  # results that were interrupted
    is_comparable: bool  # with the base: the same simulated time
    changes: tuple[str, ...] = ()
    measures: tuple[MeasureReport, ...]


class MissingResult(Wire, frozen=True, kw_only=True):
    variant: str
    seed: int


class SimulationReport(Wire, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "holdfast.dev/v1alpha1"
    kind: ClassVar[str] = "SimulationReport"

    study: str
    base: str  # the variant that the others are compared with
    variants: tuple[VariantReport, ...]
    missing: tuple[MissingResult, ...] = ()
    sizing: Sizing | None = None
    results: tuple[SimulationResult, ...]
