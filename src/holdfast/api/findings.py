"""What is wrong with an object, where, and what to do about it."""

from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend in one object. The message says what to do, for whoever wrote the object."""

    path: Path
    message: str


def text_of(path: Path) -> str:
    """A path as people write it: .spec.requirements[0].key, .metadata.labels['a/b']."""
    return "".join(_step(part) for part in path) or "."


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.replace("_", "").isalnum() else f"['{part}']"
