"""Builds HTML and SVG. Text is always escaped: only `h` makes markup, and only from elements, attributes and text."""

import html
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

# Characters that HTML does not allow, also not as references.
_INVALID: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ud800-\udfff]")
_VOID: Final = frozenset({"meta", "link", "input", "br", "hr", "col"})
_EMPTY: Final = frozenset({"path", "rect", "line", "use"})  # of SVG


@dataclass(frozen=True, slots=True)
class Markup:
    text: str


Child = Markup | str | int | None | Iterable["Child"]
Attributes = Mapping[str, object]  # text or numbers; None or False: left out; True: without a value


def h(tag: str, attributes: Attributes | None = None, /, *children: Child) -> Markup:
    """An element."""
    start = f"<{tag}{''.join(_attribute(*one) for one in (attributes or {}).items())}"
    if tag in _VOID:
        return Markup(f"{start}>")
    content = "".join(_texts(children))
    if not content and tag in _EMPTY:
        return Markup(f"{start}/>")
    return Markup(f"{start}>{content}</{tag}>")


def style(sheet: str) -> Markup:
    """A style sheet of this package; never text of a user."""
    assert "</" not in sheet
    return Markup(f"<style>\n{sheet}</style>")


def name(text: str) -> Markup:
    """A name from the input, in its own direction and in a monospaced font."""
    return h("bdi", {"class": "name"}, text)


def sentence(text: str) -> Markup:
    """A text from the input, in its own direction."""
    return h("bdi", None, text)


def escaped(text: str) -> str:
    return html.escape(_INVALID.sub("\ufffd", text), quote=True)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{escaped(str(value))}"'


def _texts(children: Iterable[Child]) -> Iterable[str]:
    for child in children:
        if isinstance(child, Markup):
            yield child.text
        elif isinstance(child, str):
            yield escaped(child)
        elif isinstance(child, int):
            yield f"{child:,}"
        elif child is not None:
            yield from _texts(child)
