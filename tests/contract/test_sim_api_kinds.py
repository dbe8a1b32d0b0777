"""Custom resources in the embedded API server: CRDs at run time, validation, defaults, pruning, scale, tables."""

from typing import Any

from api_fronts import (
    DEFINITIONS,
    MERGE,
    NODEPOOLS,
    STRATEGIC,
    TABLE,
    Line,
    each_front,
    each_server,
    nodepool,
    with_crds,
)


def thing_crd(properties: dict[str, Any], **schema: Any) -> dict[str, Any]:
    root = {"type": "object", "properties": properties, **schema}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.dev"},
        "spec": {
            "group": "x.dev",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version],
        },
    }


def thing(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec}


THINGS = "/apis/x.dev/v1/namespaces/default/things"


@each_front
async def test_a_kind_is_served_as_soon_as_it_is_defined(line: Line) -> None:
    missing = await line.ask("GET", NODEPOOLS)
    assert (missing.status, missing.body) == (404, b"404 page not found\n")
    await with_crds(line)
    crd = await line.get(f"{DEFINITIONS}/nodepools.karpenter.sh")
    conditions = {c["type"]: c["status"] for c in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert (await line.get(NODEPOOLS))["kind"] == "NodePoolList"
    found = await line.get("/apis/karpenter.sh/v1")
    assert [r["name"] for r in found["resources"]][:3] == ["nodepools", "nodepools/status", "nodepools/scale"]


@each_server
async def test_defaults_are_filled_in_and_unknown_fields_pruned(line: Line) -> None:
    await with_crds(line)
    made = await line.create(NODEPOOLS, nodepool(templatee=1))
    assert "templatee" not in made["spec"]
    assert made["spec"]["template"]["spec"]["expireAfter"] == "720h"
    assert made["spec"]["disruption"]["consolidateAfter"] == "0s"
    strict = await line.ask("POST", f"{NODEPOOLS}?fieldValidation=Strict", nodepool("b", templatee=1))
    assert strict.message == (
        'NodePool in version "v1" cannot be handled as a NodePool: strict decoding error: unknown field "spec.templatee"'
    )


@each_server
async def test_schema_error_has_the_path_and_the_bound(line: Line) -> None:
    await with_crds(line)
    answer = await line.ask("POST", NODEPOOLS, nodepool(weight=500))
    assert answer.status == 422
    assert answer.message == (
        'NodePool.karpenter.sh "default" is invalid: spec.weight: Invalid value: 500: spec.weight in body should be'
        " less than or equal to 100"
    )
    assert answer.value["details"]["group"] == "karpenter.sh"
    text = await line.ask("POST", NODEPOOLS, nodepool(weight="x"))
    assert [c["field"] for c in text.value["details"]["causes"]] == ["spec.weight", "<nil>"]


@each_front
async def test_fields_below_a_string_field_are_unknown_also_in_lists(line: Line) -> None:
    text = {"type": "object", "properties": {"word": {"type": "string"}}}
    await line.create(DEFINITIONS, thing_crd({"spec": text}))
    strict = await line.ask("POST", f"{THINGS}?fieldValidation=Strict", thing(word=[{"a": 1}, [{"b": 2}]]))
    assert strict.status == 400
    assert 'unknown field "spec.word[0].a", unknown field "spec.word[1][0].b"' in strict.message
    lenient = await line.ask("POST", THINGS, thing(word=[{"a": 1}]))
    assert (lenient.status, lenient.value["details"]["causes"][0]["field"]) == (422, "spec.word")


@each_front
async def test_invalid_date_time_is_a_type_error(line: Line) -> None:
    since = {"type": "object", "properties": {"since": {"type": "string", "format": "date-time"}}}
    await line.create(DEFINITIONS, thing_crd({"spec": since}))
    answer = await line.ask("POST", THINGS, thing(since="soon"))
    causes = [(c["reason"], c["field"]) for c in answer.value["details"]["causes"]]
    assert causes == [("FieldValueTypeInvalid", "spec.since"), ("FieldValueInvalid", "<nil>")]


@each_front
async def test_boolean_quantity_is_a_type_error(line: Line) -> None:
    await with_crds(line)
    answer = await line.ask("POST", NODEPOOLS, nodepool(limits={"nodes": True}))
    causes = [(c["reason"], c["field"]) for c in answer.value["details"]["causes"]]
    assert causes == [("FieldValueTypeInvalid", "spec.limits.nodes"), ("FieldValueInvalid", "<nil>")]


@each_front
async def test_invalid_replicas_are_also_reported_at_the_path_of_the_scale(line: Line) -> None:
    await with_crds(line)
    answer = await line.ask("POST", NODEPOOLS, nodepool(replicas="three"))
    assert {c["field"] for c in answer.value["details"]["causes"]} == {
        ".spec.replicas",
        "spec.replicas",
        "<nil>",
    }
    less = await line.ask("POST", NODEPOOLS, nodepool(replicas=-1))
    assert {c["field"] for c in less.value["details"]["causes"]} == {".spec.replicas", "spec.replicas"}


@each_server
async def test_cel_rules_validate_creates_and_transition_rules_validate_updates(line: Line) -> None:
    await with_crds(line)
    both = await line.ask("POST", NODEPOOLS, nodepool(replicas=3, weight=5))
    assert both.status == 422
    assert "spec: Invalid value: a NodePool with replicas cannot have a weight" in both.message
    once = {"rule": "self == oldSelf", "message": "immutable"}
    spec = {"type": "object", "properties": {"size": {"type": "integer", "x-kubernetes-validations": [once]}}}
    await line.create(DEFINITIONS, thing_crd({"spec": spec}))
    await line.create(THINGS, thing(size=1))
    grown = await line.ask("PATCH", f"{THINGS}/a", {"spec": {"size": 2}}, type_=MERGE)
    assert (grown.status, grown.value["details"]["causes"][0]["field"]) == (422, "spec.size")
    await line.patch(f"{THINGS}/a", {"metadata": {"labels": {"x": "1"}}})
    assert (await line.get(f"{THINGS}/a"))["spec"] == {"size": 1}


@each_server
async def test_unchanged_invalid_field_does_not_fail_an_update(line: Line) -> None:
    size = {"type": "object", "properties": {"size": {"type": "integer"}, "name": {"type": "string"}}}
    await line.create(DEFINITIONS, thing_crd({"spec": size}))
    await line.create(THINGS, thing(size=50))
    version = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maximum"
    await line.patch(
        f"{DEFINITIONS}/things.x.dev",
        [{"op": "add", "path": version, "value": 10}],
        "application/json-patch+json",
    )
    after = await line.patch(f"{THINGS}/a", {"spec": {"name": "n"}})
    assert after["spec"] == {"size": 50, "name": "n"}
    assert (await line.ask("PATCH", f"{THINGS}/a", {"spec": {"size": 60}}, type_=MERGE)).status == 422


@each_server
async def test_custom_resources_refuse_strategic_patch_and_put_without_a_version(line: Line) -> None:
    await with_crds(line)
    await line.create(NODEPOOLS, nodepool())
    assert (await line.ask("PATCH", f"{NODEPOOLS}/default", {}, type_=STRATEGIC)).status == 415
    put = await line.ask("PUT", f"{NODEPOOLS}/default", nodepool(weight=3))
    assert (put.status, put.value["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")


@each_front
async def test_scale_and_status_of_a_custom_resource(line: Line) -> None:
    await with_crds(line)
    await line.create(NODEPOOLS, nodepool(replicas=2))
    reported = await line.patch(
        f"{NODEPOOLS}/default/status", {"status": {"nodes": 1}, "spec": {"replicas": 9}}
    )
    assert (reported["spec"]["replicas"], reported["status"]["nodes"]) == (2, 1)
    assert reported["metadata"]["generation"] == 1
    scale = await line.get(f"{NODEPOOLS}/default/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 1})
    await line.patch(f"{NODEPOOLS}/default/scale", {"spec": {"replicas": 5}})
    after = await line.get(f"{NODEPOOLS}/default")
    assert (after["spec"]["replicas"], after["metadata"]["generation"]) == (5, 2)


@each_front
async def test_printer_columns_become_a_table(line: Line) -> None:
    await with_crds(line)
    await line.create(NODEPOOLS, nodepool())
    condition = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
    condition["lastTransitionTime"] = "2027-01-15T08:00:00Z"
    await line.patch(f"{NODEPOOLS}/default/status", {"status": {"conditions": [condition]}})
    line.clock.now += 300
    table = (await line.ask("GET", NODEPOOLS, accept=TABLE)).value
    shown = [c["name"] for c in table["columnDefinitions"] if not c["priority"]]
    assert shown == ["Name", "NodeClass", "Nodes", "Ready", "Age"]
    assert table["rows"][0]["cells"][:5] == ["default", "default", "0", "True", "5m"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@each_server
async def test_invalid_crd_is_refused(line: Line) -> None:
    bad_rule = {"rule": "self.size <", "message": "m"}
    for crd in (
        thing_crd({}, **{"x-kubernetes-validations": [bad_rule]}),
        thing_crd({"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}}),
        {**thing_crd({}), "metadata": {"name": "other.x.dev"}},
    ):
        answer = await line.ask("POST", DEFINITIONS, crd)
        assert (answer.status, answer.value["reason"]) == (422, "Invalid"), crd


@each_front
async def test_deleted_crd_stays_until_the_finalizers_of_its_objects_are_removed(line: Line) -> None:
    await with_crds(line)
    held = nodepool()
    held["metadata"]["finalizers"] = ["x.dev/hold"]
    await line.create(NODEPOOLS, held)
    await line.ask("DELETE", f"{DEFINITIONS}/nodepools.karpenter.sh")
    assert (await line.get(f"{NODEPOOLS}/default"))["metadata"]["deletionTimestamp"]
    await line.patch(f"{NODEPOOLS}/default", {"metadata": {"finalizers": None}})
    assert (await line.ask("GET", NODEPOOLS)).status == 404
    assert (await line.ask("GET", f"{DEFINITIONS}/nodepools.karpenter.sh")).status == 404


@each_server
async def test_two_versions_of_a_kind_show_the_same_objects(line: Line) -> None:
    crd = thing_crd({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}})
    old = {**crd["spec"]["versions"][0], "name": "v1beta1", "storage": False}
    crd["spec"]["versions"].append(old)
    await line.create(DEFINITIONS, crd)
    await line.create(
        "/apis/x.dev/v1beta1/namespaces/default/things", {**thing(size=1), "apiVersion": "x.dev/v1beta1"}
    )
    assert (await line.get(f"{THINGS}/a"))["apiVersion"] == "x.dev/v1"
    await line.patch("/apis/x.dev/v1beta1/namespaces/default/things/a", {"spec": {"size": 2}})
    assert (await line.get(f"{THINGS}/a"))["spec"] == {"size": 2}
