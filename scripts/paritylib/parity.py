"""Facts, tests and docs/parity.toml joined: what is shown, what differs, what is missing.

Called by `scripts/generate_parity.py`. Every id that a marker or docs/parity.toml names must exist, or
there is nothing to join. A different fact has tests: they show what Holdfast does instead. A missing fact
may have tests: they show how Holdfast refuses or ignores what it does not do.
"""

import tomllib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from paritylib import ParityError, facts, marks
from paritylib.facts import Fact

PAGES: Final = {"core": "karpenter-core.md", "aws": "karpenter-aws.md"}
_KINDS: Final = ("different", "missing")


@dataclass(frozen=True, slots=True)
class Parity:
    facts: Mapping[str, Fact]
    tests: Mapping[str, tuple[str, ...]]  # fact id -> the tests that show it
    different: Mapping[str, str]  # fact id -> why
    missing: Mapping[str, str]  # fact id -> what is not there
    finished: Collection[str]  # ids of which a test or a reason is demanded
    finished_areas: Collection[str]  # letters

    def is_settled(self, fact: Fact) -> bool:
        return fact.id in self.tests or fact.id in self.different or fact.id in self.missing

    def areas_to_come(self, fact: Fact) -> tuple[str, ...]:
        """The areas that still have to build their part of a requirement that others have built."""
        to_come = tuple(area for area in fact.areas if area not in self.finished_areas)
        return to_come if len(to_come) < len(fact.areas) else ()


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
    areas = toml["finished"]
    return Parity(
        facts=known,
        tests={fact_id: tuple(sorted(names)) for fact_id, names in tests.items()},
        different=toml.get("different", {}),
        missing=toml.get("missing", {}),
        finished=frozenset(fact_id for area in areas for fact_id in select(area, known)),
        finished_areas=frozenset(area.removeprefix("seeds ") for area in areas if area.startswith("seeds ")),
    )


def gaps(parity: Parity) -> list[str]:
    """A line for each fact of a finished area without a test or a reason, and for each different one without a test."""
    wrong = [
        f'{fact.place}: {fact.id} is of a finished area: show it in a test (@pytest.mark.fact("{fact.id}")),'
        " or say under [different] or [missing] in docs/parity.toml why not"
        for fact in parity.facts.values()
        if fact.id in parity.finished and not parity.is_settled(fact)
    ]
    return wrong + [
        f"{parity.facts[fact_id].place}: {fact_id} is different, and no test shows what Holdfast does instead:"
        f' mark one (@pytest.mark.fact("{fact_id}")), or list it under [missing] in docs/parity.toml'
        for fact_id in parity.different
        if fact_id not in parity.tests
    ]


def select(area: str, known: Mapping[str, Fact]) -> list[str]:
    """The ids of an area: `core 7`, `aws 1.1` (sections), `seeds H` (a letter), `R-1..R-9`, `C-3`."""
    kind, _, name = area.partition(" ")
    if kind in PAGES and name:
        return [f.id for f in known.values() if f.page == PAGES[kind] and _is_within(f.section, name)]
    if kind == "seeds" and name:
        return [f.id for f in known.values() if name in f.areas]
    first, _, last = area.partition("..")
    low, high = facts.natural(first), facts.natural(last or first)
    return [
        fact_id
        for fact_id in known
        if _prefix(fact_id) == _prefix(first) and low <= facts.natural(fact_id) <= high
    ]


def _is_within(section: str, outer: str) -> bool:
    return f"{section}.".startswith(f"{outer}.")


def _prefix(fact_id: str) -> str:
    return fact_id.partition("-")[0]


def _wrong_in_toml(toml: Mapping[str, Any], known: Mapping[str, Fact]) -> list[str]:
    wrong = [
        f"unknown key {key}; it has finished, [different] and [missing]"
        for key in toml
        if key not in {"finished", *_KINDS}
    ]
    finished = toml.get("finished")
    if not isinstance(finished, list) or not all(isinstance(area, str) for area in finished):
        return [f"docs/parity.toml: {line}" for line in [*wrong, "finished must be a list of areas"]]
    wrong += [f"the finished area {area!r} holds no fact" for area in finished if not select(area, known)]
    reasons = [(kind, *reason) for kind in _KINDS for reason in toml.get(kind, {}).items()]
    for kind, fact_id, why in reasons:
        if fact_id not in known:
            wrong.append(f"no fact of docs/spec has the id {fact_id}")
        if not isinstance(why, str) or not why.strip():
            wrong.append(f"{fact_id} is {kind} without a reason; say why in one sentence")
    both = toml.get("different", {}).keys() & toml.get("missing", {}).keys()
    wrong += [f"{fact_id} is both different and missing; choose one" for fact_id in sorted(both)]
    return [f"docs/parity.toml: {line}" for line in wrong]
