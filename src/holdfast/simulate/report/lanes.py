"""Reservations as lanes: the slots in use over time against the slots that are paid for.

Called by `page`. The height of a lane is the number of its slots, so a full lane is a full reservation.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.api.simulation_results import ReservationResult, SimulationResult
from holdfast.model import wording
from holdfast.simulate.report import charts, plots, texts
from holdfast.simulate.report.charts import Drawn
from holdfast.simulate.report.markup import Child, Markup, h, name
from holdfast.simulate.report.plots import Probe
from holdfast.simulate.report.series import Series, Summary

_LANES_MAX: Final = 16  # of a variant; the rest is in reservations.csv
_POINTS_MAX: Final = 300
_PROBES_MAX: Final = 28


def legend() -> Sequence[Markup]:
    return [
        charts.swatch("Slots in use by this cluster", "reserved"),
        charts.swatch("Slots that it does not use", "idle"),
    ]


def figures(drawn: Sequence[Drawn]) -> Iterable[Markup]:
    for one in drawn:
        yield _figure(one)


def _figure(drawn: Drawn) -> Markup:
    result = drawn.result
    ordered = sorted(result.reservations, key=lambda one: (-one.idle_usd, -one.slot_hours, one.id))
    more = ordered[_LANES_MAX:]
    caption = h(
        "figcaption",
        {"id": f"lanes-{drawn.position}"},
        charts.title(drawn),
        h("span", {"class": "sub"}, _described(result)),
    )
    if not ordered:
        return h("figure", {"class": "chart"}, caption)
    rows = [_lane(drawn, position, one) for position, one in enumerate(ordered[:_LANES_MAX])]
    axis = h("svg", {"class": "lane-axis", "aria-hidden": "true"}, *plots.times(drawn.span))
    events = (
        h("svg", {"class": "lane-events"}, h("use", {"href": f"#{drawn.events}"})) if result.events else None
    )
    rest = f"{wording.count(len(more), 'more reservation')} with {texts.usd(sum(one.idle_usd for one in more))} idle in reservations.csv."
    return h(
        "figure",
        {"class": "chart"},
        caption,
        h("div", {"class": "lanes"}, events, h("ul", None, *rows), axis),
        h("p", {"class": "note"}, rest) if more else None,
        _table(drawn, ordered[:_LANES_MAX]) if result.timeline.slots_used else None,
    )


def _lane(drawn: Drawn, position: int, one: ReservationResult) -> Markup:
    key = f"lane-{drawn.position}-{position}"
    label = h(
        "div",
        {"class": "lane-label", "id": key},
        name(one.id),
        h("span", {"class": "sub"}, _what(one)),
    )
    return h("li", {"class": "lane-row"}, label, _numbers(one), _bar(drawn, key, one))


def _bar(drawn: Drawn, key: str, one: ReservationResult) -> Markup:
    """What is paid for is a box; what is used is an area in it."""
    span, result = drawn.span, drawn.result
    begins, ends = span.share(one.begins), span.share(min(one.ends, result.until))
    used = _used(result, one)
    steps = plots.path(
        used.shortened(_POINTS_MAX, Summary.MEAN), span, max(1, one.total), min(one.ends, result.until)
    )
    box = {"x": plots.percent(begins), "width": plots.percent(max(0.0, ends - begins)), "height": "100%"}
    text = f"{one.id}: {texts.count(round(_mean(used), 1))} of {wording.count(one.total, 'slot')} in use on average"
    return h(
        "svg",
        {"class": "lane-plot", "role": "img", "aria-label": text},
        h("rect", {"class": "area idle", **box}),
        *plots.area(f"{key}-a", steps, "reserved"),
        h("rect", {"class": "outline", **box}),
        *plots.not_simulated(span, result.until),
        *plots.probes(span, _probes(used, one)),
    )


def _probes(used: Series, one: ReservationResult) -> Iterable[Probe]:
    short = used.shortened(_PROBES_MAX, Summary.MEAN)
    for position, value in enumerate(short.values):
        begins, ends = short.at(position), short.at(position + 1)
        if ends > one.begins and begins < one.ends:
            text = f"{texts.short_date(begins)}\n{texts.count(round(value, 1))} of {one.total} in use"
            yield Probe(max(begins, one.begins), min(ends, one.ends), text)


def _numbers(one: ReservationResult) -> Markup:
    share = f"{100 * one.used_hours / one.slot_hours:.0f} % used" if one.slot_hours > 0 else "not paid for"
    idle: Child = h("b", {"class": "idle" if one.idle_usd else ""}, f"{texts.usd(one.idle_usd)} idle")
    return h("div", {"class": "lane-numbers"}, h("b", None, share), h("span", {"class": "sub"}, idle))


def _what(one: ReservationResult) -> str:
    kind = {"default": "", "capacity-block": "block", "interruptible": "interruptible"}.get(
        one.kind, one.kind
    )
    parts = (wording.count(one.total, "slot"), one.instance_type, one.zone, kind)
    elsewhere = f"{one.elsewhere_hours:,.1f} slot-hours used elsewhere" if one.elsewhere_hours else ""
    return ", ".join(filter(None, (*parts, elsewhere)))


def _described(result: SimulationResult) -> str:
    if not result.reservations:
        return "No reservations."
    paid = sum(one.slot_hours for one in result.reservations)
    used = sum(one.used_hours for one in result.reservations)
    idle = sum(one.idle_hours for one in result.reservations)
    share = f"{100 * used / paid:.1f} % of " if paid > 0 else ""
    return f"{share}{paid:,.1f} slot-hours used, {idle:,.1f} idle for {texts.usd(sum(one.idle_usd for one in result.reservations))}."


def _table(drawn: Drawn, shown: Sequence[ReservationResult]) -> Markup:
    """The values as text: slots in use."""
    columns = [_used(drawn.result, one).shortened(_PROBES_MAX, Summary.MEAN) for one in shown]
    head = h(
        "tr",
        None,
        h("th", {"scope": "col"}, "From (UTC)"),
        *(h("th", {"scope": "col", "class": "num"}, name(one.id)) for one in shown),
    )
    times = max(columns, key=lambda one: len(one.values))
    rows = (
        h(
            "tr",
            None,
            h("th", {"scope": "row"}, texts.short_date(times.at(position))),
            *(h("td", {"class": "num"}, _in_use(one.values, position)) for one in columns),
        )
        for position in range(len(times.values))
    )
    return charts.values(drawn, f"mean of {texts.length(times.step)}", head, rows)


def _in_use(values: Sequence[float], position: int) -> str:
    return texts.count(round(values[position], 1)) if position < len(values) else texts.DASH


def _used(result: SimulationResult, one: ReservationResult) -> Series:
    timeline = result.timeline
    return Series(timeline.begins, timeline.step, tuple(timeline.slots_used.get(one.id, ())))


def _mean(used: Series) -> float:
    return sum(used.values) / len(used.values) if used.values else 0.0
