"""Charts over time: dollars an hour, pods and nodes, one for each variant, with the same value axis.

Called by `page`. Each chart has a caption that describes it, and a table of its values.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.simulation_results import SimulationResult, Timeline
from holdfast.simulate.report import series, texts
from holdfast.simulate.report.markup import Markup, h, name
from holdfast.simulate.report.plots import Layer, Plot, Probe
from holdfast.simulate.report.series import Series, Span, Summary
from holdfast.simulate.report.study import Variant

_ROWS_MAX: Final = (
    56  # of a table of values, and of the parts that show values below the pointer: 3 hours of a week
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A variant, and which of its results is drawn."""

    position: int  # in the study
    variant: Variant

    @property
    def result(self) -> SimulationResult:
        return self.variant.charted

    @property
    def span(self) -> Span:
        return Span(self.result.begins, self.result.ends)

    @property
    def events(self) -> str:
        return f"events-{self.position}"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is drawn: values that are stacked."""

    key: str
    layers: Sequence[tuple[str, str]]  # label and class, from the lowest
    values: Callable[[Timeline], Sequence[Sequence[float]]]
    summary: Summary
    label: Callable[[float], str]
    top: Callable[[float], tuple[float, float]]
    unit: str  # after a value in a sentence


COST: Final = Kind(
    key="cost",
    layers=(
        ("Reserved, used", "reserved"),
        ("Reserved, idle", "idle"),
        ("On-demand", "on-demand"),
        ("Spot", "spot"),
    ),
    values=lambda one: (one.usd_reserved_used, one.usd_reserved_idle, one.usd_on_demand, one.usd_spot),
    summary=Summary.MEAN,
    label=texts.usd_short,
    top=series.top,
    unit=" an hour",
)
NODES: Final = Kind(
    key="nodes",
    layers=(("Reserved", "reserved"), ("On-demand", "on-demand"), ("Spot", "spot")),
    values=lambda one: (one.reserved_nodes, one.on_demand_nodes, one.spot_nodes),
    summary=Summary.MEAN,
    label=texts.count,
    top=series.count_top,
    unit=" nodes",
)
WAITING: Final = Kind(
    key="waiting",
    layers=(("Waiting", "waiting"),),
    values=lambda one: (one.pods_waiting,),
    summary=Summary.LARGEST,
    label=texts.count,
    top=series.count_top,
    unit=" pods waiting",
)
RUNNING: Final = Kind(
    key="running",
    layers=(("Running", "running"),),
    values=lambda one: (one.pods_running,),
    summary=Summary.MEAN,
    label=texts.count,
    top=series.count_top,
    unit=" pods running",
)


def swatch(label: str, fill: str) -> Markup:
    box = {"class": "swatch", "aria-hidden": "true"}
    return h(
        "li",
        None,
        h("svg", box, h("rect", {"class": f"area {fill}", "width": "100%", "height": "100%"})),
        label,
    )


def legend(drawn: Sequence[Drawn], *kinds: Kind) -> Sequence[Markup]:
    """Of the layers that are not 0 everywhere."""
    return [
        swatch(*layer)
        for kind in kinds
        for position, layer in enumerate(kind.layers)
        if any(any(kind.values(one.result.timeline)[position]) for one in drawn)
    ]


def figures(kinds: Sequence[Kind], drawn: Sequence[Drawn]) -> Iterable[Markup]:
    """A figure for each variant, with a plot for each kind. All variants have the same value axes."""
    tops = [kind.top(max((_largest(kind, one) for one in drawn), default=0.0)) for kind in kinds]
    for one in drawn:
        yield _figure(kinds, tops, one)


def _figure(kinds: Sequence[Kind], tops: Sequence[tuple[float, float]], drawn: Drawn) -> Markup:
    key = f"{kinds[0].key}-{drawn.position}"
    caption = h(
        "figcaption",
        {"id": f"{key}-caption"},
        title(drawn),
        h("span", {"class": "sub"}, " ".join(_described(kind, drawn.result) for kind in kinds)),
    )
    if not drawn.result.timeline.reserved_nodes:
        return h("figure", {"class": "chart"}, caption)
    last = len(kinds) - 1
    plots = (
        _plot(kind, top, drawn, has_times=position == last, has_events=position == 0)
        for position, (kind, top) in enumerate(zip(kinds, tops, strict=True))
    )
    return h("figure", {"class": "chart"}, caption, *plots, _table(kinds, drawn))


def title(drawn: Drawn) -> Sequence[Markup]:
    count = len(drawn.variant.results)
    seed = f"seed {drawn.result.seed}" + (f", the median of {count} seeds by total" if count > 1 else "")
    return [h("strong", None, name(drawn.variant.name)), h("span", {"class": "seed"}, seed)]


def _plot(kind: Kind, top: tuple[float, float], drawn: Drawn, *, has_times: bool, has_events: bool) -> Markup:
    short = [one.shortened(series.POINTS_MAX, kind.summary) for one in _series(kind, drawn.result)]
    edges = series.areas([one.values for one in short])
    layers = [
        Layer(fill, Series(short[0].begins, short[0].step, edge))
        for (_, fill), edge in zip(kind.layers, edges, strict=True)
    ]
    plot = Plot(
        key=f"{kind.key}-{drawn.position}",
        span=drawn.span,
        until=drawn.result.until,
        top=top[0],
        step=top[1],
        label=kind.label,
        layers=layers[::-1],
        probes=list(_probes(kind, drawn.result)),
        events=drawn.events if has_events and drawn.result.events else "",
        has_times=has_times,
        labelled_by=f"{'waiting' if kind is RUNNING else kind.key}-{drawn.position}-caption",
    )
    return h(
        "div",
        {"class": f"plot-box{' has-events' if plot.events else ''}{' has-times' if has_times else ''}"},
        plot.draw(f"plot {kind.key}"),
    )


def _probes(kind: Kind, result: SimulationResult) -> Iterable[Probe]:
    rows = [one.shortened(_ROWS_MAX, kind.summary) for one in _series(kind, result)]
    for position in range(len(rows[0].values)):
        begins = rows[0].at(position)
        parts = (
            f"{label}: {_exact(kind, one.values[position])}"
            for (label, _), one in zip(kind.layers, rows, strict=True)
        )
        yield Probe(begins, rows[0].at(position + 1), "\n".join((texts.short_date(begins), *parts)))


def _table(kinds: Sequence[Kind], drawn: Drawn) -> Markup:
    """The values as text."""
    columns = [
        (label, kind, one.shortened(_ROWS_MAX, kind.summary))
        for kind in kinds
        for (label, _), one in zip(kind.layers, _series(kind, drawn.result), strict=True)
    ]
    first = columns[0][2]
    head = h(
        "tr",
        None,
        h("th", {"scope": "col"}, "From (UTC)"),
        *(h("th", {"scope": "col", "class": "num"}, label) for label, _, _ in columns),
    )
    rows = (
        h(
            "tr",
            None,
            h("th", {"scope": "row"}, texts.short_date(first.at(position))),
            *(h("td", {"class": "num"}, _exact(kind, one.values[position])) for _, kind, one in columns),
        )
        for position in range(len(first.values))
    )
    how = " and ".join(dict.fromkeys(f"{kind.summary.value} of {texts.length(first.step)}" for kind in kinds))
    return values(drawn, how, head, rows)


def values(drawn: Drawn, how: str, head: Markup, rows: Iterable[Markup]) -> Markup:
    """A table of values that opens with a click. `how` says what a value is."""
    label = f"Values of {drawn.variant.name}"
    table = h("table", None, h("thead", None, head), h("tbody", None, *rows))
    hidden = h("span", {"class": "hidden"}, f" of {drawn.variant.name}")
    return h(
        "details",
        {"class": "values"},
        h("summary", None, h("span", None, "Values", hidden, f" ({how})")),
        scrolling(label, table),
    )


def scrolling(label: str, content: Markup) -> Markup:
    """A table that scrolls if the screen is narrow; with the keyboard too."""
    return h("div", {"class": "scroll", "tabindex": 0, "role": "group", "aria-label": label}, content)


def _described(kind: Kind, result: SimulationResult) -> str:
    """The mean and the largest value, in words."""
    found = _series(kind, result)
    total = [sum(values) for values in zip(*(one.values for one in found), strict=True)]
    if not total:
        return "The result has no values over time."
    largest = max(total)
    mean = sum(total) / len(total)
    if largest <= 0:
        return f"{_exact(kind, 0)}{kind.unit} at every step."
    at = texts.short_date(found[0].at(total.index(largest)))
    return f"Mean {_rounded(kind, mean)}, largest {_exact(kind, largest)}{kind.unit} ({at})."


def _largest(kind: Kind, drawn: Drawn) -> float:
    """Of what is drawn: the mean of an hour may be less than a short peak."""
    short = [one.shortened(series.POINTS_MAX, kind.summary).values for one in _series(kind, drawn.result)]
    return max((sum(values) for values in zip(*short, strict=True)), default=0.0)


def _series(kind: Kind, result: SimulationResult) -> Sequence[Series]:
    timeline = result.timeline
    return [Series(timeline.begins, timeline.step, tuple(values)) for values in kind.values(timeline)]


def _exact(kind: Kind, value: float) -> str:
    return texts.usd(value) if kind is COST else texts.count(round(value, 1))


def _rounded(kind: Kind, value: float) -> str:
    return texts.usd(value) if kind is COST else f"{value:,.1f}"
