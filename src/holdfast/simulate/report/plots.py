"""Draws one plot as SVG: areas in steps over time, with axes, events and the values below the pointer.

Called by `charts` and `lanes`. A plot has no fixed width: positions are percentages, and an area is a clip path in shares
of the plot, so that text and patterns are never stretched. No script is needed.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.simulate.report import series, texts
from holdfast.simulate.report.markup import Markup, h
from holdfast.simulate.report.series import Series, Span

_WIDTH, _HEIGHT = 1000, 400  # units of a path
_WEEK_S: Final = 7 * series.DAY_S
_EDGE: Final = 0.03  # labels of the time axis stay within the plot


@dataclass(frozen=True, slots=True)
class Layer:
    """An area from 0 up to its edge. Layers that are stacked are drawn from the highest to the lowest."""

    fill: str  # a class of report.css
    edge: Series


@dataclass(frozen=True, slots=True)
class Probe:
    """A part of the time axis, and what is shown when the pointer is on it."""

    begins: int
    ends: int
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    key: str  # unique in the document
    span: Span
    until: int  # later times were not simulated
    top: float
    step: float  # of the value axis
    label: Callable[[float], str]
    layers: Sequence[Layer]
    probes: Sequence[Probe] = ()
    events: str = ""  # the id of the symbols of events
    has_times: bool = True
    labelled_by: str = ""

    def draw(self, css: str = "plot") -> Markup:
        return h(
            "svg",
            {"class": css, "role": "img", "aria-labelledby": self.labelled_by},
            self._grid(),
            time_lines(self.span),
            (self._layer(position, one) for position, one in enumerate(self.layers)),
            not_simulated(self.span, self.until),
            self._values(),
            times(self.span) if self.has_times else None,
            h("use", {"href": f"#{self.events}"}) if self.events else None,
            probes(self.span, self.probes),
        )

    def _layer(self, position: int, layer: Layer) -> Iterable[Markup]:
        return area(f"{self.key}-{position}", path(layer.edge, self.span, self.top, self.until), layer.fill)

    def _grid(self) -> Iterable[Markup]:
        for share, _ in self._steps():
            yield h("line", {"class": "grid", "x2": "100%", "y1": share, "y2": share})

    def _values(self) -> Iterable[Markup]:
        for share, value in self._steps():
            yield h("text", {"class": "y", "x": -7, "y": share, "dy": ".34em"}, self.label(value))

    def _steps(self) -> Iterable[tuple[str, float]]:
        for number in range(round(self.top / self.step) + 1):
            yield percent(1 - number * self.step / self.top), number * self.step


def area(key: str, steps: str, fill: str) -> Iterable[Markup]:
    """The area below a path, filled with a pattern, and its edge."""
    if not steps:
        return
    shape = h("path", {"id": key, "d": steps, "transform": f"scale({1 / _WIDTH:g} {1 / _HEIGHT:g})"})
    yield h("clipPath", {"id": f"{key}c", "clipPathUnits": "objectBoundingBox"}, shape)
    yield h(
        "rect", {"class": f"area {fill}", "width": "100%", "height": "100%", "clip-path": f"url(#{key}c)"}
    )
    box = {"viewBox": f"0 0 {_WIDTH} {_HEIGHT}", "preserveAspectRatio": "none", "class": "edge"}
    yield h("svg", box, h("path", {"d": steps.rpartition("V")[0] if "V" in steps else steps}))


def path(edge: Series, span: Span, top: float, until: int) -> str:
    """The area as steps, in whole units; equal values are one step. It ends at `until`."""
    if not edge.values:
        return ""
    first = round(span.share(edge.begins) * _WIDTH)
    parts, x, y = [f"M{first} {_HEIGHT}"], first, _HEIGHT
    for position, value in enumerate(edge.values):
        end = round(span.share(min(edge.at(position + 1), until)) * _WIDTH)
        height = round((1 - min(1.0, max(0.0, value / top))) * _HEIGHT)
        if height != y:
            parts.append(f"v{height - y}")
        if end > x:
            parts.append(f"h{end - x}")
        x, y = max(x, end), height
    return f"{_merged(parts)}V{_HEIGHT}z"


def _merged(parts: Sequence[str]) -> str:
    """Neighbours of the same direction as one step."""
    merged: list[str] = []
    for one in parts:
        if merged and one[0] == merged[-1][0]:
            merged[-1] = f"{one[0]}{int(merged[-1][1:]) + int(one[1:])}"
        else:
            merged.append(one)
    return "".join(merged)


def times(span: Span) -> Iterable[Markup]:
    """The labels of the time axis. On a narrow screen every second one is hidden."""
    at_times, step = series.time_steps(span)
    for position, at in enumerate(at_times):
        share = span.share(at)
        is_day = at % series.DAY_S == 0
        text = texts.clock(at) if not is_day else texts.day(at) if step < _WEEK_S else texts.month_day(at)
        anchor = "first" if share < _EDGE else "last" if share > 1 - _EDGE else "middle"
        hidden = " wide" if position % 2 and len(at_times) > 4 else ""  # noqa: PLR2004 - labels of a narrow screen
        css = f"x {anchor}{' day' if is_day and step < series.DAY_S else ''}{hidden}"
        yield h("text", {"class": css, "x": percent(share), "y": "100%", "dy": "1.35em"}, text)


def time_lines(span: Span) -> Iterable[Markup]:
    for at in series.time_steps(span)[0]:
        x = percent(span.share(at))
        yield h("line", {"class": "grid", "x1": x, "x2": x, "y2": "100%"})


def not_simulated(span: Span, until: int) -> Iterable[Markup]:
    if until >= span.ends:
        return
    start = span.share(until)
    yield h(
        "rect",
        {"class": "area not-simulated", "x": percent(start), "width": percent(1 - start), "height": "100%"},
    )
    middle = percent(min(0.9, (1 + start) / 2))
    yield h("text", {"class": "x middle strong", "x": middle, "y": "50%"}, "not simulated")


def probes(span: Span, shown: Iterable[Probe]) -> Iterable[Markup]:
    for one in shown:
        start, end = span.share(one.begins), span.share(one.ends)
        size = {"class": "probe", "x": percent(start), "width": percent(end - start), "height": "100%"}
        yield h("rect", size, h("title", None, one.text))


def percent(share: float) -> str:
    return f"{round(100 * share, 2):g}%"
