"""Server-side apply in the embedded API server: field managers and conflicts."""

from typing import Any

from api_fronts import APPLY, DEPLOYMENTS, JSON_PATCH, NODES, Answer, Line, deployment, each_server, node


async def apply(line: Line, manager: str, body: dict[str, Any], *, force: bool = False) -> Answer:
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    query = f"fieldManager={manager}&force={str(force).lower()}"
    return await line.ask("PATCH", f"{DEPLOYMENTS}/web?{query}", kind | body, type_=APPLY)


def managers(value: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {(e["manager"], e["operation"]): e["fieldsV1"] for e in value["metadata"]["managedFields"]}


@each_server
async def test_apply_creates_a_missing_object(line: Line) -> None:
    made = await apply(line, "a", deployment())
    assert made.status == 201
    owned = managers(made.value)["a", "Apply"]
    container = owned["f:spec"]["f:template"]["f:spec"]["f:containers"]['k:{"name":"c"}']
    assert container == {".": {}, "f:image": {}, "f:name": {}}
    assert "f:replicas" not in owned["f:spec"]  # a default has no owner


@each_server
async def test_a_field_of_another_manager_is_a_conflict_unless_forced(line: Line) -> None:
    await apply(line, "a", deployment(replicas=2))
    refused = await apply(line, "b", {"spec": {"replicas": 3}})
    assert refused.status == 409
    assert refused.message == 'Apply failed with 1 conflict: conflict with "a": .spec.replicas'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".spec.replicas"}
    assert refused.value["details"] == {"causes": [cause]}
    taken = await apply(line, "b", {"spec": {"replicas": 3}}, force=True)
    assert taken.value["spec"]["replicas"] == 3
    assert "f:replicas" not in managers(taken.value)["a", "Apply"]["f:spec"]
    assert managers(taken.value)["b", "Apply"] == {"f:spec": {"f:replicas": {}}}


@each_server
async def test_equal_value_is_owned_by_both_managers(line: Line) -> None:
    await apply(line, "a", deployment(replicas=2))
    shared = await apply(line, "b", {"spec": {"replicas": 2}})
    assert shared.status == 200
    dropped = await apply(line, "b", {"spec": {}})
    assert dropped.value["spec"]["replicas"] == 2  # manager a still owns it


@each_server
async def test_patch_owns_the_fields_that_it_changed(line: Line) -> None:
    await apply(line, "a", deployment(replicas=2))
    await line.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}})
    refused = await apply(line, "a", deployment(replicas=2))
    assert refused.status == 409
    assert 'conflict with "tester" with subresource "scale" using apps/v1: .spec.replicas' in refused.message


@each_server
async def test_apply_removes_fields_that_it_no_longer_has(line: Line) -> None:
    two = deployment()
    two["metadata"]["labels"] = {"x": "1"}
    two["spec"]["template"]["spec"] = {
        "containers": [{"name": "c", "image": "web:1"}, {"name": "d", "image": "d:1"}]
    }
    await apply(line, "a", two)
    after = (await apply(line, "a", deployment())).value
    assert [c["name"] for c in after["spec"]["template"]["spec"]["containers"]] == ["c"]
    assert "labels" not in after["metadata"]


@each_server
async def test_second_apply_changes_nothing(line: Line) -> None:
    first = (await apply(line, "a", deployment(replicas=2))).value
    second = (await apply(line, "a", deployment(replicas=2))).value
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@each_server
async def test_lists_with_keys_are_owned_item_by_item(line: Line) -> None:
    await line.create(NODES, node())
    body = {"apiVersion": "v1", "kind": "Node"}
    for manager, type_ in (("a", "Ready"), ("b", "Healthy")):
        status = {"conditions": [{"type": type_, "status": "True"}]}
        path = f"{NODES}/n1/status?fieldManager={manager}"
        assert (await line.ask("PATCH", path, {**body, "status": status}, type_=APPLY)).status == 200
    found = await line.get(f"{NODES}/n1")
    assert sorted(c["type"] for c in found["status"]["conditions"]) == ["Healthy", "Ready"]
    removed = await line.ask(
        "PATCH", f"{NODES}/n1/status?fieldManager=b", {**body, "status": {}}, type_=APPLY
    )
    assert [c["type"] for c in removed.value["status"]["conditions"]] == ["Ready"]


@each_server
async def test_an_apply_needs_a_manager_and_the_right_kind(line: Line) -> None:
    missing = await line.ask("PATCH", f"{DEPLOYMENTS}/web", deployment(), type_=APPLY)
    assert (missing.status, missing.value["reason"]) == (422, "Invalid")
    for body in ({"apiVersion": "apps/v1", "kind": "Secret"}, {"apiVersion": "v9", "kind": "Deployment"}, {}):
        answer = await line.ask("PATCH", f"{DEPLOYMENTS}/web?fieldManager=a", body, type_=APPLY)
        assert answer.status == 400, body


@each_server
async def test_managed_fields_can_be_rewritten_as_kubectl_does(line: Line) -> None:
    made = await line.create(DEPLOYMENTS, deployment(replicas=2), agent="kubectl-client-side-apply")
    entry = {**made["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}
    change = [
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
    ]
    after = await line.patch(f"{DEPLOYMENTS}/web", change, JSON_PATCH)
    assert list(managers(after)) == [("kubectl", "Apply")]
    assert (await apply(line, "kubectl", deployment(replicas=5))).value["spec"]["replicas"] == 5
