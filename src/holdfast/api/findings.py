"""What is wrong with an object, where, and what to do about it."""

import json
from dataclasses import dataclass
from typing import Any, Final

_SHOWN_CHARACTERS: Final = 60

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend in one object. The message says what to do, for whoever wrote the object."""

    path: Path
    message: str


def text_of(path: Path) -> str:
    """A path as people write it: .spec.requirements[0].key, .metadata.labels['a/b']."""
    return "".join(_step(part) for part in path) or "."


def shown(value: Any) -> str:
    """A value as JSON, cut off where nobody would read on. A huge one is never written out."""
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
