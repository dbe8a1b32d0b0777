"""Events of a result as symbols above a plot, and as a list.

Called by `details` and `page`. Every type has its own shape, so that colour is not needed.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.api.simulation_results import Event, SimulationResult
from holdfast.model import wording
from holdfast.simulate.report import plots, texts
from holdfast.simulate.report.markup import Markup, h, sentence
from holdfast.simulate.report.series import Span

_COLUMNS: Final = 60  # events of one type in one of them are one symbol
_LISTED_MAX: Final = 60
# Shapes of 10 by 10 around the time of the event, and whether a line goes down from it.
_SHAPES: Final = {
    "reservation-begins": ("M-4-5L5 0L-4 5z", True),
    "reservation-ends": ("M4-5L-5 0L4 5z", True),
    "block-drains": ("M0-5.5L5 0L0 5.5L-5 0z", True),
    "interruption": ("M-4.5-4.5L4.5 4.5M4.5-4.5L-4.5 4.5", False),
    "launch-failed": ("M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0M-3 3L3-3", False),
}
_OTHER: Final = ("M-4-4H4V4H-4z", False)


def symbols(key: str, events: Iterable[Event], span: Span) -> Markup:
    """A group of symbols that plots of this span use."""
    columns: dict[tuple[int, str], list[Event]] = defaultdict(list)
    for one in sorted(events, key=lambda one: (one.at, one.type, one.text)):
        columns[int(span.share(one.at) * _COLUMNS), one.type].append(one)
    drawn = (_symbol(group, span) for group in columns.values())
    return h("g", {"id": key}, *drawn)


def legend(results: Sequence[SimulationResult]) -> Iterable[Markup]:
    types = sorted({event.type for one in results for event in one.events})
    for kind in types:
        box = {"class": "swatch", "viewBox": "-8 -8 16 16", "aria-hidden": "true"}
        yield h("li", None, h("svg", box, _shape(kind)), sentence(kind.replace("-", " ")))


def listed(result: SimulationResult) -> Markup:
    """A table of the first events."""
    if not result.events:
        return h("p", {"class": "note"}, "No events.")
    shown = sorted(result.events, key=lambda one: (one.at, one.type, one.text))
    rows = (
        h(
            "tr",
            None,
            h("th", {"scope": "row", "class": "when"}, texts.short_date(one.at)),
            h("td", None, one.type.replace("-", " ")),
            h("td", None, sentence(one.text)),
        )
        for one in shown[:_LISTED_MAX]
    )
    head = h("tr", None, *(h("th", {"scope": "col"}, one) for one in ("Time (UTC)", "Event", "What")))
    more = len(shown) - _LISTED_MAX
    return h(
        "div",
        None,
        h("table", {"class": "events"}, h("thead", None, head), h("tbody", None, *rows)),
        h("p", {"class": "note"}, f"{wording.count(more, 'more event')} in report.json.")
        if more > 0
        else None,
    )


def _symbol(group: Sequence[Event], span: Span) -> Iterable[Markup]:
    first = group[0]
    at = plots.percent(span.share(first.at))
    if _SHAPES.get(first.type, _OTHER)[1]:
        yield h("line", {"class": "event-line", "x1": at, "x2": at, "y2": "100%"})
    more = f" (and {len(group) - 1:,} more)" if len(group) > 1 else ""
    text = f"{texts.short_date(first.at)}, {first.type.replace('-', ' ')}: {first.text}{more}"
    place = {"x": at, "y": -9, "width": 1, "height": 1, "class": "event"}
    yield h("svg", place, h("title", None, text), _shape(first.type))


def _shape(kind: str) -> Markup:
    drawn = _SHAPES.get(kind, _OTHER)[0]
    return h("path", {"class": f"symbol {kind if kind in _SHAPES else 'other'}", "d": drawn})
