"""The cells of docs/parity.md: short, and nothing in them breaks the table or changes the page's shape."""

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
