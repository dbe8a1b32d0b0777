"""Every CEL rule of the CRDs accepts its good cases and rejects its bad ones, and two CEL engines agree on it.

The cases are in tests/crds, one file per kind. A rule without cases fails here by name.
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
EXAMPLES_PER_RULE = 12
LITERAL = re.compile(r"'([^']*)'")


def case_of(named: Named) -> dict[str, Any]:
    """The cases of the rule; empty if they are missing, so that the first test reports it and not a KeyError."""
    return CASES.get((named.kind, named.path, named.message), {"good": (), "bad": ()})


def cases_with(verdict: str) -> list[Any]:
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
def test_every_rule_has_good_and_bad_cases(named: Named) -> None:
    case = case_of(named)
    assert case["good"]
    assert case["bad"]
    assert ("old" in case) == named.compares


@pytest.mark.parametrize(("named", "patch"), cases_with("good"))
def test_good_case_has_no_findings(named: Named, patch: dict[str, Any]) -> None:
    assert objects.lines(objects.build(named.kind, patch), old_object(named)) == []


@pytest.mark.parametrize(("named", "patch"), cases_with("bad"))
def test_bad_case_is_rejected_with_the_message_and_path_of_the_rule(
    named: Named, patch: dict[str, Any]
) -> None:
    obj = objects.build(named.kind, patch)
    values_by_path = schemas.values(schemas.defaulted(obj), named.path)
    found = [f for f in objects.findings(obj, old_object(named)) if f.message.startswith(named.message)]
    assert found, objects.lines(obj, old_object(named))
    assert {f.path for f in found} <= values_by_path.keys()


@pytest.mark.parametrize(("named", "patch"), cases_with("good"))
def test_both_cel_engines_accept_good_cases(named: Named, patch: dict[str, Any]) -> None:
    verdicts = verdicts_on(named, objects.build(named.kind, patch))
    assert all(verdict == (True, True) for verdict in verdicts)


@pytest.mark.parametrize(("named", "patch"), cases_with("bad"))
def test_both_cel_engines_reject_bad_cases(named: Named, patch: dict[str, Any]) -> None:
    verdicts = verdicts_on(named, objects.build(named.kind, patch))
    assert (False, False) in verdicts
    assert all(ours == theirs for ours, theirs in verdicts)


@pytest.mark.parametrize("named", RULES, ids=lambda named: f"{named.kind}-{named.path}")
@settings(
    max_examples=EXAMPLES_PER_RULE,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_both_cel_engines_agree_on_generated_values(named: Named, data: st.DataObject) -> None:
    strategy = values_for(schemas.node(named.kind, named.path), named.rule)
    value = data.draw(strategy)
    old = data.draw(strategy | st.just(value)) if named.compares else None
    ours, theirs = engines.verdicts(named.rule, value, old)
    assert ours == theirs


def verdicts_on(named: Named, obj: dict[str, Any]) -> list[tuple[bool, bool]]:
    """The verdicts of both engines on each value that the rule's node has in the object."""
    old = old_object(named)
    before = schemas.values(schemas.defaulted(old), named.path) if old else {}
    now = schemas.values(schemas.defaulted(obj), named.path)
    return [engines.verdicts(named.rule, value, before.get(path)) for path, value in now.items()]


def values_for(schema: Schema, rule: str) -> st.SearchStrategy[Any]:
    """Values of the schema's types, built from the string literals of the rule."""
    match schema.get("type"):
        case "object" if "additionalProperties" in schema:
            return st.dictionaries(
                strings_for(rule), values_for(schema["additionalProperties"], rule), max_size=3
            )
        case "object":
            return some_fields(schema, rule)
        case "array":
            return st.lists(values_for(schema["items"], rule), max_size=4)
        case "integer":
            return st.integers(min_value=0, max_value=3)
        case "boolean":
            return st.booleans()
        case "string" if "enum" in schema:
            return st.sampled_from(schema["enum"])
    return strings_for(rule)


def some_fields(schema: Schema, rule: str) -> st.SearchStrategy[Any]:
    fields = schema.get("properties", {})
    required = schema.get("required", ())
    named = {name for name in fields if re.search(rf"\b{name}\b", rule)} or set(fields)
    return st.fixed_dictionaries(
        {name: values_for(fields[name], rule) for name in fields if name in required},
        optional={name: values_for(fields[name], rule) for name in sorted(named - set(required))},
    )


def strings_for(rule: str) -> st.SearchStrategy[str]:
    """String literals of the rule, and strings similar to them."""
    words = [word for word in LITERAL.findall(rule) if word]
    near = (
        [f"{word}/x" for word in words] + [f"x.{word}/y" for word in words] + [f"{w}@latest" for w in words]
    )
    return st.sampled_from(["", "x", "0", "17", "-1", "1.5", "a@b", "a@b@c", *words, *near])
