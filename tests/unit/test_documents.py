"""Manifests as text: they are read as kubectl reads them, and no text causes a traceback or exhausts memory."""

import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.api import documents
from holdfast.api.documents import Broken, Document

MEBIBYTE = 1024 * 1024


def read(text: str | bytes) -> list[Document | Broken]:
    return list(documents.read(text.encode() if isinstance(text, str) else text))


def values(text: str | bytes) -> list[Any]:
    found = read(text)
    assert not [item for item in found if isinstance(item, Broken)], found
    return [item.value for item in found if isinstance(item, Document)]


def value(text: str | bytes) -> Any:
    (only,) = values(text)
    return only


def broken(text: str | bytes) -> Broken:
    (only,) = read(text)
    assert isinstance(only, Broken), only
    return only


def documents_of(text: str) -> list[Document]:
    return [item for item in read(text) if isinstance(item, Document)]


def assert_quick_and_small(text: str) -> None:
    """Reading takes less than a second of CPU time and less than 20 MiB."""
    start = time.process_time()
    read(text)
    assert time.process_time() - start < 1
    tracemalloc.start()
    try:
        read(text)
        assert tracemalloc.get_traced_memory()[1] < 20 * MEBIBYTE
    finally:
        tracemalloc.stop()


# --- Scalars ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("text", "text"),
        ("", None),
        ("~", None),
        ("null", None),
        ("NULL", None),
        ("nUll", "nUll"),
        ("true", True),
        ("True", True),
        ("yes", True),
        ("On", True),
        ("y", True),
        ("N", False),
        ("off", False),
        ("NO", False),
        ("tRue", "tRue"),
        ('"yes"', "yes"),
        ("'off'", "off"),
        ("!!str yes", "yes"),
        ("17", 17),
        ("-17", -17),
        ("+17", 17),
        ("0", 0),
        ("017", 15),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("-0x10", -16),
        ("1_000", 1000),
        ("08", 8),
        ("1.5", 1.5),
        (".5", 0.5),
        ("-2.50", -2.5),
        ("1e3", 1000),
        ("5.0", 5),
        ("1:30", "1:30"),
        ("190:20:30", "190:20:30"),
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01T08:00:00Z", "2026-03-01T08:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("10%", "10%"),
        ("100Gi", "100Gi"),
        ("=", "="),
        ("_1", "_1"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        (">\n  one\n  line\n", "one line\n"),
    ],
)
def test_scalar_has_the_same_value_as_in_kubectl(written: str, meant: object) -> None:
    found = value(f"a: {written}")["a"]
    assert (type(found), found) == (type(meant), meant)


@pytest.mark.parametrize("written", [".nan", ".inf", "-.INF", "1e999", "9" * 81])
def test_a_number_that_json_cannot_hold_is_refused(written: str) -> None:
    assert "number" in broken(f"a: {written}").message
    assert "number" in broken(f'{{"a": {written}}}').message


@pytest.mark.parametrize("written", ["!!int '5'", "!!binary aGk=", "!custom x", "!!timestamp 2026-03-01"])
def test_tags_are_refused_with_their_line(written: str) -> None:
    found = broken(f"a:\n  b: {written}")
    assert found.line == 2
    assert "tag" in found.message


def test_keys_are_always_strings() -> None:
    assert value("1: a\n'2': b\ntrue: c\n2026-03-01: d") == {
        "1": "a",
        "2": "b",
        "true": "c",
        "2026-03-01": "d",
    }


@pytest.mark.parametrize("key", ["? [a, b]\n: c", "? {a: b}\n: c", "? *x\n: c"])
def test_key_that_is_not_a_scalar_is_refused(key: str) -> None:
    assert "key" in broken(key).message


# --- Several documents ------------------------------------------------------------------------------


def test_documents_are_split_and_empty_ones_skipped() -> None:
    text = "---\n# only a comment\n---\na: 1\n---\n---\nb: 2\n--- # a comment\nc: 3\n---\n"
    assert values(text) == [{"a": 1}, {"b": 2}, {"c": 3}]


@pytest.mark.parametrize("text", ["", "\n\n", "# a comment\n", "---\n", "---\n---\n", "\ufeff", "null\n"])
def test_empty_text_has_no_documents(text: str) -> None:
    assert read(text) == []


def test_dashes_inside_a_block_scalar_start_no_document() -> None:
    assert value("a: |\n  ---\n  b\n") == {"a": "---\nb\n"}


def test_windows_line_ends_and_a_byte_order_mark_are_read() -> None:
    assert values("\ufeffa: 1\r\n---\r\nb: 2\r\n") == [{"a": 1}, {"b": 2}]


