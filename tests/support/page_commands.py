"""The commands of a page in docs: its blocks of code, by heading."""

import re
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{2,3} (.*)$", re.MULTILINE)


def of(page: Path, heading: str, language: str = "sh") -> list[str]:
    """The blocks of code below a heading of level 2 or 3, up to the next heading."""
    text = page.read_text(encoding="utf-8")
    code = [(match.start(), match.end()) for match in _FENCE.finditer(text)]
    found = [
        match
        for match in _HEADING.finditer(text)
        if not any(start < match.start() < end for start, end in code)
    ]
    starts = [(match[1], match.end()) for match in found]
    ends = [match.start() for match in found[1:]] + [len(text)]
    (section,) = [text[start:end] for (name, start), end in zip(starts, ends, strict=True) if name == heading]
    return [match[2] for match in _FENCE.finditer(section) if match[1] == language]
