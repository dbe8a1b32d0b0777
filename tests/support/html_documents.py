"""Reads an HTML file as a strict reader: every element is closed, ids are unique, and references exist."""

import re
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "col"}


@dataclass
class Document:
    elements: Counter[str] = field(default_factory=Counter)
    ids: Counter[str] = field(default_factory=Counter)
    references: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)  # of href and src
    text: str = ""  # with ordinary spaces


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Document()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> does not close the last element"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.found.text += data.replace("\N{NO-BREAK SPACE}", " ")

    def _element(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.elements[tag] += 1
        for key, value in attrs:
            self.found.attributes.add(key)
            if key == "id":
                self.found.ids[value or ""] += 1
            if key in {"aria-labelledby", "aria-describedby", "for"}:
                self.found.references |= set((value or "").split())
            if key in {"href", "src"}:
                self.found.addresses.add(value or "")
            self.found.references |= set(re.findall(r"url\(#([^)]+)\)", value or "")) if key != "d" else set()


def read(html: str) -> Document:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    found = reader.found
    assert reader.open == []
    assert [one for one, count in found.ids.items() if count > 1] == []
    found.references |= {one[1:] for one in found.addresses if one.startswith("#")}
    assert found.references <= found.ids.keys()
    return found
