"""What `holdfast report` prints: a line for each variant. Called by `report`."""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.cli import page
from holdfast.cli.page import Block, Cell, Column, Heading, Items, Line, Page, Table, Tone
from holdfast.model import wording
from holdfast.simulate.report import measures, texts
from holdfast.simulate.report.measures import Measure, Unit
from holdfast.simulate.report.study import Study, Variant

_LISTED_MAX: Final = 10
_COLUMNS: Final = (
    Column("VARIANT"),
    Column("SEEDS", is_number=True, rank=3),
    Column("TOTAL $", is_number=True),
    Column("DIFFERENCE $", is_number=True, rank=1),
    Column("IDLE $", is_number=True, rank=1),
    Column("ON-DEMAND $", is_number=True, rank=1),
    Column("SPOT $", is_number=True, rank=2),
    Column("P99 WAIT", is_number=True, rank=1),
    Column("LONGEST", is_number=True, rank=2),
    Column("EVICTED", is_number=True, rank=2),
    Column("DISRUPTED", is_number=True, rank=3),
    Column("WAITING", is_number=True, rank=3),
    Column("RANGE OF TOTAL $", rank=4),
)


def build(study: Study, written: str) -> Page:
    return Page(tuple(_blocks(study)), (Line(written),))


def _blocks(study: Study) -> Iterator[Block]:
    yield from _warnings(study)
    results = sum(len(one.results) for one in study.variants)
    head = f"{wording.count(len(study.variants), 'variant')}, {wording.count(results, 'result')}"
    yield Heading(f"{study.name}: {head}")
    yield Table(_COLUMNS, [_row(one, study.base) for one in study.variants])


def _warnings(study: Study) -> Iterator[Block]:
    partial = [
        f"partial: {variant.name}, seed {one.seed}: {wording.duration(one.until - one.begins)} of"
        f" {wording.duration(one.ends - one.begins)}"
        for variant in study.variants
        for one in variant.partial
    ]
    missing = [f"missing: {one.variant}, seed {one.seed}" for one in study.missing]
    mixed = ["mixed: the results are of different inputs"] if len(study.inputs) > 1 else []
    for found in (partial, missing, mixed):
        if found:
            more = len(found) - _LISTED_MAX
            yield Items([*found[:_LISTED_MAX], *([f"and {more} more"] if more > 0 else [])], Tone.BAD)


def _row(variant: Variant, base: Variant) -> Sequence[Cell]:
    seeds = str(len(variant.results)) + (f", {len(variant.partial)} partial" if variant.partial else "")
    return (
        Cell(variant.name),
        Cell(seeds, Tone.BAD if variant.partial else Tone.PLAIN),
        Cell(_median(measures.USD_TOTAL, variant), Tone.STRONG),
        _difference(variant, base),
        Cell(_median(measures.USD_IDLE, variant)),
        Cell(_median(measures.USD_ON_DEMAND, variant)),
        Cell(_median(measures.USD_SPOT, variant)),
        Cell(_median(measures.WAITING_P99, variant)),
        Cell(_median(measures.WAITING_LONGEST, variant)),
        Cell(_median(measures.EVICTED, variant)),
        Cell(_median(measures.DISRUPTED, variant)),
        Cell(_median(measures.UNPLACED, variant)),
        Cell(_range(variant)),
    )


def _median(measure: Measure, variant: Variant) -> str:
    value = measures.spread(measure, variant).median
    match measure.unit:
        case Unit.USD:
            return page.usd(value)
        case Unit.SECONDS:
            return page.age(round(value))
        case _:
            return texts.count(value)


def _difference(variant: Variant, base: Variant) -> Cell:
    if variant is base:
        return Cell(page.NOTHING)
    amount = measures.difference(measures.USD_TOTAL, variant, base)
    if amount is None:
        return Cell("not comparable", Tone.WARNING)
    text = page.usd(amount)
    return Cell(f"+{text}" if amount > 0 else text, Tone.GOOD if amount < 0 else Tone.PLAIN)


def _range(variant: Variant) -> str:
    of = measures.spread(measures.USD_TOTAL, variant)
    return page.NOTHING if of.is_exact else f"{page.usd(of.smallest)}..{page.usd(of.largest)}"