def test_one_broken_document_does_not_hide_the_others() -> None:
    first, second, third = read("a: 1\n---\nb: [1\n---\nc: 3\n")
    assert isinstance(first, Document)
    assert isinstance(second, Broken)
    assert isinstance(third, Document)
    assert (first.value, third.value) == ({"a": 1}, {"c": 3})
    assert 3 <= second.line <= 4


def test_a_document_that_ends_in_dots_must_be_followed_by_dashes() -> None:
    assert broken("a: 1\n...\nb: 2\n").line == 3
    assert values("a: 1\n...\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]


# --- Lines ------------------------------------------------------------------------------------------


def test_line_numbers_are_those_of_the_file() -> None:
    first, second = documents_of("a:\n  b:\n    - 1\n    - c: 2\n---\n\nd:\n  e: 3\n")
    assert [first.line_of(path) for path in [("a",), ("a", "b", 0), ("a", "b", 1, "c")]] == [1, 3, 4]
    assert [second.line_of(path) for path in [("d",), ("d", "e")]] == [7, 8]


def test_line_of_a_missing_field_is_that_of_its_parent() -> None:
    (document,) = documents_of("\na:\n  b: 1\n")
    assert document.line_of(("a", "missing", 3)) == 2
    assert document.line_of(("missing",)) == 2


def test_items_of_a_list_are_documents_with_their_own_lines() -> None:
    text = "kind: List\nitems:\n  - a: 1\n  - b:\n      c: 2\n"
    first, second = documents_of(text)
    assert (first.value, second.value) == ({"a": 1}, {"b": {"c": 2}})
    assert (first.line_of(("a",)), second.line_of(("b", "c"))) == (3, 5)


def test_items_of_a_list_in_a_later_document_have_their_own_lines() -> None:
    _, first, second = documents_of("x: 0\n---\nkind: List\nitems:\n  - a: 1\n  - b: 2\n")
    assert (first.line_of(("a",)), second.line_of(("b",))) == (5, 6)


def test_json_documents_have_line_numbers() -> None:
    (document,) = documents_of('{\n  "a": {\n    "b": 1\n  }\n}\n')
    assert document.line_of(("a", "b")) == 3


def test_json_numbers_have_the_same_value_as_in_kubectl() -> None:
    assert value('{"a": 5.0, "b": 1e3, "c": 1.5}') == {"a": 5, "b": 1000, "c": 1.5}
    assert type(value('{"a": 5.0}')["a"]) is int


def test_json_with_tabs_that_yaml_refuses_is_read() -> None:
    (document,) = documents_of('{\n\t"a":\t{"b": 1}\n}\n')
    assert document.value == {"a": {"b": 1}}
    assert document.line_of(("a", "b")) >= 1


# --- Keys, anchors, merges --------------------------------------------------------------------------


def test_duplicate_key_is_refused_with_the_line_of_the_second() -> None:
    assert broken("a:\n  b: 1\n  c: 2\n  b: 3\n") == Broken(4, "the key b is there twice")


def test_duplicate_key_in_json_is_refused() -> None:
    assert broken('{"a": {\n  "b": 1,\n  "b": 2\n}}') == Broken(3, "the key b is there twice")
    assert "the key b is there twice" in broken('{"a": {\n\t"b": 1,\n\t"b": 2\n}}').message


def test_alias_has_the_value_of_its_anchor() -> None:
    assert value("a: &x {k: 1}\nb: *x\nc: [*x]\n") == {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}]}


def test_merge_key_adds_only_missing_keys() -> None:
    text = "base: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\n"
    assert value(f"{text}x:\n  <<: *base\n  b: 9\n")["x"] == {"a": 1, "b": 9}
    assert value(f"{text}x:\n  b: 9\n  <<: [*base, *other]\n")["x"] == {"a": 1, "b": 9, "c": 4}
    assert value(f"{text}x:\n  '<<': plain\n")["x"] == {"<<": "plain"}
    assert "<<" in broken(f"{text}x:\n  <<: 3\n").message


@pytest.mark.parametrize("text", ["a: *nowhere", "a: &a [*a]", "a: &a {b: *a}", "&a a: 1\nb: *b"])
def test_unknown_or_recursive_alias_is_refused(text: str) -> None:
    assert "stands for nothing" in broken(text).message


# --- Malicious documents ----------------------------------------------------------------------------


