"""A real kube-apiserver and the embedded one judge the same custom resources, ours and Karpenter's own.

Run by `make e2e`. Karpenter's CRDs are read out of its Go modules. Both servers get every object with `dryRun=All`, so
that only the objects to change are ever stored; both must give the same verdict for the same reasons, and make the same
of what they accept.
"""

import asyncio
import http.client
import json
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest
import yaml

import build_peers
from holdfast.api import crds
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.front import Request
from holdfast.sim.api.server import ApiServer
from peers import control_plane, crd_objects
from peers.crd_objects import Change, Json

COUNT: Final = int(os.environ.get("HOLDFAST_PEER_OBJECTS", "3000"))
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRY_RUN: Final = "dryRun=All&fieldValidation=Strict"
SENDERS: Final = 4


class Verdict(NamedTuple):
    status: int
    causes: tuple[tuple[str, str], ...]  # reason and field, of a refusal
    made: str  # of an acceptance: the object, without what no two servers give alike


Send = Callable[[str, str, bytes], tuple[int, Json]]


class Real:
    """The real server, asked by several threads at once."""

    def __init__(self, kubeconfig: Path) -> None:
        server = json.loads(kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        self._port = int(server["server"].rsplit(":", 1)[1])
        self._context = ssl.create_default_context(cafile=server["certificate-authority"])
        self._own = threading.local()

    def send(self, method: str, path: str, body: bytes) -> tuple[int, Json]:
        if not hasattr(self._own, "line"):
            self._own.line = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context)
        headers = {"authorization": f"Bearer {control_plane.TOKEN}", "content-type": "application/json"}
        self._own.line.request(method, path, body, headers)
        answer = self._own.line.getresponse()
        told = answer.read()
        return answer.status, json.loads(told) if told.startswith(b"{") else {}


class Embedded:
    def __init__(self) -> None:
        self._server = ApiServer(clock=RealClock(), ids=RealIds())

    def send(self, method: str, path: str, body: bytes) -> tuple[int, Json]:
        path, _, query = path.partition("?")
        asked = dict(one.split("=") for one in query.split("&")) if query else {}
        request = Request(method, path, asked, {"content-type": "application/json"}, body)
        answer = asyncio.run(self._server.handle(request))
        assert isinstance(answer.body, bytes)
        return answer.status, json.loads(answer.body)


@cache
def karpenters() -> tuple[Json, ...]:
    """The CRDs of Karpenter's AWS provider, as its Go module has them."""
    found = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws"],  # noqa: S607
        cwd=build_peers.PEERS / "karpenter-aws",
        check=True,
        capture_output=True,
        text=True,
    )
    folder = Path(found.stdout.strip()) / "pkg/apis/crds"
    return tuple(yaml.safe_load(one.read_text(encoding="utf-8")) for one in sorted(folder.glob("*.yaml")))


def collection(crd: Json) -> str:
    """Where objects of the storage version are."""
    spec = crd["spec"]
    where = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{storage(crd)['name']}/{where}{spec['names']['plural']}"


def storage(crd: Json) -> Json:
    found: Json = next(one for one in crd["spec"]["versions"] if one["storage"])
    return found


def install(send: Send, crd: Json) -> None:
    status, told = send("POST", DEFINITIONS, json.dumps(crd).encode())
    assert status == 201, told
    for _ in range(600):
        found = send("GET", f"{DEFINITIONS}/{crd['metadata']['name']}", b"")[1]
        conditions = found.get("status", {}).get("conditions") or []
        served = send("GET", collection(crd), b"")[0] == 200
        if served and any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"{crd['metadata']['name']} is not established")


def store(send: Send, crd: Json, old: Json) -> Json:
    status, told = send("POST", collection(crd), json.dumps(old).encode())
    assert status == 201, told
    return told


def judge(send: Send, crd: Json, change: Change, stored: Mapping[str, Json]) -> Verdict:
    new = change.new
    if change.old is None:
        status, told = send("POST", f"{collection(crd)}?{DRY_RUN}", json.dumps(new).encode())
    else:
        name = change.old["metadata"]["name"]
        version = {"resourceVersion": stored[name]["metadata"]["resourceVersion"]}
        new = new | {"metadata": new["metadata"] | version}
        status, told = send("PUT", f"{collection(crd)}/{name}?{DRY_RUN}", json.dumps(new).encode())
    if status >= 400:
        causes = (told.get("details") or {}).get("causes") or []
        return Verdict(status, tuple(sorted({(c["reason"], c.get("field", "")) for c in causes})), "")
    return Verdict(status, (), json.dumps({k: v for k, v in told.items() if k != "metadata"}, sort_keys=True))


def named(objects: Sequence[Json], kind: str) -> list[Json]:
    return [
        {**one, "metadata": {**one.get("metadata", {}), "name": f"{kind.lower()}-{n}"}}
        for n, one in enumerate(objects)
    ]


def differences(real: Real, embedded: Embedded, definitions: Sequence[Json]) -> Iterator[str]:
    share = COUNT // len(definitions)
    for crd in definitions:
        kind, schema = crd["spec"]["names"]["kind"], storage(crd)["schema"]["openAPIV3Schema"]
        for send in (real.send, embedded.send):
            install(send, crd)
        olds = named(crd_objects.olds(kind), kind)
        ours = {one["metadata"]["name"]: store(embedded.send, crd, one) for one in olds}
        theirs = {one["metadata"]["name"]: store(real.send, crd, one) for one in olds}
        dice = Random(kind)  # noqa: S311 - a seed
        changes = list(crd_objects.changes(dice, kind, schema, olds, share))
        for number, change in enumerate(changes):
            change.new.setdefault("metadata", {}).setdefault("name", f"new-{number}")
        with ThreadPoolExecutor(SENDERS) as pool:
            of_real = list(pool.map(lambda change: judge(real.send, crd, change, theirs), changes))
        accepted = 0
        for change, wanted in zip(changes, of_real, strict=True):
            got = judge(embedded.send, crd, change, ours)
            accepted += wanted.status < 400
            if got != wanted:
                yield f"{kind}: {json.dumps(change.new)} after {json.dumps(change.old)}\n  real {wanted}\n  embedded {got}"
        assert share / 20 <= accepted <= share * 19 / 20, (kind, accepted, share)


@pytest.mark.parametrize("whose", ["ours", "karpenter"])
def test_both_servers_judge_and_complete_custom_resources_alike(whose: str) -> None:
    definitions = crds.all_crds() if whose == "ours" else karpenters()
    with control_plane.running() as kubeconfig:
        found = list(differences(Real(kubeconfig), Embedded(), definitions))
        assert found == []
