"""Definitions that all plots of a report use: fills with patterns, and the symbols of events. Called by `page`.

The colours are those of the page of the controller. Every colour has a pattern of its own.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.simulate.report.markup import Markup, h

# Size, and path of the strokes over the background.
_PATTERNS: Final = {
    "idle": (8, "M-1 9L9-1M-2 2L2-2M6 10L10 6"),
    "spot": (7, "M-1 8L8-1M-2 2L2-2M5 9L9 5"),
    "on-demand": (6, "M1.5 1.5h.01M4.5 4.5h.01"),
    "elsewhere": (6, "M0 3h6M3 0v6"),
    "savings-plan": (6, "M0 1.5h6M0 4.5h6"),
    "waiting": (5, "M2.5 0v5"),
    "not-simulated": (10, "M0 0L10 10M10 0L0 10"),
}


def definitions(groups: Iterable[Markup]) -> Markup:
    """An SVG without a size. It must not be hidden by `display: none`, because browsers then ignore its patterns."""
    box = {"class": "definitions", "width": 0, "height": 0, "aria-hidden": "true", "focusable": "false"}
    return h("svg", box, h("defs", None, *map(_pattern, _PATTERNS), *groups))


def _pattern(key: str) -> Markup:
    size, strokes = _PATTERNS[key]
    units = {"id": f"fill-{key}", "patternUnits": "userSpaceOnUse", "width": size, "height": size}
    background = h("rect", {"class": f"back {key}", "width": size, "height": size})
    return h("pattern", units, background, h("path", {"class": f"strokes {key}", "d": strokes}))
