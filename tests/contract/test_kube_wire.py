"""Requests of kubectl and other controllers that Holdfast's client does not send: selectors, pruning, tables, discovery,
and error messages."""

from typing import Any

import msgspec

from kube_servers import KubeServer, Session

JSON = {"content-type": "application/json"}
NODEPOOLS = "/apis/karpenter.sh/v1/nodepools"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def ask(
    session: Session, method: str, path: str, body: Any = None, accept: str = "application/json", **query: str
) -> tuple[int, Any]:
    sent = b"" if body is None else msgspec.json.encode(body)
    answer = await session.transport.request(method, path, query, JSON | {"accept": accept}, sent)
    assert isinstance(answer.body, bytes)
    return answer.status, msgspec.json.decode(answer.body)


def nodepool(name: str, **spec: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template} | spec,
    }


def test_pods_are_selected_by_label_and_by_field(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        labels_by_tier = {name: {"app": session.name("web"), "tier": name} for name in ("front", "back")}
        for tier, labels in labels_by_tier.items():
            await session.pod(session.name(tier), labels)

        async def names(**query: str) -> list[str]:
            status, found = await ask(session, "GET", PODS, **query)
            assert status == 200
            return [one["metadata"]["name"] for one in found["items"]]

        of_app = f"app={session.name('web')}"
        assert await names(labelSelector=of_app) == [session.name("back"), session.name("front")]
        assert await names(labelSelector=f"{of_app},tier in (front, middle)") == [session.name("front")]
        assert await names(labelSelector=f"{of_app},tier!=front") == [session.name("back")]
        assert await names(labelSelector=f"{of_app},!tier") == []
        assert await names(fieldSelector=f"metadata.name={session.name('back')}") == [session.name("back")]
        assert (
            len(await names(labelSelector=of_app, fieldSelector="spec.nodeName=,status.phase=Pending")) == 2
        )
        for wrong in ({"labelSelector": "a in b"}, {"fieldSelector": "spec.priority=1"}):
            status, error = await ask(session, "GET", PODS, **wrong)
            assert (status, error["reason"]) == (400, "BadRequest")

    server.run(program)


def test_defaults_are_set_and_unknown_fields_are_pruned(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        pool = nodepool(session.name("pruned"), templatee=1)
        status, made = await ask(session, "POST", NODEPOOLS, pool)
        assert (status, made["spec"]["template"]["spec"]["expireAfter"]) == (201, "720h")
        assert "templatee" not in made["spec"]
        assert made["spec"]["disruption"]["budgets"] == [{"nodes": "10%"}]
        strict = nodepool(session.name("strict"), templatee=1)
        status, error = await ask(session, "POST", NODEPOOLS, strict, fieldValidation="Strict")
        assert status == 400
        assert error["message"] == (
            'NodePool in version "v1" cannot be handled as a NodePool: strict decoding error: unknown field'
            ' "spec.templatee"'
        )

    server.run(program)


def test_a_table_has_the_columns_of_the_kind(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        name = session.name("shown")
        await ask(session, "POST", NODEPOOLS, nodepool(name, weight=7))
        status, table = await ask(session, "GET", f"{NODEPOOLS}/{name}", accept=TABLE)
        assert (status, table["kind"]) == (200, "Table")
        columns = [(one["name"], one["type"]) for one in table["columnDefinitions"]]
        assert columns[:3] == [("Name", "string"), ("NodeClass", "string"), ("Nodes", "string")]
        (row,) = table["rows"]
        assert row["cells"][:2] == [name, "default"]
        assert 7 in row["cells"]
        assert row["object"]["kind"] == "PartialObjectMetadata"
        await session.pod(name)
        status, table = await ask(session, "GET", f"{PODS}/{name}", accept=TABLE)
        assert [one["name"] for one in table["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
        assert table["rows"][0]["cells"][:3] == [name, "0/1", "Pending"]

    server.run(program)


def test_discovery_lists_resources_and_verbs(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        _, groups = await ask(session, "GET", "/apis")
        karpenter_group = next(one for one in groups["groups"] if one["name"] == "karpenter.sh")
        assert karpenter_group["preferredVersion"] == {"groupVersion": "karpenter.sh/v1", "version": "v1"}
        _, found = await ask(session, "GET", "/apis/karpenter.sh/v1")
        pools = next(one for one in found["resources"] if one["name"] == "nodepools")
        assert (pools["kind"], pools["namespaced"], pools["categories"]) == ("NodePool", False, ["karpenter"])
        assert set(pools["verbs"]) == {
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        }
        assert {"nodepools/status", "nodepools/scale"} <= {one["name"] for one in found["resources"]}
        _, core = await ask(session, "GET", "/api/v1")
        assert "po" in next(one for one in core["resources"] if one["name"] == "pods")["shortNames"]

    server.run(program)


def test_error_status_has_reason_message_and_details(server: KubeServer) -> None:
    async def program(session: Session) -> None:
        name = session.name("refused")
        missing = await ask(session, "GET", f"{NODEPOOLS}/{name}")
        assert missing == (404, _status(404, "NotFound", f'nodepools.karpenter.sh "{name}" not found', name))
        await ask(session, "POST", NODEPOOLS, nodepool(name))
        already_exists = f'nodepools.karpenter.sh "{name}" already exists'
        again = await ask(session, "POST", NODEPOOLS, nodepool(name))
        assert again == (409, _status(409, "AlreadyExists", already_exists, name))
        stale = nodepool(name)
        stale["metadata"]["resourceVersion"] = "1"
        status, error = await ask(session, "PUT", f"{NODEPOOLS}/{name}", stale)
        assert (status, error["reason"]) == (409, "Conflict")
        assert error["message"].endswith("please apply your changes to the latest version and try again")
        status, error = await ask(session, "POST", NODEPOOLS, nodepool(session.name("heavy"), weight=101))
        assert (status, error["reason"], error["code"]) == (422, "Invalid", 422)
        (cause,) = error["details"]["causes"]
        assert (cause["reason"], cause["field"]) == ("FieldValueInvalid", "spec.weight")
        assert error["details"]["kind"] == "NodePool"

    server.run(program)


def _status(code: int, reason: str, message: str, name: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": {"name": name, "group": "karpenter.sh", "kind": "nodepools"},
        "code": code,
    }
