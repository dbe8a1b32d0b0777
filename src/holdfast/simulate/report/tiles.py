"""The base in a few numbers, and the cheapest variant. Called by `page`."""

from holdfast.model import wording
from holdfast.simulate.report import measures, texts
from holdfast.simulate.report.markup import Child, Markup, h, name
from holdfast.simulate.report.measures import Measure
from holdfast.simulate.report.study import Study, Variant


def build(study: Study) -> Markup:
    base = study.base
    used = texts.value(_median(measures.USED_PERCENT, base), measures.USED_PERCENT.unit)
    idle_hours = texts.value(_median(measures.IDLE_HOURS, base), measures.IDLE_HOURS.unit)
    disrupted = _median(measures.DISRUPTED, base)
    outside = _median(measures.USD_ON_DEMAND, base) + _median(measures.USD_SPOT, base)
    tiles = (
        _tile("Total", texts.usd(_median(measures.USD_TOTAL, base)), _spread(measures.USD_TOTAL, base)),
        _cheapest(study),
        _tile(
            "Idle slots",
            texts.usd(_median(measures.USD_IDLE, base)),
            f"{idle_hours} idle, {used} used",
            "idle",
        ),
        _tile(
            "On-demand and spot",
            texts.usd(outside),
            f"{texts.usd(_median(measures.USD_ON_DEMAND, base))} on-demand",
        ),
        _tile(
            "A pod waits (p99)",
            texts.length(_median(measures.WAITING_P99, base)),
            f"median {texts.length(_median(measures.WAITING_P50, base))}, longest {texts.length(_median(measures.WAITING_LONGEST, base))}",
        ),
        _tile(
            "Pods evicted",
            texts.count(_median(measures.EVICTED, base)),
            f"{texts.count(disrupted)} {wording.plural('node', round(disrupted))} disrupted",
        ),
    )
    title = h("h2", {"id": "base-title", "class": "tiles-title"}, "The base: ", name(base.name))
    return h("section", {"aria-labelledby": "base-title"}, title, h("dl", {"class": "tiles"}, *tiles))


def _cheapest(study: Study) -> Markup:
    compared = [one for one in study.variants if one.is_comparable(study.base)]
    if len(study.variants) == 1:
        results = wording.count(len(study.base.results), "result")
        return _tile("Variants", "1", f"the base, with {results}")
    if len(compared) == 1:
        return _tile("Cheapest variant", texts.DASH, "no variant is comparable")
    best = min(compared, key=lambda one: _median(measures.USD_TOTAL, one))
    amount = _median(measures.USD_TOTAL, best) - _median(measures.USD_TOTAL, study.base)
    if best is study.base:
        return _tile("Cheapest variant", "the base", "no variant costs less")
    text = texts.difference(measures.USD_TOTAL, amount, _median(measures.USD_TOTAL, study.base))
    return _tile("Cheapest variant", name(best.name), text, "good-tile")


def _tile(label: str, value: Child, note: str, css: str = "") -> Markup:
    content = h("dd", None, h("strong", None, value), h("span", {"class": "sub"}, note))
    return h("div", {"class": f"tile {css}".strip()}, h("dt", None, label), content)


def _median(measure: Measure, variant: Variant) -> float:
    return measures.spread(measure, variant).median


def _spread(measure: Measure, variant: Variant) -> str:
    text = texts.spread(measures.spread(measure, variant), measure.unit)
    return text or wording.count(len(variant.results), "seed")
