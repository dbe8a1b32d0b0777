"""Values in selector terms, matched as EC2 matches filters."""

import pytest

from holdfast.cloud.aws.reservations.selection import tags_match, wildcard


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("prod", "prod", True),
        ("prod", "production", False),
        ("*", "", True),
        ("*", "anything at all\n", True),
        ("pro*", "prod", True),
        ("*od", "prod", True),
        ("*public*", "a-public-subnet", True),
        ("*public*", "a-private-subnet", False),
        ("p?od", "prod", True),
        ("p?od", "pod", False),
        (r"\*", "*", True),
        (r"\*", "x", False),
        (r"a\?b*", "a?bc", True),
        ("a.b*", "axb", False),
        ("a[b]*", "a[b]c", True),
        ("ends in \\", "ends in \\", True),
    ],
)
def test_star_matches_any_text_and_question_mark_any_character(
    pattern: str, text: str, *, matches: bool
) -> None:
    assert wildcard(pattern, text) is matches


def test_every_tag_must_match() -> None:
    tags = {"team": "ml", "stage": "prod"}
    assert tags_match({}, tags)
    assert tags_match({"team": "*", "stage": "pro?"}, tags)
    assert not tags_match({"team": "ml", "owner": "*"}, tags)
