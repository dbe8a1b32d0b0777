"""The report as one HTML file. It needs no network and no script, and its policy forbids both. Called by `outputs`."""

from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Final

from holdfast.api.simulation_results import Sizing
from holdfast.model import wording
from holdfast.simulate.report import (
    bars,
    charts,
    comparison,
    details,
    events,
    lanes,
    patterns,
    sizing_section,
    texts,
    tiles,
)
from holdfast.simulate.report.charts import Drawn
from holdfast.simulate.report.markup import Child, Markup, h, name, style
from holdfast.simulate.report.series import POINTS_MAX
from holdfast.simulate.report.study import Study

_CHARTED_MAX: Final = 12  # variants
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LISTED_MAX: Final = 10
_THEMES: Final = (("auto", "Auto"), ("light", "Light"), ("dark", "Dark"))


def text(study: Study, sizing: Sizing | None = None) -> str:
    drawn = [Drawn(position, one) for position, one in enumerate(study.variants[:_CHARTED_MAX])]
    page = h("html", {"lang": "en"}, _head(study), _body(study, drawn, sizing))
    return f"<!doctype html>\n{page.text}\n"


def _head(study: Study) -> Markup:
    return h(
        "head",
        None,
        h("meta", {"charset": "utf-8"}),
        h("meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        h("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        h("meta", {"name": "color-scheme", "content": "light dark"}),
        h("meta", {"name": "referrer", "content": "no-referrer"}),
        h("title", None, f"{study.name}: simulation report of Holdfast"),
        style(_sheet()),
    )


def _sheet() -> str:
    """The look of the page of the controller, and what only a report has."""
    base = resources.files("holdfast") / "web" / "base.css"
    own = resources.files("holdfast") / "simulate" / "report" / "report.css"
    return base.read_text(encoding="utf-8") + own.read_text(encoding="utf-8")


def _logo() -> Markup:
    icon = resources.files("holdfast") / "web" / "icon.svg"
    return Markup(icon.read_text(encoding="utf-8").strip())


def _body(study: Study, drawn: Sequence[Drawn], sizing: Sizing | None) -> Markup:
    sections = list(_sections(study, drawn, sizing))
    links = (h("a", {"href": f"#{key}"}, title) for key, title, _ in sections)
    cards = (
        h(
            "section",
            {"class": "card", "id": key, "aria-labelledby": f"{key}-title"},
            h("h2", {"id": f"{key}-title"}, title),
            *content,
        )
        for key, title, content in sections
    )
    return h(
        "body",
        None,
        h("a", {"class": "skip", "href": "#main"}, "Skip to the content"),
        patterns.definitions(events.symbols(one.events, one.result.events, one.span) for one in drawn),
        _bar(study),
        h("nav", {"class": "sections", "aria-label": "Sections"}, *links),
        h(
            "main",
            {"id": "main", "tabindex": -1},
            _title(study),
            _problems(study),
            tiles.build(study),
            *cards,
        ),
        _footer(study),
    )


def _bar(study: Study) -> Markup:
    switch = (
        h(
            "label",
            None,
            h("input", {"type": "radio", "name": "theme", "id": f"theme-{key}", "checked": key == "auto"}),
            h("span", None, label),
        )
        for key, label in _THEMES
    )
    return h(
        "header",
        {"class": "bar"},
        h("span", {"class": "brand"}, _logo(), h("span", None, "Holdfast")),
        h("span", {"class": "cluster"}, h("bdi", None, study.name)),
        h("fieldset", {"class": "segments"}, h("legend", {"class": "hidden"}, "Colours"), *switch),
    )


def _title(study: Study) -> Markup:
    first = study.base.first
    results = list(study.results)
    seeds = sorted({one.seed for one in results})
    about = (
        f"{texts.length(first.ends - first.begins)} from {texts.date(first.begins)} UTC. "
        f"{wording.count(len(study.variants), 'variant')}, {wording.count(len(seeds), 'seed')}, "
        f"{wording.count(len(results), 'result')}. Made with Holdfast {first.holdfast}. Dollars are simulated, at the prices of the input."
    )
    return h(
        "div",
        {"class": "title"},
        h("h1", None, "Simulation report: ", h("bdi", None, study.name)),
        h("p", {"class": "note"}, about),
    )


def _problems(study: Study) -> Child:
    lines: list[Child] = [
        h(
            "p",
            None,
            h("strong", None, "Partial: "),
            name(variant.name),
            f" with seed {one.seed} was simulated until {texts.date(one.until)} UTC, {texts.length(one.until - one.begins)} of {texts.length(one.ends - one.begins)}.",
        )
        for variant in study.variants
        for one in variant.partial
    ]
    missing = [f"{one.variant} with seed {one.seed}" for one in study.missing]
    if missing:
        lines.append(
            h("p", None, h("strong", None, "Missing: "), f"{wording.listed(missing, shown=_LISTED_MAX)}.")
        )
    if len(study.inputs) > 1:
        lines.append(
            h(
                "p",
                None,
                h("strong", None, "Mixed: "),
                "the results are of different inputs, so differences may have other causes than the variant.",
            )
        )
    if any(not one.is_comparable(study.base) for one in study.variants):
        lines.append(h("p", None, "Results with different simulated times are not compared."))
    return h("div", {"class": "problems"}, *_bounded(lines)) if lines else None


def _bounded(lines: Sequence[Child]) -> Iterable[Child]:
    yield from lines[:_LISTED_MAX]
    if len(lines) > _LISTED_MAX:
        yield h("p", None, f"and {len(lines) - _LISTED_MAX} more.")


# --- Sections ---------------------------------------------------------------------------------------


def _sections(
    study: Study, drawn: Sequence[Drawn], sizing: Sizing | None
) -> Iterable[tuple[str, str, Sequence[Child]]]:
    yield (
        "variants",
        "Variants",
        [_legend(bars.legend(study)), bars.build(study), *_compared(study)],
    )
    if sizing is not None:
        about = "Slots that would have paid for themselves, from the on-demand hours that remain. Nothing was purchased."
        yield "sizing", "Sizing", [_note(about), *sizing_section.build(sizing)]
    left = len(study.variants) - len(drawn)
    more = [_note(f"{wording.count(left, 'more variant')} in report.json.")] if left else []
    marked = list(events.legend([one.result for one in drawn]))
    about = (
        "The height of a lane is the number of its slots. A lane is as long as its reservation is paid for."
    )
    yield (
        "slots",
        "Slots in use",
        [_note(about), _legend([*lanes.legend(), *marked]), *more, _grid(lanes.figures(drawn))],
    )
    about = f"Reserved slots cost the same, used or not.{_resolution(drawn, 'the mean')}"
    yield (
        "cost",
        "Dollars an hour",
        [
            _note(about),
            _legend([*charts.legend(drawn, charts.COST), *marked]),
            _grid(charts.figures([charts.COST], drawn)),
        ],
    )
    about = f"Pods that wait for a node, and pods that run.{_resolution(drawn, 'the largest number that waits, and the mean of those that run,')}"
    kinds = (charts.WAITING, charts.RUNNING)
    yield (
        "pods",
        "Pods",
        [
            _note(about),
            _legend([*charts.legend(drawn, *kinds), *marked]),
            _grid(charts.figures(kinds, drawn)),
        ],
    )
    about = f"Nodes by capacity type.{_resolution(drawn, 'the mean')}"
    yield (
        "nodes",
        "Nodes",
        [
            _note(about),
            _legend([*charts.legend(drawn, charts.NODES), *marked]),
            _grid(charts.figures([charts.NODES], drawn)),
        ],
    )
    yield "inputs", "What was simulated", list(details.sections(drawn, study.base))


def _compared(study: Study) -> Iterable[Markup]:
    several = any(len(one.results) > 1 for one in study.variants)
    parts = (
        "The bars are drawn for one result of each variant, the median by total; the line is the range of its seeds."
        if several
        else "",
        "Numbers are medians over the seeds, with the smallest and the largest below." if several else "",
        "Differences are to the base." if len(study.variants) > 1 else "",
    )
    note = " ".join(filter(None, parts))
    if note:
        yield _note(note)
    yield from comparison.tables(study)


def _resolution(drawn: Sequence[Drawn], how: str) -> str:
    """What one step of the chart is, if it is more than one value."""
    sizes = {
        -(-len(one.result.timeline.pods_running) // POINTS_MAX) * one.result.timeline.step
        for one in drawn
        if len(one.result.timeline.pods_running) > POINTS_MAX
    }
    return f" Each step shows {how} of {texts.length(max(sizes))}." if sizes else ""


def _note(text: str) -> Markup:
    return h("p", {"class": "note"}, text)


def _legend(items: Sequence[Markup]) -> Markup:
    return h("ul", {"class": "legend"}, *items)


def _grid(figures: Iterable[Markup]) -> Markup:
    found = list(figures)
    return h("div", {"class": "figures" if len(found) > 1 else "figures single"}, *found)


def _footer(study: Study) -> Markup:
    inputs = ", ".join(study.inputs)
    return h(
        "footer",
        None,
        h(
            "p",
            {"class": "note"},
            "Input ",
            name(inputs),
            ". Times are UTC. report.json has all results; variants.csv and reservations.csv have them as tables.",
        ),
    )
