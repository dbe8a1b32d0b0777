"""The release notes: the section of one version in CHANGELOG.md. Pure."""

import re
from typing import Final

from releaselib import ReleaseError

UNRELEASED: Final = "Unreleased"
_HEADING: Final = re.compile(r"^## \[(?P<name>[^\]]+)\](?P<rest>.*)$", re.MULTILINE)
_DATE: Final = re.compile(r" - \d{4}-\d{2}-\d{2}")


def section(changelog: str, name: str) -> str:
    """The text below the heading `## [name] - date`; raises ReleaseError if there is none."""
    headings = list(_HEADING.finditer(changelog))
    found = [number for number, heading in enumerate(headings) if heading["name"] == name]
    if len(found) != 1:
        problem = "has two sections" if found else "has no section"
        raise ReleaseError(f"CHANGELOG.md {problem} for {name}; write one: ## [{name}] - YYYY-MM-DD")
    heading = headings[found[0]]
    if name != UNRELEASED and not _DATE.fullmatch(heading["rest"]):
        raise ReleaseError(f"CHANGELOG.md: the heading of {name} is not ## [{name}] - YYYY-MM-DD")
    end = headings[found[0] + 1].start() if found[0] + 1 < len(headings) else len(changelog)
    text = changelog[heading.end() : end].strip()
    if not text:
        raise ReleaseError(f"CHANGELOG.md: the section of {name} is empty")
    return f"{text}\n"
