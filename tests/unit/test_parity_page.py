"""The cells of docs/parity.md: short, and nothing in them breaks the table or changes the page's shape."""

from pathlib import Path

import pytest

from paritylib import page


def test_long_text_is_cut_at_a_word_within_a_hundred_characters() -> None:
    words = page.first_words("word " * 40)
    assert len(words) <= 100
    assert words.endswith("word…")


def test_only_the_first_sentence_is_shown() -> None:
    assert page.first_words("**Bold** first, e.g. this. Then more.") == "Bold first, e.g. this."


def test_a_cut_through_code_closes_the_code() -> None:
    words = page.first_words("`" + "code " * 40 + "`")
    assert words.count("`") == 2
    assert len(words) <= 100
    assert words.endswith("code…`")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a|b", r"a\|b"),
        (r"`a\|b`", r"`a\|b`"),
        ("`In [x]` of [y]", r"`In [x]` of \[y\]"),
        ("max_pods <n>", r"max\_pods \<n>"),
        ("`*` is *any* value, 2 * 3", r"`*` is any value, 2 \* 3"),
    ],
)
def test_markdown_in_a_fact_stays_text(text: str, cell: str) -> None:
    assert page.first_words(text) == cell


def test_readme_and_scope_have_the_counts_of_the_page() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    (row,) = [line for line in (docs / "parity.md").read_text().splitlines() if line.startswith("| **all**")]
    facts, shown, different, missing = (cell.strip() for cell in row.split("|")[2:-1])
    readme, scope = (docs.parent / "README.md").read_text(), (docs / "scope.md").read_text()
    assert f"lists {facts} behaviours" in readme
    assert f"{shown} are shown by tests, {different} are different on purpose" in readme
    assert f"and {missing} are missing" in readme
    assert f"{missing} of {facts} facts" in scope
