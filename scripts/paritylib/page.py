"""Writes docs/parity.md as text: a summary, then every fact with its tests and its reason.

Called by `scripts/generate_parity.py`. Equal facts, tests and reasons give equal bytes.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import cycle, groupby
from typing import Final

from paritylib import facts
from paritylib.facts import Fact
from paritylib.parity import DIFFERENT, MISSING, Parity

TITLES: Final = {
    "seed-requirements.md": "The design documents",
    "karpenter-core.md": "Karpenter's core",
    "karpenter-aws.md": "Karpenter's AWS provider",
    "provisioning-requests.md": "Batch requests",
}
HEADER: Final = """\
<!-- Written by scripts/generate_parity.py from docs/spec, docs/parity.toml and the tests: run `make generate`. -->
# Parity with Karpenter

For users who come from Karpenter: what Holdfast does as Karpenter does it, what it does differently and why, and what it does not do. Each fact about Karpenter's behaviour has an id and is written out in [docs/spec](spec/README.md).

- *shown*: a test of this project names the fact and passes.
- *different*: Holdfast does something else on purpose; the tests show what it does instead.
- *missing*: Karpenter does it and Holdfast does not, in whole or in the part that the reason names. Tests, if any, show how it is refused.

The facts of the last page are about ProvisioningRequests, gangs and lengths of jobs, which Karpenter does not read: *missing* there means that Holdfast does not read or use it yet.

Ids that begin with `W-` or `AW-` are weaknesses of Karpenter: a test that shows one shows that Holdfast does better.
"""
SHOWN: Final = "shown"
_WORDS_MAX: Final = 100  # characters


def render(parity: Parity) -> str:
    sections = [HEADER, *_summary(parity)]
    for page, on_page in groupby(parity.facts.values(), key=lambda fact: fact.page):
        sections.append(f"\n## {TITLES[page]}\nIn full: [{page}](spec/{page}).\n")
        for heading, in_section in groupby(on_page, key=_heading):
            sections += _section(heading, in_section, parity)
    return "\n".join(sections) + "\n"


def first_words(text: str) -> str:
    """The first sentence, shortened to fit a cell of a Markdown table."""
    words = re.sub(r"\*([^*`\s][^*`]*)\*", r"\1", text.replace("**", "")).replace(r"\|", "|")
    words = re.split(r"(?<=\.) (?=[A-Z`])", words, maxsplit=1)[0]
    if len(words) > _WORDS_MAX:
        words = words[: _WORDS_MAX - 2].rpartition(" ")[0].rstrip(",;:") + "…"
    if words.count("`") % 2:  # the cut is inside a code span
        words = words.removesuffix("…") + "…`"
    return escape(words)


def escape(text: str) -> str:
    """One line of text with code spans; everything else that is special in Markdown is escaped."""
    parts = " ".join(text.split()).replace("|", r"\|").split("`")
    return "`".join(
        part if inside_code else re.sub(r"([*_<\[\]])", r"\\\1", part)
        for part, inside_code in zip(parts, cycle((False, True)), strict=False)
    )


def _summary(parity: Parity) -> Iterator[str]:
    yield "| area | facts | shown | different | missing |"
    yield "| --- | ---: | ---: | ---: | ---: |"
    for (page, chapter), in_chapter in groupby(
        parity.facts.values(), key=lambda fact: (fact.page, fact.chapter)
    ):
        name = f"{TITLES[page]}: {escape(chapter)}" if chapter else TITLES[page]
        yield _summary_row(name, list(in_chapter), parity)
    yield _summary_row("**all**", list(parity.facts.values()), parity)


def _summary_row(name: str, of_area: list[Fact], parity: Parity) -> str:
    kinds = Counter(parity.kind(fact.id) or SHOWN for fact in of_area)
    numbers = (len(of_area), kinds[SHOWN], kinds[DIFFERENT], kinds[MISSING])
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def _heading(fact: Fact) -> str:
    return escape(f"{fact.section} {fact.heading}".strip())


def _section(heading: str, in_section: Iterable[Fact], parity: Parity) -> Iterator[str]:
    if heading:
        yield f"### {heading}\n"
    yield "| fact | what it says | shown by |"
    yield "| --- | --- | --- |"
    for fact in sorted(in_section, key=lambda fact: facts.natural(fact.id)):
        yield f"| {fact.id} | {first_words(fact.text)} | {_shown_by(fact, parity)} |"
    yield ""


def _shown_by(fact: Fact, parity: Parity) -> str:
    reason = parity.reasons.get(fact.id)
    parts = [f"*{reason[0]}: {escape(reason[1])}*"] if reason else []
    return "<br>".join([*parts, *(f"`{test}`" for test in parity.tests.get(fact.id, ()))])
