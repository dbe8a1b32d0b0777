"""Dollars of each variant as a bar, by kind, with the spread over its seeds. Called by `page`."""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.simulate.report import charts, comparison, measures, plots, series, texts
from holdfast.simulate.report.markup import Markup, h, name
from holdfast.simulate.report.study import Study, Variant

_PARTS: Final = (
    (measures.USD_USED, "reserved"),
    (measures.USD_IDLE, "idle"),
    (measures.USD_ELSEWHERE, "elsewhere"),
    (measures.USD_ON_DEMAND, "on-demand"),
    (measures.USD_SPOT, "spot"),
    (measures.USD_SAVINGS_PLAN, "savings-plan"),
)


def legend(study: Study) -> Sequence[Markup]:
    """Of the kinds that a bar has."""
    kinds = {label for one in study.variants for label, _, _ in _amounts(one)}
    return [charts.swatch(one.label, fill) for one, fill in _PARTS if one.label in kinds]


def build(study: Study) -> Markup:
    """The bar is the result with the median of the total; the line goes from the smallest to the largest total."""
    totals = [measures.spread(measures.USD_TOTAL, one).largest for one in study.variants]
    drawn = [sum(amount for _, _, amount in _amounts(one)) for one in study.variants]
    top, step = series.top(max(*totals, *drawn))
    lines = [number * step for number in range(round(top / step) + 1)]
    rows = (_row(one, study.base, top, lines) for one in study.variants)
    return h("div", {"class": "bars"}, h("ul", None, *rows), _axis(top, lines))


def _row(variant: Variant, base: Variant, top: float, lines: Sequence[float]) -> Markup:
    total = measures.spread(measures.USD_TOTAL, variant)
    parts = "".join(f"; {label} {texts.usd(amount)}" for label, _, amount in _amounts(variant))
    box = {
        "class": "bar-plot",
        "role": "img",
        "aria-label": f"{variant.name}: {texts.usd(total.median)}{parts}",
    }
    return h(
        "li",
        {"class": "bar-row"},
        h("div", {"class": "bar-label"}, name(variant.name), comparison.partial_badge(variant)),
        h("svg", box, *_grid(top, lines), *_parts(variant, top), *_whisker(variant, top)),
        h(
            "div",
            {"class": "bar-total"},
            h("b", None, texts.usd(total.median)),
            comparison.difference(measures.USD_TOTAL, variant, base),
            comparison.not_comparable(variant, base),
        ),
    )


def _amounts(variant: Variant) -> Sequence[tuple[str, str, float]]:
    """Label, class and dollars of each kind that is not 0."""
    found = ((one.label, fill, float(one.value(variant.charted))) for one, fill in _PARTS)
    return [(label, fill, amount) for label, fill, amount in found if amount > 0]


def _parts(variant: Variant, top: float) -> Iterable[Markup]:
    at = 0.0
    for label, fill, amount in _amounts(variant):
        size = {"x": _percent(at, top), "width": _percent(amount, top), "y": 3, "height": 20}
        yield h("rect", {"class": f"area {fill}", **size}, h("title", None, f"{label}: {texts.usd(amount)}"))
        at += amount


def _whisker(variant: Variant, top: float) -> Iterable[Markup]:
    total = measures.spread(measures.USD_TOTAL, variant)
    if total.is_exact:
        return
    ends = (_percent(total.smallest, top), _percent(total.largest, top))
    yield h("line", {"class": "whisker", "x1": ends[0], "x2": ends[1], "y1": 13, "y2": 13})
    for x in ends:
        yield h("line", {"class": "whisker", "x1": x, "x2": x, "y1": 8, "y2": 18})


def _grid(top: float, lines: Sequence[float]) -> Iterable[Markup]:
    for one in lines:
        yield h("line", {"class": "grid", "x1": _percent(one, top), "x2": _percent(one, top), "y2": "100%"})


def _axis(top: float, lines: Sequence[float]) -> Markup:
    labels = []
    for one in lines:
        anchor = "first" if one == 0 else "last" if one >= top else "middle"
        labels.append(
            h("text", {"class": f"x {anchor}", "x": _percent(one, top), "y": "1em"}, texts.usd_short(one))
        )
    return h("svg", {"class": "bars-axis", "aria-hidden": "true"}, *labels)


def _percent(amount: float, top: float) -> str:
    return plots.percent(min(1.0, max(0.0, amount / top)))
