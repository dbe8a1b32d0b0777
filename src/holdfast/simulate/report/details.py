"""What each variant is: changes, seeds, settings, notes, pods that wait at the end, events.

Called by `page`.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.api.simulation_results import SimulationResult
from holdfast.model import wording
from holdfast.simulate.report import events, texts
from holdfast.simulate.report.charts import Drawn
from holdfast.simulate.report.markup import Child, Markup, h, name, sentence
from holdfast.simulate.report.study import Variant

_UNPLACED_MAX: Final = 20


def sections(drawn: Sequence[Drawn], base: Variant) -> Iterable[Markup]:
    for one in drawn:
        yield h(
            "section",
            {"class": "variant", "aria-labelledby": f"variant-{one.position}"},
            h("h3", {"id": f"variant-{one.position}"}, name(one.variant.name)),
            *_parts(one, base),
        )


def _parts(drawn: Drawn, base: Variant) -> Iterable[Child]:
    result, variant = drawn.result, drawn.variant
    if result.changes:
        yield h("ul", {"class": "plain"}, *(h("li", None, sentence(one)) for one in result.changes))
    else:
        yield h("p", None, "The input as it is." if variant is base else "It changes nothing.")
    yield h("dl", {"class": "facts"}, *_facts(variant))
    yield from _settings(result, base.charted, is_base=variant is base)
    notes = dict.fromkeys(note for one in variant.results for note in one.notes)
    if notes:
        yield h("h4", None, "Notes")
        yield h("ul", {"class": "plain"}, *(h("li", None, sentence(one)) for one in notes))
    yield from _unplaced(result)
    summary = h("summary", None, h("span", None, f"Events ({len(result.events):,})"))
    yield h("details", {"class": "values"}, summary, events.listed(result))


def _facts(variant: Variant) -> Iterable[Markup]:
    first = variant.first
    yield _fact("Seeds", ", ".join(str(one.seed) for one in variant.results))
    yield _fact("Begins", f"{texts.date(first.begins)} UTC")
    yield _fact("Simulated", _simulated(variant))
    waits = max(variant.results, key=lambda one: (one.pods.waiting.longest, -one.seed)).pods.waiting
    if waits.longest_pod:
        yield _fact("Waited longest", [name(waits.longest_pod), f" {texts.length(waits.longest)}"])
    yield _fact("Holdfast", ", ".join(dict.fromkeys(one.holdfast for one in variant.results)))
    yield _fact("Input", name(first.input))


def _simulated(variant: Variant) -> str:
    lengths = sorted({one.until - one.begins for one in variant.results})
    planned = variant.first.ends - variant.first.begins
    text = " to ".join(texts.length(one) for one in dict.fromkeys((lengths[0], lengths[-1])))
    return f"{text} of {texts.length(planned)}" if variant.partial else text


def _fact(label: str, value: Child) -> Markup:
    return h("div", None, h("dt", None, label), h("dd", None, value))


def _settings(result: SimulationResult, base: SimulationResult, *, is_base: bool) -> Iterable[Child]:
    """All settings of the base; of another variant, those that differ."""
    keys = sorted({*result.settings, *({} if is_base else base.settings)})
    shown = [key for key in keys if is_base or result.settings.get(key) != base.settings.get(key)]
    if not shown:
        return
    yield h("h4", None, "Settings" if is_base else "Settings that differ from the base")
    yield h(
        "dl", {"class": "facts"}, *(_fact(key, name(result.settings.get(key, "not set"))) for key in shown)
    )


def _unplaced(result: SimulationResult) -> Iterable[Child]:
    total = max(result.unplaced_total, len(result.unplaced))
    if not total:
        return
    yield h(
        "h4", {"class": "warn"}, f"{wording.count(total, 'pod')} wait{'s' if total == 1 else ''} at the end"
    )
    shown = result.unplaced[:_UNPLACED_MAX]
    rows = (
        h(
            "li",
            None,
            name(one.pod),
            h("span", {"class": "sub"}, f" for {texts.length(max(0, result.until - one.since))}: "),
            sentence(one.reason),
        )
        for one in shown
    )
    yield h("ul", {"class": "plain"}, *rows)
    if total > len(shown):
        yield h("p", {"class": "note"}, f"and {total - len(shown):,} more.")
