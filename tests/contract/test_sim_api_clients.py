"""Requests of real clients other than plain objects: discovery, OpenAPI, protobuf bodies, tables, reviews."""

from typing import Any

from api_fronts import (
    DEPLOYMENTS,
    NODES,
    PODS,
    PROTOBUF,
    TABLE,
    Line,
    deployment,
    each_front,
    each_server,
    node,
    pod,
    with_crds,
)
from protobuf_bytes import envelope, message, meta

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


@each_front
async def test_the_version_is_one_that_clients_can_parse(line: Line) -> None:
    version = await line.get("/version")
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.")
    for path in ("/healthz", "/livez", "/readyz"):
        assert (await line.ask("GET", path)).body == b"ok"


@each_server
async def test_new_cluster_has_the_default_namespaces(line: Line) -> None:
    names = [item["metadata"]["name"] for item in (await line.get("/api/v1/namespaces"))["items"]]
    assert {"default", "kube-system", "kube-node-lease"} <= set(names)


@each_server
async def test_legacy_discovery_lists_every_group_and_resource(line: Line) -> None:
    assert (await line.get("/api"))["versions"] == ["v1"]
    core = {r["name"]: r for r in (await line.get("/api/v1"))["resources"]}
    assert {"pods", "pods/eviction", "pods/binding", "nodes/status", "events"} <= core.keys()
    assert core["pods/eviction"]["group"] == "policy"
    groups = {group["name"] for group in (await line.get("/apis"))["groups"]}
    wanted = {
        "apps",
        "batch",
        "policy",
        "coordination.k8s.io",
        "storage.k8s.io",
        "events.k8s.io",
        "resource.k8s.io",
    }
    assert wanted <= groups
    assert (await line.get("/apis/apps"))["preferredVersion"]["groupVersion"] == "apps/v1"
    unknown = await line.ask("GET", "/apis/nope")
    assert (unknown.status, unknown.body) == (404, b"404 page not found\n")


@each_front
async def test_aggregated_discovery_has_an_etag_that_a_new_kind_changes(line: Line) -> None:
    first = await line.ask("GET", "/apis", accept=AGGREGATED)
    assert "APIGroupDiscoveryList" in first.headers["content-type"]
    assert first.headers["vary"] == "Accept"
    tag = first.headers["etag"]
    same = await line.ask("GET", "/apis", accept=AGGREGATED, headers={"if-none-match": tag})
    assert (same.status, same.body) == (304, b"")
    await with_crds(line)
    new = await line.ask("GET", "/apis", accept=AGGREGATED, headers={"if-none-match": tag})
    groups = {item["metadata"]["name"]: item for item in new.value["items"]}
    resources = groups["karpenter.sh"]["versions"][0]["resources"]
    pool = next(r for r in resources if r["resource"] == "nodepools")
    assert [s["subresource"] for s in pool["subresources"]] == ["status", "scale"]
    core = (await line.ask("GET", "/api", accept=AGGREGATED)).value
    assert "name" not in core["items"][0]["metadata"]


