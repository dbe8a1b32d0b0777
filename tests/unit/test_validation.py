"""Findings of the validator: the right path, a helpful message, and never a traceback."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crd_tool import objects, schemas
from holdfast.api import documents, kinds, validation

CONDITION = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-03-01T08:00:00Z",
}
KINDS = schemas.kinds()
LONG = "x" * 100_000


def meta(**fields: Any) -> list[str]:
    return objects.lines(objects.build("NodePool", {"metadata": fields}))


def with_condition(**fields: Any) -> dict[str, Any]:
    return objects.build("NodePool", {"status": {"conditions": [CONDITION | fields]}})


def nested(path: str, value: Any) -> dict[str, Any]:
    """A patch that puts the value at a dotted path."""
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


# --- Fields -----------------------------------------------------------------------------------------


def test_a_missing_field_is_reported() -> None:
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "a"}, "spec": {}}
    assert objects.lines(pool) == [".spec.template: Required value"]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"weigth": 10}, ".spec.weigth: unknown field; did you mean weight?"),
        ({"labels": {}}, ".spec.labels: unknown field; it belongs at .spec.template.metadata.labels"),
        ({"budgets": []}, ".spec.budgets: unknown field; it belongs at .spec.disruption.budgets"),
        (
            {"zzz": 1},
            ".spec.zzz: unknown field; known here: disruption, limits, replicas, template, weight",
        ),
    ],
)
def test_an_unknown_field_is_reported_with_the_likely_path_or_name(spec: dict[str, Any], line: str) -> None:
    assert objects.lines(objects.spec("NodePool", **spec)) == [line]


def test_unknown_fields_are_found_in_lists_and_at_the_top() -> None:
    claim = objects.build(
        "NodeClaim", {"spce": {}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule", "efect": "x"}]}}
    )
    assert objects.lines(claim) == [
        ".spce: unknown field; did you mean spec?",
        ".spec.taints[0].efect: unknown field; did you mean effect?",
    ]


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"weight": "10"}, '.spec.weight: must be a whole number, not "10"'),
        ({"weight": True}, ".spec.weight: must be a whole number, not true"),
        ({"weight": 0}, ".spec.weight: 0 is less than the minimum of 1"),
        ({"limits": []}, ".spec.limits: must be a mapping, not []"),
        ({"limits": {"cpu": 0.5}}, ".spec.limits.cpu: must be text or a whole number, not 0.5"),
        (
            {"limits": {"cpu": "many"}},
            '.spec.limits.cpu: "many" is not a quantity such as 500m, 2, 1.5 or 4Gi',
        ),
        (
            {"disruption": {"consolidateAfter": 30}},
            ".spec.disruption.consolidateAfter: must be text, not 30; write it in quotes",
        ),
        ({"disruption": {"budgets": {}}}, ".spec.disruption.budgets: must be a list, not {}"),
        (
            {"disruption": {"consolidationPolicy": "Never"}},
            '.spec.disruption.consolidationPolicy: must be WhenEmpty, WhenEmptyOrUnderutilized or Balanced, not "Never"',
        ),
    ],
)
def test_an_invalid_value_is_reported_with_what_is_valid(spec: dict[str, Any], line: str) -> None:
    assert objects.lines(objects.spec("NodePool", **spec)) == [line]


@pytest.mark.parametrize(
    "spec",
    [
        {"weight": LONG},
        {"weight": [LONG] * 100},
        {"limits": {"cpu": LONG}},
        {"template": {"metadata": {"labels": {"team": LONG}}}},
        {"template": {"spec": {"requirements": [{"key": "a", "operator": "Gt", "values": [LONG]}]}}},
    ],
    ids=["type", "list", "pattern", "length", "rule"],
)
def test_a_long_value_is_not_shown_in_full(spec: dict[str, Any]) -> None:
    lines = objects.lines(objects.spec("NodePool", **spec))
    assert lines
    assert all(len(line) < 500 for line in lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [None, 1, "text", True, [], [1]], ids=repr)
def test_a_spec_of_the_wrong_type_is_one_finding_at_spec(kind: str, wrong: object) -> None:
    obj = objects.build(kind) | {"spec": wrong}
    assert objects.refused_at(obj) == [".spec"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_refuses_a_value_of_another_type(kind: str) -> None:
    """The test sets text where a mapping or a list is expected, and a mapping everywhere else."""
    for path, schema in schemas.nodes(schemas.of(kind)):
        if path.split(".")[0] not in ("spec", "status") or "[]" in path or "{}" in path:
            continue
        wrong = "text" if schema.get("type") in ("object", "array") else {"a": 1}
        assert f".{path}" in objects.refused_at(objects.build(kind, nested(path, wrong)))


def test_null_means_unset() -> None:
    """The API server drops nulls before validation, and kubectl relies on it."""
    pool = objects.build("NodePool")
    pool["spec"] |= {"weight": None, "limits": None, "disruption": None}
    pool["spec"]["template"]["spec"]["taints"] = None
    assert objects.lines(pool) == []
    pool["spec"]["template"]["spec"]["nodeClassRef"] = None
    assert objects.lines(pool) == [".spec.template.spec.nodeClassRef: Required value"]


def test_null_in_a_list_is_refused() -> None:
    assert objects.lines(objects.spec("NodePool", disruption={"budgets": [None]})) == [
        ".spec.disruption.budgets[0]: must be a mapping, not null"
    ]


@pytest.mark.parametrize(
    ("kind", "patch", "line"),
    [
        (
            "NodePool",
            {"spec": {"disruption": {"budgets": [{"reasons": ["Empty", "Drifted", "Empty"]}]}}},
            ".spec.disruption.budgets[0].reasons[2]: is there twice",
        ),
        (
            "NodePool",
            {"status": {"conditions": [CONDITION, CONDITION | {"status": "False"}]}},
            ".status.conditions[1]: is there twice: another item has the same type",
        ),
    ],
)
def test_a_duplicate_item_of_a_set_or_map_list_is_refused(
    kind: str, patch: dict[str, Any], line: str
) -> None:
    assert objects.lines(objects.build(kind, patch)) == [line]


def test_items_of_any_type_are_compared() -> None:
    reasons = [10**30, {"a": 1}, {"a": 1}, None, 10**30]
    places = objects.refused_at(objects.spec("NodePool", disruption={"budgets": [{"reasons": reasons}]}))
    assert places == [f".spec.disruption.budgets[0].reasons[{index}]" for index in range(5)]


@pytest.mark.parametrize(
    ("kind", "spec", "place"),
    [
        ("NodePool", {"replicas": 2**63}, ".spec.replicas"),
        ("NodePool", {"limits": {"cpu": 2**63}}, ".spec.limits.cpu"),
        ("EC2NodeClass", {"ipPrefixCount": 2**31}, ".spec.ipPrefixCount"),
    ],
)
def test_an_integer_out_of_range_is_refused_at_its_path(kind: str, spec: dict[str, Any], place: str) -> None:
    assert objects.refused_at(objects.spec(kind, **spec)) == [place]
    smaller = json.loads(
        json.dumps(spec).replace(str(2**63), str(2**63 - 1)).replace(str(2**31), "2147483647")
    )
    assert objects.is_valid(objects.spec(kind, **smaller))


@pytest.mark.parametrize(
    "time",
    ["2026-03-01", "2026-03-01 08:00:00Z", "0000-01-01T00:00:00Z", "2026-12-31T23:59:60Z", "soon", ""],
)
def test_an_invalid_time_is_refused(time: str) -> None:
    assert objects.refused_at(with_condition(lastTransitionTime=time)) == [
        ".status.conditions[0].lastTransitionTime"
    ]


@pytest.mark.parametrize(
    "time", ["2026-03-01T08:00:00Z", "2026-03-01T08:00:00.123456789Z", "2026-03-01T09:00:00+01:00"]
)
def test_an_rfc3339_time_is_valid(time: str) -> None:
    assert objects.is_valid(with_condition(lastTransitionTime=time))


# --- CEL rules --------------------------------------------------------------------------------------


def test_cel_rules_are_skipped_for_values_that_the_schema_refuses() -> None:
    requirements = [{"key": "team", "operator": "In", "values": "web"}]
    claim = objects.spec("NodeClaim", requirements=requirements)
    assert objects.lines(claim) == ['.spec.requirements[0].values: must be a list, not "web"']


def test_transition_rules_apply_to_updates_only() -> None:
    claim = objects.spec("NodeClaim", expireAfter="24h")
    assert objects.lines(claim) == []
    assert objects.lines(claim, objects.build("NodeClaim")) == [
        ".spec: the spec of a NodeClaim never changes; delete it and create another"
    ]


def test_an_update_that_sets_a_default_value_is_no_change() -> None:
    old, new = objects.build("NodeClaim"), objects.spec("NodeClaim", expireAfter="720h")
    assert objects.lines(new, old) == []
    assert objects.lines(old, new) == []


def test_findings_are_sorted_and_unique() -> None:
    pool = objects.build("NodePool", {"spec": {"weight": 0, "zzz": 1, "limits": {"cpu": []}}})
    found = objects.findings(pool)
    assert objects.lines(pool) == sorted(objects.lines(pool))
    assert len(found) == len(set(found)) == 3


# --- Metadata ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "a-b", "a.b", "0", "a" * 253])
def test_a_name_is_a_dns_subdomain(name: str) -> None:
    assert meta(name=name) == []


@pytest.mark.parametrize("name", ["A", "a_b", "-a", "a-", "a..b", "a" * 254, "a/b", "a\n", "ä", 5, ["a"]])
def test_an_invalid_name_is_refused(name: object) -> None:
    (line,) = meta(name=name)
    assert line.startswith(".metadata.name: ")


def test_generate_name_replaces_the_name() -> None:
    assert meta(name=None, generateName="web-") == []
    assert meta(name=None) == [".metadata.name: Required value"]


def test_cluster_scoped_kinds_have_no_namespace() -> None:
    (line,) = meta(namespace="default")
    assert line.startswith(".metadata.namespace: ")


@pytest.mark.parametrize(
    ("labels", "good"),
    [
        ({"team": "web", "example.com/Team_1.x": ""}, True),
        ({"team": "-web"}, False),
        ({"team": "x" * 63}, True),
        ({"team": "x" * 64}, False),
        ({"-team": "web"}, False),
        ({"x" * 64: "web"}, False),
        ({"Example.com/team": "web"}, False),
        ({"a/b/c": "web"}, False),
        ({"": "web"}, False),
        ({"team": "we b"}, False),
        ({"team": "web\n"}, False),
        ({"team": True}, False),
        ({"team": 5}, False),
    ],
)
def test_labels_have_the_syntax_of_labels(labels: dict[str, Any], good: bool) -> None:  # noqa: FBT001
    assert (meta(labels=labels) == []) is good


def test_annotations_are_text() -> None:
    assert meta(annotations={"note": "any text: 100 %"}) == []
    assert meta(annotations={"note": 5}) == [".metadata.annotations.note: must be text; write it in quotes"]
    assert meta(annotations=["note"]) == [".metadata.annotations: must be a mapping"]


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"finalizers": "karpenter.sh/termination"}, ".metadata.finalizers"),
        ({"finalizers": [1]}, ".metadata.finalizers[0]"),
        ({"generation": "1"}, ".metadata.generation"),
        ({"uid": 5}, ".metadata.uid"),
        ({"creationTimestamp": "yesterday"}, ".metadata.creationTimestamp"),
        ({"ownerReferences": [{"kind": "NodePool"}]}, ".metadata.ownerReferences[0]"),
        ({"generateName": 5}, ".metadata.generateName"),
    ],
)
def test_metadata_of_the_wrong_type_is_refused_at_its_path(fields: dict[str, Any], place: str) -> None:
    assert place in objects.refused_at(objects.build("NodePool", {"metadata": fields}))


@pytest.mark.parametrize("wrong", [None, 5, "name", []], ids=repr)
def test_missing_metadata_is_one_finding(wrong: object) -> None:
    obj = objects.build("NodePool") | {"metadata": wrong}
    assert objects.lines(obj) == [".metadata: required: a mapping with at least a name"]


# --- Random values ----------------------------------------------------------------------------------

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, derandomize=True, database=None)
@given(data=st.data())
def test_a_changed_object_has_a_finding_or_can_be_decoded(kind: str, data: st.DataObject) -> None:
    """An object without findings can be decoded, so no accepted object causes a traceback later."""
    obj = objects.build(kind)
    paths = [path for path, _ in schemas.nodes(schemas.of(kind)) if path and "[]" not in path]
    path = data.draw(st.sampled_from([*paths, "metadata.labels", "metadata.finalizers", "metadata.uid"]))
    changed = objects.merge(obj, nested(path.replace("{}", ".cpu"), data.draw(ANYTHING)))
    if not objects.validator(kind).findings(changed, obj):
        kinds.from_plain(changed, kinds.BY_NAME[obj["apiVersion"], kind])


@settings(max_examples=200, derandomize=True, database=None)
@given(value=ANYTHING, spec=ANYTHING, metadata=ANYTHING)
def test_no_value_causes_a_traceback(value: Any, spec: Any, metadata: Any) -> None:
    text = json.dumps({"metadata": metadata, "spec": spec, "status": value, "x": value})
    for document in documents.read(text.encode()):
        for validator in validation.validators().values():
            if isinstance(document, documents.Document):
                validator.findings(document.value)
