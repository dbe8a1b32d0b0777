"""The variants side by side: a table of all measures, with the difference to the base. Called by `page` and `bars`."""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.model import wording
from holdfast.simulate.report import charts, measures, texts
from holdfast.simulate.report.markup import Child, Markup, h, name
from holdfast.simulate.report.measures import Better, Measure, Unit
from holdfast.simulate.report.study import Study, Variant

_COLUMNS_MAX: Final = 5  # variants in one table, so that it can be printed
_RESERVATIONS_MAX: Final = 12
_FIRST_HALF: Final = frozenset({measures.USD_TOTAL.group, measures.IDLE_HOURS.group})


def tables(study: Study) -> Iterable[Markup]:
    """Tables of at most five variants, each with the base, and each in two halves."""
    rows = [one for one in measures.all_measures(study.results) if not _is_left_out(one, study.variants)]
    halves = [[one for one in rows if (one.group in _FIRST_HALF) is first] for first in (True, False)]
    others = study.variants[1:]
    size = _COLUMNS_MAX - 1
    for at in range(0, max(1, len(others)), size):
        shown = (study.base, *others[at : at + size])
        label = wording.listed([one.name for one in shown])
        parts = ("Dollars and slot-hours", "Pods, nodes and calls")
        found = [
            charts.scrolling(f"{part}: {label}", _table(half, shown, study))
            for part, half in zip(parts, halves, strict=True)
        ]
        yield h("div", {"class": "halves" if len(shown) < _COLUMNS_MAX - 1 else None}, *found)


def _table(rows: Sequence[Measure], shown: Sequence[Variant], study: Study) -> Markup:
    head = h(
        "tr",
        None,
        h("th", {"scope": "col"}, h("span", {"class": "hidden"}, "Measure")),
        *(h("th", {"scope": "col", "class": "num"}, *_head(one, study.base)) for one in shown),
    )
    bodies = []
    for group in dict.fromkeys(one.group for one in rows):
        lines = [_row(one, shown, study.base) for one in rows if one.group == group]
        if any(one.group == group and one.unit is Unit.HOURS for one in rows):
            lines += _reservation_rows(shown, study)
        title = h("th", {"scope": "rowgroup", "colspan": len(shown) + 1, "class": "group"}, group)
        bodies.append(h("tbody", None, h("tr", None, title), *lines))
    return h("table", {"class": "compared"}, h("thead", None, head), *bodies)


def _head(variant: Variant, base: Variant) -> Iterable[Child]:
    seeds = wording.count(len(variant.results), "seed")
    yield name(variant.name)
    yield h("span", {"class": "sub"}, f"base, {seeds}" if variant is base else seeds)
    yield partial_badge(variant)
    yield not_comparable(variant, base)


def not_comparable(variant: Variant, base: Variant) -> Child:
    return (
        None
        if variant is base or variant.is_comparable(base)
        else h("span", {"class": "sub"}, "not comparable")
    )


def partial_badge(variant: Variant) -> Child:
    return h("span", {"class": "badge warn"}, "partial") if variant.partial else None


def _row(measure: Measure, shown: Sequence[Variant], base: Variant) -> Markup:
    cells = (
        h(
            "td",
            {"class": "num"},
            h(
                "div",
                {"class": "cell"},
                difference(measure, one, base),
                h("b", None, texts.value(measures.spread(measure, one).median, measure.unit)),
            ),
            _spread(measure, one),
        )
        for one in shown
    )
    total = "total" if measure is measures.USD_TOTAL else None
    return h("tr", {"class": total}, h("th", {"scope": "row"}, measure.label), *cells)


def _spread(measure: Measure, variant: Variant) -> Child:
    text = texts.spread(measures.spread(measure, variant), measure.unit)
    return h("span", {"class": "sub"}, text) if text else None


def difference(measure: Measure, variant: Variant, base: Variant) -> Child:
    """To the base, with its tone; None for the base itself, and if the two are not comparable."""
    if variant is base:
        return None
    amount = measures.difference(measure, variant, base)
    if amount is None:
        return None
    text = texts.difference(measure, amount, measures.spread(measure, base).median)
    return h("span", {"class": f"sub {_tone(measure, amount, text)}"}, text)


def _tone(measure: Measure, amount: float, text: str) -> str:
    if measure.better is Better.NEITHER or text == texts.SAME:
        return ""
    return "good" if (amount < 0) == (measure.better is Better.LOWER) else "bad"


def _is_left_out(measure: Measure, variants: Sequence[Variant]) -> bool:
    return measure.is_optional and not any(
        measure.value(one) for variant in variants for one in variant.results
    )


# --- Reservations -----------------------------------------------------------------------------------


def _reservation_rows(shown: Sequence[Variant], study: Study) -> Iterable[Markup]:
    """Used and idle slot-hours of the reservations with the most idle dollars."""
    idle: dict[str, float] = {}
    for one in study.results:
        for each in one.reservations:
            idle[each.id] = max(idle.get(each.id, 0.0), each.idle_usd)
    ordered = sorted(idle, key=lambda one: (-idle[one], one))
    for reservation in ordered[:_RESERVATIONS_MAX]:
        cells = (h("td", {"class": "num"}, *_hours(reservation, one)) for one in shown)
        yield h("tr", {"class": "reservation"}, h("th", {"scope": "row"}, name(reservation)), *cells)
    if more := ordered[_RESERVATIONS_MAX:]:
        text = f"{wording.count(len(more), 'more reservation')} in reservations.csv"
        yield h("tr", None, h("td", {"colspan": len(shown) + 1, "class": "note"}, text))


def _hours(reservation: str, variant: Variant) -> Iterable[Child]:
    found = [each for one in variant.results for each in one.reservations if each.id == reservation]
    if not found:
        yield h("span", {"class": "sub"}, "none")
        return
    used, idle = (
        measures.spread_of([getattr(one, field) for one in found]).median
        for field in ("used_hours", "idle_hours")
    )
    yield f"{used:,.1f} h used"
    yield h("span", {"class": "sub"}, f"{idle:,.1f} h idle")
