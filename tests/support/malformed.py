"""Malformed requests to an API server, from a seed: invalid requests, and mutations that may be valid.

Used by tests/fuzz/test_api_requests.py and scripts/fuzz_api.py. The server must answer an invalid request with 4xx and a
Status with the same code, and a mutation with 2xx or such an error. It must not raise, hang, or answer 5xx.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from api_fronts import (
    APPLY,
    DEFINITIONS,
    DEPLOYMENTS,
    JSON_PATCH,
    MERGE,
    NODEPOOLS,
    NODES,
    PODS,
    PROTOBUF,
    STRATEGIC,
    Json,
    StillClock,
    deployment,
    node,
    nodepool,
    pod,
)
from holdfast.api import crds
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.front import Front, Request, Response
from holdfast.sim.ids import SeededIds
from protobuf_bytes import envelope, message, meta

UNKNOWN_PATH = b"404 page not found\n"  # the text of a real API server, which is no Status
TIMEOUT_S: Final = 5.0
_TYPES: Final = (
    "application/json",
    "application/yaml",
    PROTOBUF,
    MERGE,
    STRATEGIC,
    JSON_PATCH,
    APPLY,
    "text/plain",
    "",
)
_ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "\x00",
    "a/b",
    "É" * 300,
    [],
    {},
    [[]],
    {"": {}},
    [None],
    "9" * 400,
    {"$patch": 3},
)
_OBJECTS: Final = {PODS: pod, NODES: node, DEPLOYMENTS: deployment, NODEPOOLS: nodepool}
_BODIES: Final = (
    b"",
    b"{",
    b"[1",
    b'{"a":}',
    b"\xff\xfe",
    b"null",
    b"7",
    b'"x"',
    b"[]",
    b'{"kind":3}',
    b"k8s\x00",
    b"---\na: [",
)
_QUERIES: Final = (
    {"labelSelector": "a b"},
    {"labelSelector": "(("},
    {"labelSelector": "x in y"},
    {"fieldSelector": "spec.nope=1"},
    {"fieldSelector": "=="},
    {"limit": "x"},
    {"limit": "9" * 40},
    {"continue": "!!"},
    {"resourceVersion": "-1"},
    {"resourceVersion": "x", "watch": "true"},
    {"resourceVersionMatch": "Exact"},
    {"timeoutSeconds": "soon", "watch": "1"},
    {"sendInitialEvents": "true", "watch": "true"},
)


@dataclass(frozen=True)
class Case:
    """One request, and whether the server must refuse it."""

    request: Request
    must_fail: bool


@dataclass(frozen=True)
class Verdict:
    """The problem of an answer, or "" if there is none, and its status code."""

    problem: str
    status: int


def case(seed: int) -> Case:
    dice = Random(seed)
    return dice.choice(_GENERATORS)(dice)


async def server() -> ApiServer:
    """A server with one object of each kind."""
    server = ApiServer(clock=StillClock(), ids=SeededIds(1))
    for crd in crds.all_crds():
        await server.handle(_json("POST", DEFINITIONS, crd))
    for path, build in _OBJECTS.items():
        answer = await server.handle(_json("POST", path, build("x")))
        assert answer.status == 201
    return server


async def check_case(front: Front, case: Case) -> Verdict:
    """Sends the request of a case and checks the answer."""
    try:
        answer = await asyncio.wait_for(front.handle(case.request), TIMEOUT_S)
        body = await asyncio.wait_for(_body(answer), TIMEOUT_S)
    except TimeoutError:
        return Verdict("hangs", 0)
    if 200 <= answer.status < 300:
        return Verdict("was let through" if case.must_fail else "", answer.status)
    if not 400 <= answer.status < 500:
        return Verdict(f"answers {answer.status}", answer.status)
    if (answer.status, body) == (404, UNKNOWN_PATH):
        return Verdict("", answer.status)
    try:
        status = json.loads(body)
    except ValueError:
        return Verdict("refuses without JSON", answer.status)
    if (status.get("kind"), status.get("status"), status.get("code")) != ("Status", "Failure", answer.status):
        return Verdict("refuses without a Status", answer.status)
    return Verdict(
        "" if status.get("message") and status.get("reason") else "refuses without a reason", answer.status
    )


async def _body(answer: Response) -> bytes:
    """The body; of a watch, the first chunk if it arrives at once."""
    if isinstance(answer.body, bytes):
        return answer.body
    stream: AsyncGenerator[bytes, None] = answer.body
    try:
        return await asyncio.wait_for(anext(stream, b""), 0.01)
    except TimeoutError:
        return b""
    finally:
        await stream.aclose()


def _json(method: str, path: str, body: Any, type_: str = "application/json", **query: str) -> Request:
    return Request(method, path, query, {"content-type": type_}, json.dumps(body).encode())


def _no_such_path(dice: Random) -> Case:
    steps = [
        "api",
        "apis",
        "v1",
        "pods",
        "namespaces",
        "default",
        "..",
        "%2e%2e",
        "%",
        "",
        "x" * 50,
        "\x00",
        "karpenter.sh",
    ]
    path = "/" + "/".join(dice.choices(steps, k=dice.randrange(1, 8)))
    return Case(Request("GET", f"{path}/nope"), must_fail=True)


def _no_such_method(dice: Random) -> Case:
    method, path = dice.choice(
        (
            ("POST", f"{PODS}/x"),
            ("PUT", NODES),
            ("PATCH", PODS),
            ("BREW", NODES),
            ("", "/api"),
            ("HEAD", PODS),
        )
    )
    return Case(_json(method, path, {}), must_fail=True)


def _broken_body(dice: Random) -> Case:
    body = dice.choice(_BODIES)
    path = dice.choice(list(_OBJECTS))
    type_ = dice.choice(("application/json", "application/yaml", PROTOBUF))
    return Case(Request("POST", path, {}, {"content-type": type_}, body), must_fail=True)


def _broken_patch(dice: Random) -> Case:
    type_ = dice.choice((MERGE, STRATEGIC, JSON_PATCH, APPLY))
    path = dice.choice(list(_OBJECTS))
    body = dice.choice([body for body in _BODIES if not (type_ == JSON_PATCH and body == b"[]")])
    query = {"fieldManager": "fuzz"}
    return Case(Request("PATCH", f"{path}/x", query, {"content-type": type_}, body), must_fail=True)


def _bad_query(dice: Random) -> Case:
    return Case(Request("GET", dice.choice(list(_OBJECTS)), dice.choice(_QUERIES)), must_fail=True)


def _wrong_type(dice: Random) -> Case:
    """An object with a value of the wrong type in a field that must be an object or a string."""
    path = dice.choice(list(_OBJECTS))
    body = _OBJECTS[path]("y")
    field = dice.choice(("metadata", "spec", "kind", "apiVersion"))
    odd = [value for value in _ODD_VALUES if value not in (None, "", {}, False)]
    if field in ("metadata", "spec"):
        odd = [value for value in odd if not isinstance(value, dict)]
    body[field] = dice.choice(odd)
    return Case(_json("POST", path, body), must_fail=True)


def _deeply_nested(dice: Random) -> Case:
    depth = dice.randrange(300, 30_000)
    opened, closed = dice.choice(((b'{"a":', b"}"), (b"[", b"]")))
    body = b'{"apiVersion":"v1","kind":"Pod","metadata":' + opened * depth + b"1" + closed * depth + b"}"
    return Case(
        Request(
            "POST", PODS, {}, {"content-type": dice.choice(("application/json", "application/yaml"))}, body
        ),
        must_fail=True,
    )


def _too_big(dice: Random) -> Case:
    size = 3 * 1024 * 1024 + dice.randrange(1, 9)
    return Case(Request("POST", PODS, {}, {"content-type": "application/json"}, b" " * size), must_fail=True)


def _bad_header(dice: Random) -> Case:
    headers = dice.choice(
        (
            {"accept": "text/html"},
            {"accept": "application/vnd.kubernetes.protobuf"},
            {"accept": "application/json;as=Soup;v=v1;g=x"},
        )
    )
    return Case(Request("GET", dice.choice(list(_OBJECTS)), {}, headers), must_fail=True)


def _bad_options(dice: Random) -> Case:
    body: Any = dice.choice(
        (
            {"gracePeriodSeconds": "x"},
            {"preconditions": {"uid": 3}},
            {"preconditions": {"uid": "other"}},
            {"propagationPolicy": "Sometimes"},
            {"kind": "Pod"},
            [],
            {"dryRun": "All"},
        )
    )
    return Case(_json("DELETE", f"{dice.choice(list(_OBJECTS))}/x", body), must_fail=True)


def _bad_crd(dice: Random) -> Case:
    crd = json.loads(json.dumps(crds.all_crds()[0]))
    crd["metadata"]["name"] = "things.x.dev"
    crd["spec"] |= {"group": "x.dev", "names": {"kind": "Thing", "plural": "things"}}
    version = crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    wrong: list[tuple[Json, str, Any]] = [
        (crd["spec"], "scope", "Galaxy"),
        (crd["spec"], "versions", []),
        (crd["metadata"], "name", "other"),
        (version, "schema", {}),
        (version, "storage", False),
        (schema, "type", "string"),
        (schema, "x-kubernetes-validations", [{"rule": "self.", "message": "m"}]),
        (schema["properties"]["spec"], "properties", {"a": 3}),
        (schema["properties"]["spec"], "type", "soup"),
    ]
    parent, key, value = dice.choice(wrong)
    parent[key] = value
    return Case(_json("POST", DEFINITIONS, crd), must_fail=True)


def _mutated_object(dice: Random) -> Case:
    """A valid request with one value replaced by an odd one."""
    path = dice.choice(list(_OBJECTS))
    body: Any = _OBJECTS[path](f"m{dice.randrange(1000)}")
    at: Any = body
    while True:
        key = dice.choice(list(at)) if isinstance(at, dict) else dice.randrange(len(at))
        if isinstance(at[key], dict | list) and at[key] and dice.random() < 0.8:
            at = at[key]
            continue
        at[key] = dice.choice(_ODD_VALUES)
        break
    method, name, type_ = dice.choice(
        (
            ("POST", "", "application/json"),
            ("PUT", "/x", "application/json"),
            ("PATCH", "/x", MERGE),
            ("PATCH", "/x", STRATEGIC),
            ("PATCH", "/x", APPLY),
        )
    )
    query = {"fieldManager": "fuzz", "force": "true"} if type_ == APPLY else {}
    return Case(_json(method, f"{path}{name}", body, type_, **query), must_fail=False)


def _odd_patch(dice: Random) -> Case:
    paths = [
        "",
        "/",
        "/spec",
        "/metadata/name",
        "/metadata/labels/x",
        "/status/conditions/0",
        "/spec/containers/-",
        "x",
        "/~2",
        "/metadata/managedFields",
    ]
    operations = [
        {
            "op": dice.choice(["add", "remove", "replace", "move", "copy", "test", "dance", 3]),
            "path": dice.choice(paths),
            "from": dice.choice(paths),
            "value": dice.choice(_ODD_VALUES),
        }
        for _ in range(dice.randrange(1, 4))
    ]
    return Case(_json("PATCH", f"{dice.choice(list(_OBJECTS))}/x", operations, JSON_PATCH), must_fail=False)


def _odd_protobuf(dice: Random) -> Case:
    """A valid envelope around a body with changed, removed or added bytes."""
    content = bytearray(message((1, meta("p")), (2, message((1, b""), (2, message((1, "c"), (2, "i")))))))
    for _ in range(dice.randrange(1, 5)):
        at = dice.randrange(len(content))
        content[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
    kind = dice.choice(
        (
            ("v1", "Pod"),
            ("v1", "DeleteOptions"),
            ("policy/v1", "Eviction"),
            ("coordination.k8s.io/v1", "Lease"),
        )
    )
    path = dice.choice((PODS, f"{PODS}/x/eviction", NODES))
    return Case(
        Request("POST", path, {}, {"content-type": PROTOBUF}, envelope(*kind, bytes(content))),
        must_fail=False,
    )


def _random_request(dice: Random) -> Case:
    path = dice.choice(
        [
            *_OBJECTS,
            f"{PODS}/x",
            f"{PODS}/x/binding",
            f"{DEPLOYMENTS}/x/scale",
            DEFINITIONS,
            "/apis",
            "/openapi/v3",
        ]
    )
    method = dice.choice(("GET", "POST", "PUT", "PATCH"))
    body = (
        dice.randbytes(dice.randrange(200))
        if dice.random() < 0.5
        else json.dumps(dice.choice(_ODD_VALUES)).encode()
    )
    return Case(Request(method, path, {}, {"content-type": dice.choice(_TYPES)}, body), must_fail=False)


def _odd_subresource(dice: Random) -> Case:
    """A body for a subresource, with one odd value."""
    reference = {"name": "x", "uid": dice.choice(_ODD_VALUES)}
    bodies: dict[str, Json] = {
        f"{PODS}/x/binding": {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": reference,
            "target": {"name": "x"},
        },
        f"{PODS}/x/eviction": {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": reference,
            "deleteOptions": {},
        },
        f"{PODS}/x/status": {
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
        },
        f"{NODES}/x/status": {"status": {"conditions": [{"type": "Ready"}], "capacity": {"cpu": "1"}}},
        f"{DEPLOYMENTS}/x/scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2}},
        f"{NODEPOOLS}/x/scale": {"spec": {"replicas": 2}},
        f"{NODEPOOLS}/x/status": {"status": {"nodes": 2}},
        "/api/v1/namespaces/default/finalize": {
            "apiVersion": "v1",
            "kind": "Namespace",
            "spec": {"finalizers": []},
        },
        "/api/v1/namespaces/default/bindings": {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {},
            "target": {},
        },
    }
    path = dice.choice(list(bodies))
    body = bodies[path]
    parent = dice.choice([body, *(child for child in body.values() if isinstance(child, dict))])
    parent[dice.choice([*parent, "spec", "status", "metadata"])] = dice.choice(_ODD_VALUES)
    method, type_ = dice.choice(
        (("POST", "application/json"), ("PUT", "application/json"), ("PATCH", MERGE), ("PATCH", APPLY))
    )
    query = {"fieldManager": "fuzz"} if type_ == APPLY else {}
    return Case(_json(method, path, body, type_, **query), must_fail=False)


def _odd_crd(dice: Random) -> Case:
    """A CRD with one value replaced by an odd one, and with a new name, so that the server can accept it."""
    crd = json.loads(json.dumps(crds.all_crds()[0]))
    crd["metadata"]["name"] = "things.x.dev"
    crd["spec"] |= {"group": "x.dev", "names": {"kind": "Thing", "plural": "things"}}
    at: Any = crd["spec"]
    while True:
        key = dice.choice(list(at)) if isinstance(at, dict) else dice.randrange(len(at))
        if isinstance(at[key], dict | list) and at[key] and dice.random() < 0.9:
            at = at[key]
            continue
        at[key] = dice.choice(_ODD_VALUES)
        break
    if dice.random() < 0.5:
        return Case(_json("POST", DEFINITIONS, crd), must_fail=False)
    body = {**nodepool(f"t{dice.randrange(99)}"), "apiVersion": "x.dev/v1", "kind": "Thing"}
    return Case(_json("POST", "/apis/x.dev/v1/things", body), must_fail=False)


_GENERATORS: Final[tuple[Callable[[Random], Case], ...]] = (
    _no_such_path,
    _no_such_method,
    _broken_body,
    _broken_patch,
    _bad_query,
    _wrong_type,
    _deeply_nested,
    _too_big,
    _bad_header,
    _bad_options,
    _bad_crd,
    _mutated_object,
    _mutated_object,
    _odd_patch,
    _odd_protobuf,
    _odd_subresource,
    _odd_crd,
    _random_request,
)