def billion_laughs(levels: int, first: str = "lol") -> str:
    lines = [f"a0: &a0 [{', '.join([first] * 9)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_billion_laughs_document_is_refused_quickly() -> None:
    assert "values once its aliases are written out" in broken(billion_laughs(20)).message
    assert_quick_and_small(billion_laughs(20))


def test_aliases_of_long_strings_are_refused_quickly() -> None:
    text = billion_laughs(5, first=f"&long '{'x' * 100_000}'" + ", *long" * 8)
    assert "once its aliases are written out" in broken(text).message
    assert_quick_and_small(text)


def test_merge_keys_count_towards_the_limit_of_values() -> None:
    lines = ["a0: &a0 {k: [" + "1, " * 1000 + "]}"]
    lines += [f"a{n}: &a{n} {{x: {{<<: *a{n - 1}}}, y: {{<<: *a{n - 1}}}}}" for n in range(1, 30)]
    assert "once its aliases are written out" in broken("\n".join(lines)).message
    assert_quick_and_small("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "a: " + "[" * 100_000,
        "\n".join(f"{' ' * n}a:" for n in range(2_000)),
        "- " * 100_000,
    ],
    ids=["open", "json list", "json map", "flow", "block", "dashes"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    assert broken(text).message


def test_aliases_count_towards_the_limit_of_nesting() -> None:
    wrap = "[" * 90, "]" * 90
    lines = [f"a0: &a0 {wrap[0]}1{wrap[1]}"]
    lines += [f"a{n}: &a{n} {wrap[0]}*a{n - 1}{wrap[1]}" for n in range(1, 30)]
    assert "nested more than 100 deep" in broken("\n".join(lines)).message


def test_a_hundred_levels_of_nesting_are_read() -> None:
    assert value("[" * 99 + "1" + "]" * 99)
    assert value("a: " + "[" * 99 + "1" + "]" * 99)


def test_json_with_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_VALUES", 1_000)
    assert "more than 1,000 values" in broken("[" + "[]," * 1_001 + "1]").message
    assert value('["' + "," * 1_001 + '"]') == ["," * 1_001]


def test_an_integer_of_a_hundred_thousand_digits_is_refused() -> None:
    huge = "7" * 100_000
    assert broken(f"a: {huge}").message
    assert broken(f'{{"a": {huge}}}').message


# --- Files that are not manifests -------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01\x00\xff\xfe",
        "a: 1\n".encode("utf-16"),
        "a: 1\n".encode("utf-16-le"),
        "a: 1\n".encode("utf-32"),
        b"a: \xe9\n",
        b"a: 1\x00\n",
    ],
    ids=["binary", "utf-16", "utf-16-le", "utf-32", "latin-1", "nul"],
)
def test_file_that_is_not_text_is_reported(data: bytes) -> None:
    assert broken(data).message.startswith("not a text file")


def test_line_of_a_nul_byte_is_reported() -> None:
    assert broken(b"a: 1\nb: \x00\n").line == 2


def test_control_characters_are_refused_with_their_line() -> None:
    assert broken("a: 1\nb: \x07\n") == Broken(2, "not YAML: character U+0007 is not allowed")


@pytest.mark.parametrize("text", ['a: "\\ud800"', '{"a": "\\ud800"}', '{"\\udfff": 1}'])
def test_lone_surrogate_is_refused(text: str) -> None:
    assert broken(text).line == 1


def test_surrogate_pair_is_read() -> None:
    assert value('{"a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_ten_mebibytes_of_yaml_are_read() -> None:
    line = "- {key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}\n"
    assert len(value(line * (10 * MEBIBYTE // len(line) // 8))) > 10_000
    assert len(value(f"a: {'x' * 10 * MEBIBYTE}")["a"]) == 10 * MEBIBYTE


def test_ten_mebibytes_of_json_are_read() -> None:
    item = json.dumps({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]})
    count = 10 * MEBIBYTE // len(item)
    assert len(value(f"[{','.join([item] * count)}]")) == count


def test_file_over_the_size_limit_is_refused() -> None:
    found = broken(b" " * (documents.MAX_BYTES + 1))
    assert found.message == "the file has 67,108,865 bytes; at most 67,108,864 are read"


def test_yaml_in_flow_style_is_not_parsed_as_json() -> None:
    assert value("{a: yes, b: [x]}") == {"a": True, "b": ["x"]}
    assert values("{a: 1}\n---\n{b: 2}\n") == [{"a": 1}, {"b": 2}]


@settings(max_examples=300, derandomize=True, database=None)
@given(
    st.binary(max_size=200)
    | st.text(alphabet="{}[]:,-&*!|>'\"#%@? \n\ta0<~\\.x", max_size=80).map(str.encode)
)
@example(b"%YAML 1.1\n---\na: 1\n")
@example(b"%TAG ! tag:example.com,2026:\n---\n!x a\n")
@example(b"a: &\n")
@example(b"<<: *a\n")
@example(b"? \n")
@example(b"!!set {a, b}\n")
def test_any_bytes_are_documents_or_broken(data: bytes) -> None:
    for item in documents.read(data):
        assert item.line >= 1
        if isinstance(item, Document):
            json.dumps(item.value, allow_nan=False).encode()
            assert item.line_of(()) >= 1
