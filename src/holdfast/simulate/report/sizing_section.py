"""Slots that would have paid for themselves, with the value of each further slot. Called by `page`."""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.api.simulation_results import Sizing, SizingResult
from holdfast.simulate.report import charts, plots, texts
from holdfast.simulate.report.markup import Markup, h, sentence

_BARS_MAX: Final = 64
_BARS_MIN: Final = 12  # so that two bars are not wide
_COLUMNS: Final = (
    "Slots",
    "Instance type",
    "Zone",
    "Window (UTC)",
    "Cost",
    "Saved",
    "Value of each further slot",
)
_NUMBERS: Final = frozenset({"Slots", "Cost", "Saved"})


def build(sizing: Sizing) -> Iterable[Markup]:
    if sizing.results:
        yield _table(sizing.results)
    else:
        yield h("p", None, "No further slot would have paid for itself.")
    if sizing.notes:
        yield h("ul", {"class": "plain"}, *(h("li", None, sentence(one)) for one in sizing.notes))


def _table(found: Sequence[SizingResult]) -> Markup:
    head = h(
        "tr",
        None,
        *(h("th", {"scope": "col", "class": "num" if one in _NUMBERS else None}, one) for one in _COLUMNS),
    )
    ordered = sorted(found, key=lambda one: (-one.usd_saved, one.instance_type, one.zone, one.begins))
    table = h("table", {"class": "sizing"}, h("thead", None, head), h("tbody", None, *map(_row, ordered)))
    return charts.scrolling("Slots that would have paid for themselves", table)


def _row(one: SizingResult) -> Markup:
    window = f"{texts.short_date(one.begins)} to {texts.short_date(one.ends)}"
    return h(
        "tr",
        None,
        h("td", {"class": "num"}, h("b", None, f"{one.slots:,}")),
        h("th", {"scope": "row"}, one.instance_type),
        h("td", None, one.zone),
        h("td", None, window),
        h("td", {"class": "num"}, texts.usd(one.usd_cost)),
        h(
            "td",
            {"class": "num good" if one.usd_saved > 0 else "num"},
            h("b", None, texts.usd(one.usd_saved)),
        ),
        h("td", None, _marginal(one)),
    )


def _marginal(one: SizingResult) -> Markup:
    """A bar for each slot: upwards if it saves more than it costs, downwards if not."""
    shown = one.marginal[:_BARS_MAX]
    if not shown:
        return h("span", {"class": "sub"}, "not computed")
    most = max(abs(value) for value in shown) or 1.0
    paying = sum(1 for value in one.marginal if value > 0)
    text = f"The first slot saves {texts.usd(shown[0])}; {paying} of {len(one.marginal)} slots pay for themselves."
    box = {"class": "marginal", "role": "img", "aria-label": text}
    return h("div", None, h("svg", box, *_bars(shown, most)), h("span", {"class": "sub"}, _ends(one)))


def _bars(shown: Sequence[float], most: float) -> Iterable[Markup]:
    width = 1 / max(len(shown), _BARS_MIN)
    for position, value in enumerate(shown):
        height = abs(value) / most / 2
        size = {
            "x": plots.percent(position * width),
            "width": plots.percent(width * 0.8),
            "y": plots.percent(0.5 - height if value > 0 else 0.5),
            "height": plots.percent(height),
        }
        title = h("title", None, f"Slot {position + 1}: {texts.usd(value)}")
        yield h("rect", {"class": f"area {'reserved' if value > 0 else 'idle'}", **size}, title)
    yield h("line", {"class": "zero", "x2": "100%", "y1": "50%", "y2": "50%"})


def _ends(one: SizingResult) -> str:
    last = min(max(one.slots, 1), len(one.marginal)) - 1
    text = f"first {texts.usd(one.marginal[0])}"
    if last > 0:
        text += f", last {texts.usd(one.marginal[last])}"
    following = one.marginal[last + 1 : last + 2]
    return text + "".join(f", one more {texts.usd(value)}" for value in following if one.slots)
