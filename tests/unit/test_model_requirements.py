"""Sets of requirements and how two of them combine, checked against a table that Karpenter's code generated."""

import json
import pathlib

import pytest

import requirement_text
from holdfast import names
from holdfast.model import requirements
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import NO_REQUIREMENTS, Conflict, MinValuesGap, Requirements

TABLE = json.loads((pathlib.Path(__file__).parent / "data" / "requirements.json").read_text())["sets"]


def one(text: str) -> Requirement:
    key, _, body = text.partition(" ")
    return requirement_text.read(body, key)


def read(text: str) -> Requirements:
    return requirements.of(*(one(part) for part in text.split("; "))) if text else NO_REQUIREMENTS


@pytest.mark.fact("S-40", "S-41", "S-42", "S-43")
def test_compatibility_of_every_pair_matches_karpenters_table() -> None:
    assert len(TABLE) == 1000
    for existing, incoming, bits in TABLE:
        a, b = read(existing), read(incoming)
        got = (a.intersects(b), a.compatible(b), a.compatible(b, names.WELL_KNOWN_LABELS))
        assert got == (bool(bits & 1), bool(bits & 2), bool(bits & 4)), (existing, incoming)


@pytest.mark.fact("S-40")
def test_adding_intersects_and_an_undefined_key_allows_anything() -> None:
    pool = read("zone In a,b")
    assert pool.add(one("zone In b,c")) == read("zone In b")
    assert pool.add() is pool
    assert pool.get("team") == one("team Exists")
    assert "zone" in pool
    assert "team" not in pool


@pytest.mark.fact("S-41")
def test_two_exclusions_always_intersect() -> None:
    assert read("team DoesNotExist").intersects(read("team NotIn a"))
    assert not read("team DoesNotExist").intersects(read("team In a"))
    assert not read("team Gt 3").intersects(read("team Lt 3"))
    assert read("team In a").intersects(read("zone In b")), "keys of one side alone do not matter"


@pytest.mark.fact("S-42", "S-43")
@pytest.mark.parametrize("wanted", ["team In a", "team Exists", "team Gt 1", "team Lt 1"])
def test_a_missing_label_is_incompatible_unless_allowed_undefined(wanted: str) -> None:
    node = read("zone In a")
    assert not node.compatible(read(wanted))
    assert node.compatible(read(wanted), frozenset({"team"}))


@pytest.mark.fact("S-42")
@pytest.mark.parametrize("wanted", ["team NotIn a", "team DoesNotExist"])
def test_a_missing_label_satisfies_exclusions(wanted: str) -> None:
    assert read("zone In a").compatible(read(wanted))


def test_an_incompatibility_names_the_existing_and_the_wanted_requirement() -> None:
    existing, incoming = read("zone In a; os In linux"), read("zone In b; team In x; os In linux")
    reasons = existing.incompatibilities(incoming)
    assert reasons == (
        Conflict("team", None, one("team In x")),
        Conflict("zone", one("zone In a"), one("zone In b")),
    )
    assert str(reasons[0]) == "team In [x] is wanted, but label team is not defined"
    assert str(reasons[1]) == "zone In [b] is wanted, but there is zone In [a]"


def test_sets_are_values() -> None:
    a, b = read("zone In a; team Exists"), read("team Exists; zone In a")
    assert a == b
    assert len({a, b, read("zone In a")}) == 2
    assert a != "zone In a; team Exists"
    assert str(a) == "team Exists, zone In [a]"
    assert len(a) == 2
    assert a.without({"team"}) == read("zone In a")
    assert a.union(NO_REQUIREMENTS) == NO_REQUIREMENTS.union(a) == a


def test_labels_are_requirements_for_their_values() -> None:
    assert requirements.from_labels({"zone": "a", "team": "x"}) == read("zone In a; team In x")


@pytest.mark.fact("S-35")
def test_the_greater_min_values_wins() -> None:
    assert read("zone In a,b ^1").add(one("zone Exists ^2")).get("zone").min_values == 2


def test_a_gap_in_min_values_counts_only_values_that_are_allowed() -> None:
    wanted = read("zone In a,b ^2; family Exists ^2; team In x")
    found = {"zone": ["a", "a", "c"], "family": ["m", "c"]}
    assert wanted.min_values_gaps(found) == (MinValuesGap("zone", 2, 1),)
    assert wanted.min_values_gaps({}) == (MinValuesGap("family", 2, 0), MinValuesGap("zone", 2, 0))
