"""Parses YAML or JSON text into documents of plain JSON values.

The text is not trusted: any input becomes documents or a `Broken` with a line number, never a traceback, a stack
overflow or an exhausted memory. Scalars have the same meaning as for kubectl (YAML 1.1 booleans, timestamps stay text).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NoReturn

import yaml

MAX_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = 100
MAX_VALUES: Final = 3_000_000  # both limits count values as if every alias were expanded
MAX_CHARACTERS: Final = MAX_BYTES

_MAX_DIGITS: Final = 80  # more than 64 binary digits with prefix and sign
_WHOLE_BELOW: Final = 1e21  # from here on Go writes numbers with an exponent

Path = tuple[str | int, ...]

_EVENT_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SEPARATOR: Final = re.compile(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
_TWICE: Final = " is there twice"
_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS: Final = {
    spelling: value
    for word, value in (
        ("true", True),
        ("yes", True),
        ("y", True),
        ("on", True),
        ("false", False),
        ("no", False),
        ("n", False),
        ("off", False),
    )
    for spelling in (word, word.capitalize(), word.upper())
}
_INTEGER: Final = re.compile(r"[-+]?(0b[01]+|0o?[0-7]+|0x[0-9a-fA-F]+|0|[1-9][0-9]*)")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_A_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


class BrokenText(Exception):
    """The text cannot be parsed from this line on."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True)
class Broken:
    """A part of a text that cannot be parsed, and why."""

    line: int
    message: str


@dataclass(frozen=True)
class Document:
    """One document: its value, and its position in the text."""

    value: Any
    line: int
    text: str
    prefix: Path = ()  # the path of an item of a List; empty for other documents

    def line_of(self, path: Path) -> int:
        """The line of the value at the path, or of the nearest enclosing value that exists."""
        full = self.prefix + path
        while full not in self._lines and full:
            full = full[:-1]
        return self._lines.get(full, self.line)

    @cached_property
    def _lines(self) -> dict[Path, int]:
        # Only findings need lines, so they are computed here and not while parsing.
        lines: dict[Path, int] = {}
        try:
            _Builder(self.text, self.line, lines).build()
        except BrokenText:  # JSON that is not YAML: the line of the document is used
            return {}
        return lines


