"""Findings: mistakes in objects, with their paths and what to do."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

_SHOWN_CHARACTERS: Final = 60
_DECODING_ERROR: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+|\.\.\.)\]")

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in one object. The message states what to do."""

    path: Path
    message: str


def text_of(path: Path) -> str:
    """A path as text: .spec.requirements[0].key, .metadata.labels['a/b']."""
    return "".join(_step(part) for part in path) or "."


def of_decoding_error(text: str, above: Path = ()) -> Finding:
    """The finding for a msgspec decoding error; `above` is the path of the value."""
    match = _DECODING_ERROR.fullmatch(text)
    assert match is not None
    steps = _STEP.finditer(match["path"] or "")
    path = tuple(int(s["index"]) if (s["index"] or "").isdigit() else s["name"] or "*" for s in steps)
    return Finding(above + path, match["what"].replace("`", ""))


def shown(value: Any) -> str:
    """A value as JSON, truncated. A huge value is not encoded as a whole."""
    text = ""
    for chunk in json.JSONEncoder().iterencode(value):
        text += chunk[: _SHOWN_CHARACTERS + 1]
        if len(text) > _SHOWN_CHARACTERS:
            return f"{text[:_SHOWN_CHARACTERS]}..."
    return text


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.replace("_", "").isalnum() else f"['{part}']"
