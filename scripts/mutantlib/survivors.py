"""The known survivors: mutations that no test detects, each with the reason why that is accepted.

Read from tests/mutants/survivors.toml. An entry is found by module, source line and change, not by line number.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mutantlib.mutations import Mutation

FILE = Path("tests/mutants/survivors.toml")


@dataclass(frozen=True, slots=True)
class Survivor:
    module: str
    line: str
    change: str
    reason: str

    def is_about(self, module: str, one: Mutation) -> bool:
        return (self.module, self.line, self.change) == (module, one.text, one.change)


def read(root: Path) -> list[Survivor]:
    """Raises ValueError if an entry has no reason."""
    entries = tomllib.loads((root / FILE).read_text(encoding="utf-8")).get("survivor", [])
    found = [Survivor(one["module"], one["line"], one["change"], one["reason"].strip()) for one in entries]
    for one in found:
        if not one.reason:
            raise ValueError(f"{FILE}: {one.module}: `{one.line}` has no reason")
    return found