@each_front
async def test_openapi_has_a_document_per_group_version(line: Line) -> None:
    await with_crds(line)
    index = await line.get("/openapi/v3")
    path_of_document = index["paths"]["apis/karpenter.sh/v1"]["serverRelativeURL"]
    assert path_of_document.startswith("/openapi/v3/apis/karpenter.sh/v1?hash=")
    document = await line.get(path_of_document)
    patch = document["paths"]["/apis/karpenter.sh/v1/nodepools/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    kind = {"group": "karpenter.sh", "version": "v1", "kind": "NodePool"}
    assert patch["x-kubernetes-group-version-kind"] == kind
    pools = [
        s
        for s in document["components"]["schemas"].values()
        if s.get("x-kubernetes-group-version-kind") == [kind]
    ]
    assert "budgets" in pools[0]["properties"]["spec"]["properties"]["disruption"]["properties"]
    apps = await line.get("/openapi/v3/apis/apps/v1")
    assert "io.k8s.api.core.v1.PodSpec" in apps["components"]["schemas"]
    assert (await line.ask("GET", "/openapi/v2")).status == 404


@each_front
async def test_answers_are_json_although_protobuf_is_accepted(line: Line) -> None:
    for accept in (
        "application/vnd.kubernetes.protobuf, */*",
        "application/vnd.kubernetes.protobuf,application/json",
    ):
        answer = await line.ask("GET", NODES, accept=accept)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    refused = await line.ask("GET", NODES, accept="text/html")
    assert (refused.status, refused.value["reason"]) == (406, "NotAcceptable")


async def send(line: Line, path: str, body: bytes, method: str = "POST") -> Any:
    return await line.ask(method, path, body, type_=PROTOBUF, accept=f"{PROTOBUF}, */*")


@each_front
async def test_a_lease_is_read_from_protobuf(line: Line) -> None:
    renewed = message((1, 1_800_000_000), (2, 123_456_000))
    spec = message((1, "kwok"), (2, 40), (4, renewed))
    body = envelope("coordination.k8s.io/v1", "Lease", message((1, meta("n1")), (2, spec)))
    made = await send(line, LEASES, body)
    assert made.status == 201
    expected = {
        "holderIdentity": "kwok",
        "leaseDurationSeconds": 40,
        "renewTime": "2027-01-15T08:00:00.123456Z",
    }
    assert made.value["spec"] == expected


@each_server
async def test_delete_options_distinguish_grace_period_zero_from_unset(line: Line) -> None:
    for name in ("a", "b"):
        await line.create(PODS, pod(name, nodeName="n1"))
    assert (
        await send(line, f"{PODS}/a", envelope("v1", "DeleteOptions", message((1, 0))), "DELETE")
    ).status == 200
    assert (await line.ask("GET", f"{PODS}/a")).status == 404
    assert (await send(line, f"{PODS}/b", envelope("v1", "DeleteOptions", b""), "DELETE")).status == 200
    assert (await line.get(f"{PODS}/b"))["metadata"]["deletionGracePeriodSeconds"] == 30
    uid = message((2, message((1, "other"))))
    assert (await send(line, f"{PODS}/b", envelope("v1", "DeleteOptions", uid), "DELETE")).status == 409


@each_server
async def test_an_eviction_and_a_binding_are_read_from_protobuf(line: Line) -> None:
    await line.create(NODES, node())
    await line.create(PODS, pod())
    target = message((1, "Node"), (2, ""), (3, "n1"))
    bind = envelope("v1", "Binding", message((1, meta("a")), (2, target)))
    assert (await send(line, f"{PODS}/a/binding", bind)).status == 201
    assert (await line.get(f"{PODS}/a"))["spec"]["nodeName"] == "n1"
    evict = envelope(
        "policy/v1", "Eviction", message((1, meta("a")), (2, message((2, message((1, "other"))))))
    )
    assert (await send(line, f"{PODS}/a/eviction", evict)).status == 409
    evict = envelope("policy/v1", "Eviction", message((1, meta("a"))))
    assert (await send(line, f"{PODS}/a/eviction", evict)).status == 201
    assert (await line.get(f"{PODS}/a"))["metadata"]["deletionTimestamp"]


@each_front
async def test_pod_with_inline_fields_is_read_from_protobuf(line: Line) -> None:
    limits = message((1, message((1, "cpu"), (2, message((1, "0.5"))))))
    port = message((1, "http"), (3, 80), (4, "TCP"))
    container = message((1, "c"), (2, "web:1"), (6, port), (8, limits))
    volume = message((1, "tmp"), (2, message((2, b""))))  # VolumeSource is inline; 2 is emptyDir
    labels = message((1, "app"), (2, "web"))
    spec = message((1, volume), (2, container), (7, message((1, "disk"), (2, "ssd"))))
    body = envelope("v1", "Pod", message((1, meta("a", (11, labels))), (2, spec)))
    made = await send(line, PODS, body)
    assert made.status == 201, made.body
    assert made.value["metadata"]["labels"] == {"app": "web"}
    assert made.value["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert made.value["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert made.value["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "500m"}


@each_server
async def test_custom_kind_in_protobuf_is_refused(line: Line) -> None:
    answer = await send(line, PODS, envelope("karpenter.sh/v1", "NodePool", b""))
    assert answer.status == 400
    text = answer.body.replace(b'\\"', b'"')  # a real server answers in protobuf
    assert b'no kind "NodePool" is registered for version "karpenter.sh/v1"' in text


def event(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
        "note": "it fits",
        "reason": "Scheduled",
        "type": "Normal",
        "action": "Binding",
        "reportingController": "scheduler",
        "reportingInstance": "s-1",
        "eventTime": "2027-01-15T08:00:00.000000Z",
    }


@each_front
async def test_events_of_both_groups_are_the_same_events(line: Line) -> None:
    await line.create(EVENTS, event("e"))
    core = await line.get("/api/v1/events?fieldSelector=involvedObject.name=a,involvedObject.kind=Pod")
    assert [(e["message"], e["apiVersion"]) for e in core["items"]] == [("it fits", "v1")]
    await line.patch("/api/v1/namespaces/default/events/e", {"message": "it still fits"})
    again = (await line.get(f"{EVENTS}?fieldSelector=regarding.name=a"))["items"][0]
    assert (again["note"], again["apiVersion"]) == ("it still fits", "events.k8s.io/v1")


@each_front
async def test_event_is_deleted_an_hour_after_its_last_write(line: Line) -> None:
    for name in ("old", "new"):
        await line.create(EVENTS, event(name))
    line.clock.now += 3000
    await line.patch("/api/v1/namespaces/default/events/new", {"count": 2})
    line.clock.now += 599
    assert len((await line.get(EVENTS))["items"]) == 2
    line.clock.now += 1
    assert [found["metadata"]["name"] for found in (await line.get(EVENTS))["items"]] == ["new"]
    await line.create(EVENTS, event("old"))
    line.clock.now += 3600
    assert (await line.get(EVENTS))["items"] == []


@each_front
async def test_tables_have_the_columns_of_kubernetes(line: Line) -> None:
    await line.create(NODES, {**node(), "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    await line.create(PODS, pod(nodeName="n1"))
    await line.create(DEPLOYMENTS, deployment(replicas=2))
    line.clock.now += 61
    nodes = (await line.ask("GET", NODES, accept=TABLE)).value
    assert nodes["rows"][0]["cells"][:4] == ["n1", "Ready", "<none>", "61s"]
    pods = (await line.ask("GET", PODS, accept=TABLE)).value
    assert pods["rows"][0]["cells"][:5] == ["a", "0/1", "Pending", "0", "61s"]
    deployments = (await line.ask("GET", DEPLOYMENTS, accept=TABLE)).value
    assert deployments["rows"][0]["cells"][:4] == ["web", "0/2", 0, 0]
    one = (await line.ask("GET", f"{PODS}/a?includeObject=Object", accept=TABLE)).value
    assert one["rows"][0]["object"]["spec"]["nodeName"] == "n1"


@each_server
async def test_reviews_return_the_user_and_the_permission(line: Line) -> None:
    base = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    may = await line.create(
        base, {**body, "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    )
    assert may["status"]["allowed"] is True
    self_review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    me = await line.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", self_review)
    assert me["status"]["userInfo"]["username"] == line.user
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "a-token"}}
    review = await line.create("/apis/authentication.k8s.io/v1/tokenreviews", token)
    assert review["status"]["authenticated"] is True


@each_front
async def test_token_of_a_service_account_is_accepted(line: Line) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    await line.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    token = (await line.create(f"{accounts}/robot/token", asked))["status"]["token"]
    assert (await line.ask("GET", NODES, token=token)).status == 200


@each_server
async def test_methods_that_a_path_does_not_have_are_not_allowed(line: Line) -> None:
    for method, path in (
        ("DELETE", "/version"),
        ("POST", f"{PODS}/a"),
        ("PUT", NODES),
        ("PATCH", NODES),
        ("HEAD", NODES),
    ):
        answer = await line.ask(method, path, {} if method in ("POST", "PUT", "PATCH") else None)
        assert answer.status == 405, (method, path)