def read(data: bytes) -> Iterator[Document | Broken]:
    """Every document of the text, in order. A `kind: List` gives its items; empty documents are skipped."""
    if len(data) > MAX_BYTES:
        yield Broken(1, f"the file has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
        return
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Broken(1, f"not a text file: byte {error.start} is not UTF-8")
        return
    if "\x00" in text:
        yield Broken(text.count("\n", 0, text.index("\x00")) + 1, "not a text file: it holds a NUL byte")
        return
    if text.lstrip()[:1] in ("{", "["):
        found = _read_json(text)
        if isinstance(found, Broken):
            yield found
            return
        if found is not None:
            yield from _open_list(found)
            return
    for chunk, line in _split(text):
        try:
            value = _Builder(chunk, line, None).build()
        except BrokenText as error:
            yield Broken(error.line, error.message)
            continue
        if value is not None:
            yield from _open_list(Document(value, line, chunk))


class _Dumper(yaml.SafeDumper):
    """Quotes every text that `read`, kubectl or another reader of YAML 1.1 could take for another value."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        is_plain = text not in _NULL and text not in _BOOLEANS and text[0] not in "-+.=0123456789"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if is_plain else '"')


_Dumper.add_representer(str, _Dumper.represent_text)


def text(value: Any) -> str:
    """Plain JSON values as YAML. Characters outside of ASCII are escaped, so that no terminal interprets them."""
    return str(yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=1_000))


class _Twice(Exception):
    """A JSON object has a key twice."""


def _read_json(text: str) -> Document | Broken | None:
    """The text as one JSON document; None: it is not JSON, e.g. YAML in flow style."""
    if text.count(",") > MAX_VALUES:  # perhaps too large: the YAML parser counts values
        return None
    try:
        value = json.loads(
            text,
            object_pairs_hook=_json_object,
            parse_int=_json_integer,
            parse_float=_json_float,
            parse_constant=_not_json,
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # fails on half a character
    except _Twice as error:
        return _where_twice(text, str(error))
    except (ValueError, RecursionError):
        return None
    return Document(value, 1, text) if _is_shallow(value) else None


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Twice(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return value


def _json_integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MAX_DIGITS else _not_json(digits)


def _json_float(digits: str) -> int | float:
    value = float(digits)
    return _whole(value) if math.isfinite(value) else _not_json(digits)


def _not_json(text: str) -> NoReturn:
    raise ValueError(text)


def _where_twice(text: str, key: str) -> Broken:
    """The repeated key, with its line if the YAML parser finds it."""
    try:
        _Builder(text, 1, None).build()
    except BrokenText as error:
        if error.message.endswith(_TWICE):
            return Broken(error.line, error.message)
    return Broken(1, f"the key {key}{_TWICE}")


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return True
    return False


def _open_list(document: Document) -> Iterator[Document]:
    value = document.value
    if not (isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list)):
        yield document
        return
    for index, item in enumerate(value["items"]):
        yield Document(item, document.line, document.text, ("items", index))


def _split(text: str) -> Iterator[tuple[str, int]]:
    """The texts between `---` lines, each with its first line: a broken document does not affect the others."""
    start, line = 0, 1
    for separator in _SEPARATOR.finditer(text):
        chunk = text[start : separator.start()]
        yield chunk, line
        line += chunk.count("\n")
        start = separator.end()
    yield text[start:], line


@dataclass(frozen=True, slots=True)
class _Anchored:
    """A value with an anchor, and the size that each alias to it adds."""

    value: Any
    values: int
    characters: int
    height: int  # levels below the value itself


class _Builder:
    """Builds plain values from YAML events, and counts them.

    PyYAML's own constructor is not used: it recurses in C, keeps the last of two equal keys, and converts timestamps to
    dates.
    """

    def __init__(self, text: str, first_line: int, lines: dict[Path, int] | None) -> None:
        self._text = text
        self._first_line = first_line
        self._lines = lines
        self._anchors: dict[str, _Anchored] = {}
        self._values = 0
        self._characters = 0
        self._deepest = 0

    def build(self) -> Any:
        try:
            self._events = iter(yaml.parse(self._text, Loader=_EVENT_LOADER))
            return self._documents()
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = self._first_line + (mark.line if mark else 0)
            raise BrokenText(f"not YAML: {error.problem or error.context}", line) from error
        except yaml.reader.ReaderError as error:
            line = self._first_line + self._text.count("\n", 0, error.position)
            raise BrokenText(f"not YAML: character U+{error.character:04X} is not allowed", line) from error

    def _documents(self) -> Any:
        value: Any = None
        seen = False
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if seen:  # `...` ended a document without a `---`
                    raise BrokenText("a second document begins here without a --- line", self._line(event))
                seen = True
            elif isinstance(event, yaml.NodeEvent):
                value = self._value(event, (), 0)
        return value

    def _value(self, event: yaml.NodeEvent, path: Path, depth: int) -> Any:
        if self._lines is not None:
            self._lines.setdefault(path, self._line(event))
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth)
        self._descend(depth, event)
        self._count(1, 0, event)
        if event.anchor is None:
            return self._built(event, path, depth)
        return self._anchored(event.anchor, event, path, depth)

    def _anchored(self, name: str, event: yaml.NodeEvent, path: Path, depth: int) -> Any:
        values, characters, deepest = self._values, self._characters, self._deepest
        self._deepest = depth
        value = self._built(event, path, depth)
        self._anchors[name] = _Anchored(
            value, self._values - values + 1, self._characters - characters, self._deepest - depth
        )
        self._deepest = max(self._deepest, deepest)
        return value

    def _built(self, event: yaml.NodeEvent, path: Path, depth: int) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        assert isinstance(event, yaml.MappingStartEvent)
        return self._mapping(path, depth)

    def _alias(self, event: yaml.AliasEvent, depth: int) -> Any:
        if event.anchor not in self._anchors:
            raise BrokenText(
                f"*{event.anchor} stands for nothing yet: no complete &{event.anchor} before it",
                self._line(event),
            )
        anchored = self._anchors[event.anchor]
        self._descend(depth + anchored.height, event)
        self._count(anchored.values, anchored.characters, event)
        return anchored.value

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(
                self._value(event, (*path, len(items)) if self._lines is not None else (), depth + 1)
            )
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._key(event)
            if key == "<<" and event.implicit[0]:
                merged = self._merge(next(self._events), path, depth) | merged
                continue
            if key in mapping:
                raise BrokenText(f"the key {key}{_TWICE}", self._line(event))
            where = (*path, key) if self._lines is not None else ()
            if self._lines is not None:
                self._lines[where] = self._line(event)
            mapping[key] = self._value(next(self._events), where, depth + 1)
        return merged | mapping if merged else mapping

    def _merge(self, event: yaml.NodeEvent, path: Path, depth: int) -> dict[str, Any]:
        """The values of a `<<` key: one mapping or several; the first mapping with a key has precedence."""
        value = self._value(event, path, depth + 1)
        merged: dict[str, Any] = {}
        for mapping in value if isinstance(value, list) else [value]:
            if not isinstance(mapping, dict):
                raise BrokenText("<< takes a mapping or a list of mappings", self._line(event))
            merged = mapping | merged
        return merged

    def _key(self, event: yaml.NodeEvent) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise BrokenText("a key must be plain text", self._line(event))
        self._count(0, len(event.value), event)
        return str(event.value)

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        self._count(0, len(text), event)
        if event.tag is not None and event.tag != "tag:yaml.org,2002:str":
            raise BrokenText(f"the tag {event.tag} is not supported", self._line(event))
        if not event.implicit[0] or event.tag is not None:
            return text
        if text in _NULL:
            return None
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        if text[0] in "-+.0123456789":
            return self._number(text, event)
        return text

    def _number(self, text: str, event: yaml.ScalarEvent) -> Any:
        digits = text if text[0] == "." else text.replace("_", "")
        if _INTEGER.fullmatch(digits):
            if len(digits) > _MAX_DIGITS:
                raise BrokenText(f"{text[:20]}... is too large a number", self._line(event))
            return _integer(digits)
        if _FLOAT.fullmatch(digits):
            value = float(digits)
            if not math.isfinite(value):
                raise BrokenText(f"{text[:20]}... is too large a number", self._line(event))
            return _whole(value)
        if _NOT_A_NUMBER.fullmatch(text):
            raise BrokenText(f"{text} is not a number that JSON can hold", self._line(event))
        return text

    def _descend(self, depth: int, event: yaml.Event) -> None:
        if depth > MAX_DEPTH:
            raise BrokenText(f"nested more than {MAX_DEPTH} deep", self._line(event))
        self._deepest = max(self._deepest, depth)

    def _count(self, values: int, characters: int, event: yaml.Event) -> None:
        self._values += values
        self._characters += characters
        if self._values > MAX_VALUES:
            raise self._too_much(f"{MAX_VALUES:,} values", event)
        if self._characters > MAX_CHARACTERS:
            raise self._too_much(f"{MAX_CHARACTERS:,} characters", event)

    def _too_much(self, most: str, event: yaml.Event) -> BrokenText:
        return BrokenText(f"more than {most} once its aliases are written out", self._line(event))

    def _line(self, event: yaml.Event) -> int:
        mark = event.start_mark
        return self._first_line + (mark.line if mark else 0)


def _whole(value: float) -> int | float:
    """5.0 is sent to the API server as 5, so it is a whole number."""
    return int(value) if value.is_integer() and abs(value) < _WHOLE_BELOW else value


def _integer(text: str) -> int:
    sign = -1 if text[0] == "-" else 1
    digits = text.lstrip("+-")
    if digits.startswith(("0x", "0b", "0o")):
        return sign * int(digits, 0)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)
