"""Joins facts, tests and docs/parity.toml: which facts are shown, different or missing.

Called by `scripts/generate_parity.py`. Every id of a marker or of docs/parity.toml must exist. A different fact needs
tests that show what Holdfast does instead. A missing fact may have tests that show how Holdfast rejects or ignores it.
"""

import tomllib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paritylib import ParityError, facts, marks
from paritylib.facts import Fact

DIFFERENT: Final = "different"
MISSING: Final = "missing"
_KINDS: Final = (DIFFERENT, MISSING)


@dataclass(frozen=True, slots=True)
class Parity:
    facts: Mapping[str, Fact]
    tests: Mapping[str, tuple[str, ...]]  # fact id -> the tests that name it
    reasons: Mapping[str, tuple[str, str]]  # fact id -> different or missing, and the reason

    def kind(self, fact_id: str) -> str | None:
        """Different or missing; None for other facts."""
        return self.reasons[fact_id][0] if fact_id in self.reasons else None


def load(root: Path) -> Parity:
    known = facts.read(root / "docs/spec")
    toml = tomllib.loads((root / "docs/parity.toml").read_text(encoding="utf-8"))
    found = marks.scan(root)
    wrong = [
        f"{mark.place}: no fact of docs/spec has the id {mark.fact_id}"
        for mark in found
        if mark.fact_id not in known
    ]
    wrong += _wrong_in_toml(toml, known)
    if wrong:
        raise ParityError(wrong)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for mark in found:
        tests[mark.fact_id].add(mark.test)
    return Parity(
        facts=known,
        tests={fact_id: tuple(sorted(names)) for fact_id, names in tests.items()},
        reasons={fact_id: (kind, why) for kind in _KINDS for fact_id, why in toml.get(kind, {}).items()},
    )


def gaps(parity: Parity) -> list[str]:
    """A line for each fact with neither a test nor a reason, and for each different fact without a test."""
    return [line for fact in parity.facts.values() for line in _gap(parity, fact)]


def _gap(parity: Parity, fact: Fact) -> list[str]:
    kind = parity.kind(fact.id)
    if fact.id in parity.tests or kind == MISSING:
        return []
    mark = f'(@pytest.mark.fact("{fact.id}"))'
    if kind == DIFFERENT:
        what = f"is different, and no test shows what Holdfast does instead: mark one {mark}"
        return [f"{fact.place}: {fact.id} {what}, or list it under [missing] in docs/parity.toml"]
    what = f"has no test: show it in one {mark}"
    return [f"{fact.place}: {fact.id} {what}, or list it under [different] or [missing] in docs/parity.toml"]


def _wrong_in_toml(toml: Mapping[str, Any], known: Mapping[str, Fact]) -> list[str]:
    wrong = [f"unknown key {key}; it has [different] and [missing]" for key in toml if key not in _KINDS]
    reasons = [(kind, *reason) for kind in _KINDS for reason in toml.get(kind, {}).items()]
    for kind, fact_id, why in reasons:
        if fact_id not in known:
            wrong.append(f"no fact of docs/spec has the id {fact_id}")
        if not isinstance(why, str) or not why.strip():
            wrong.append(f"{fact_id} is {kind} without a reason; say why in one sentence")
    both = toml.get(DIFFERENT, {}).keys() & toml.get(MISSING, {}).keys()
    wrong += [f"{fact_id} is both different and missing; choose one" for fact_id in sorted(both)]
    return [f"docs/parity.toml: {line}" for line in wrong]
