"""Every CEL rule of the CRDs does what it says, and two CEL engines say the same of it.

The cases are in tests/crds, a file a kind. A rule without cases fails here by name.
"""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crd_tool import engines, objects, schemas
from crd_tool.schemas import Named, Schema

RULES = schemas.rules()
CASES: dict[tuple[str, str, str], dict[str, Any]] = {
    (kind, case["path"], case["message"]): case
    for kind, file in objects.files().items()
    for case in file["cases"]
}
GUESSES_A_RULE = 12
LITERAL = re.compile(r"'([^']*)'")


def case_of(named: Named) -> dict[str, Any]:
    """The rule's cases; none where they are missing, which the first test says better than a KeyError."""
    return CASES.get((named.kind, named.path, named.message), {"good": (), "bad": ()})


def each(verdict: str) -> list[Any]:
    return [
        pytest.param(named, patch, id=f"{named.kind}-{named.path}-{number}-{index}")
        for number, named in enumerate(RULES)
        for index, patch in enumerate(case_of(named)[verdict])
    ]


def old_object(named: Named) -> dict[str, Any] | None:
    return objects.build(named.kind, case_of(named)["old"]) if named.compares else None


def test_every_rule_has_cases_and_every_case_has_a_rule() -> None:
    rules = {(named.kind, named.path, named.message) for named in RULES}
    assert len(rules) == len(RULES), "two rules of one node have the same message"
    assert not rules - CASES.keys(), "rules without cases"
    assert not CASES.keys() - rules, "cases without a rule"


@pytest.mark.parametrize("named", RULES, ids=lambda named: f"{named.kind}-{named.path}")
def test_every_rule_is_shown_accepting_and_refusing(named: Named) -> None:
    case = case_of(named)
    assert case["good"]
    assert case["bad"]
    assert ("old" in case) == named.compares


@pytest.mark.parametrize(("named", "patch"), each("good"))
def test_a_good_object_has_no_finding_at_all(named: Named, patch: dict[str, Any]) -> None:
    assert objects.lines(objects.build(named.kind, patch), old_object(named)) == []


@pytest.mark.parametrize(("named", "patch"), each("bad"))
def test_a_bad_object_is_refused_with_the_rule_s_message_at_its_place(
    named: Named, patch: dict[str, Any]
) -> None:
    obj = objects.build(named.kind, patch)
    places = schemas.values(schemas.defaulted(obj), named.path)
    found = [f for f in objects.findings(obj, old_object(named)) if f.message.startswith(named.message)]
    assert found, objects.lines(obj, old_object(named))
    assert {f.path for f in found} <= places.keys()


@pytest.mark.parametrize(("named", "patch"), each("good"))
def test_both_engines_accept_what_is_good(named: Named, patch: dict[str, Any]) -> None:
    verdicts = verdicts_on(named, objects.build(named.kind, patch))
    assert all(verdict == (True, True) for verdict in verdicts)


@pytest.mark.parametrize(("named", "patch"), each("bad"))
def test_both_engines_refuse_what_is_bad(named: Named, patch: dict[str, Any]) -> None:
    verdicts = verdicts_on(named, objects.build(named.kind, patch))
    assert (False, False) in verdicts
    assert all(ours == theirs for ours, theirs in verdicts)


@pytest.mark.parametrize("named", RULES, ids=lambda named: f"{named.kind}-{named.path}")
@settings(
    max_examples=GUESSES_A_RULE,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_both_engines_agree_on_guessed_values(named: Named, data: st.DataObject) -> None:
    guess = guesses(schemas.node(named.kind, named.path), named.rule)
    value = data.draw(guess)
    old = data.draw(guess | st.just(value)) if named.compares else None
    ours, theirs = engines.verdicts(named.rule, value, old)
    assert ours == theirs


def verdicts_on(named: Named, obj: dict[str, Any]) -> list[tuple[bool, bool]]:
    """What both engines say about each value that the rule's node has in the object."""
    old = old_object(named)
    before = schemas.values(schemas.defaulted(old), named.path) if old else {}
    now = schemas.values(schemas.defaulted(obj), named.path)
    return [engines.verdicts(named.rule, value, before.get(place)) for place, value in now.items()]


def guesses(schema: Schema, rule: str) -> st.SearchStrategy[Any]:
    """Values that the schema's types allow, made of the words that the rule is about."""
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            return st.dictionaries(texts(rule), guesses(schema["additionalProperties"], rule), max_size=3)
        case "object":
            return some_fields(schema, rule)
        case "array":
            return st.lists(guesses(schema["items"], rule), max_size=4)
        case "integer":
            return st.integers(min_value=0, max_value=3)
        case "boolean":
            return st.booleans()
        case "string" if "enum" in schema:
            return st.sampled_from(schema["enum"])
    return texts(rule)


def some_fields(schema: Schema, rule: str) -> st.SearchStrategy[Any]:
    fields = schema.get("properties", {})
    required = schema.get("required", ())
    named = {name for name in fields if re.search(rf"\b{name}\b", rule)} or set(fields)
    return st.fixed_dictionaries(
        {name: guesses(fields[name], rule) for name in fields if name in required},
        optional={name: guesses(fields[name], rule) for name in sorted(named - set(required))},
    )


def texts(rule: str) -> st.SearchStrategy[str]:
    """Words of the rule, and near misses of them."""
    words = [word for word in LITERAL.findall(rule) if word]
    near = (
        [f"{word}/x" for word in words] + [f"x.{word}/y" for word in words] + [f"{w}@latest" for w in words]
    )
    return st.sampled_from(["", "x", "0", "17", "-1", "1.5", "a@b", "a@b@c", *words, *near])
