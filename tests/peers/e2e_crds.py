"""A real kube-apiserver and the embedded one validate the same custom resources, of Holdfast's CRDs and of Karpenter's.

Run by `make e2e`. Karpenter's CRDs are read from its Go modules, and Holdfast's are compared with them. Both servers get
every object with `dryRun=All`, so only the objects to update are stored; both must accept or refuse it for the same
reasons, and return the same object.
"""

import asyncio
import contextlib
import functools
import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import pytest

import build_peers
from holdfast.api import aws, crds
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import control_plane, processes
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.front import Request
from holdfast.sim.api.serving.http import Address
from peers import crd_files, crd_objects
from peers.crd_objects import Change, Json

COUNT: Final = int(os.environ.get("HOLDFAST_PEER_OBJECTS", "3000"))
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DRY_RUN: Final = "dryRun=All&fieldValidation=Strict"
SENDERS: Final = 4
TOKEN: Final = "an-admin"
# Without the EC2NodeClass of holdfast.dev, which Karpenter does not have. Its schema is that of the other EC2NodeClass.
OURS: Final = tuple(crd for crd in crds.all_crds() if crd["spec"]["group"] != aws.HOLDFAST_GROUP)
CRDS_PAGE: Final = Path(__file__).resolve().parents[2] / "docs/crds.md"


class Verdict(NamedTuple):
    status: int
    causes: tuple[tuple[str, str], ...]  # reason and field, of a refusal
    made: str  # of an accepted object: the object without metadata, which differs between servers


Send = Callable[[str, str, bytes], tuple[int, Json]]


class Real:
    """The real server, called by several threads at once."""

    def __init__(self, address: Address) -> None:
        self._port = int(address.url.rsplit(":", 1)[1])
        self._context = address.trust()
        self._own = threading.local()
        self._lines: list[http.client.HTTPSConnection] = []

    def close(self) -> None:
        for line in self._lines:
            line.close()

    def send(self, method: str, path: str, body: bytes) -> tuple[int, Json]:
        if not hasattr(self._own, "line"):
            self._own.line = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._context)
            self._lines.append(self._own.line)
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        self._own.line.request(method, path, body, headers)
        answer = self._own.line.getresponse()
        document = answer.read()
        return answer.status, json.loads(document) if document.startswith(b"{") else {}


class Embedded:
    def __init__(self) -> None:
        self._server = ApiServer(clock=RealClock(), ids=RealIds())

    def send(self, method: str, path: str, body: bytes) -> tuple[int, Json]:
        path, _, query = path.partition("?")
        query_params = dict(one.split("=") for one in query.split("&")) if query else {}
        request = Request(method, path, query_params, {"content-type": "application/json"}, body)
        answer = asyncio.run(self._server.handle(request))
        assert isinstance(answer.body, bytes)
        return answer.status, json.loads(answer.body)


def collection(crd: Json) -> str:
    """The path of objects of the storage version."""
    spec = crd["spec"]
    location = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{storage(crd)['name']}/{location}{spec['names']['plural']}"


def storage(crd: Json) -> Json:
    found: Json = next(one for one in crd["spec"]["versions"] if one["storage"])
    return found


def install(send: Send, crd: Json) -> None:
    status, document = send("POST", DEFINITIONS, json.dumps(crd).encode())
    assert status == 201, document
    for _ in range(600):
        found = send("GET", f"{DEFINITIONS}/{crd['metadata']['name']}", b"")[1]
        conditions = found.get("status", {}).get("conditions") or []
        served = send("GET", collection(crd), b"")[0] == 200
        if served and any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return
        threading.Event().wait(0.1)
    raise AssertionError(f"{crd['metadata']['name']} is not established")


def store(send: Send, crd: Json, old: Json) -> Json:
    status, document = send("POST", collection(crd), json.dumps(old).encode())
    assert status == 201, document
    return document


def judge(send: Send, crd: Json, stored: Mapping[str, Json], change: Change) -> Verdict:
    new = change.new
    if change.old is None:
        status, document = send("POST", f"{collection(crd)}?{DRY_RUN}", json.dumps(new).encode())
    else:
        name = change.old["metadata"]["name"]
        version = {"resourceVersion": stored[name]["metadata"]["resourceVersion"]}
        new = new | {"metadata": new["metadata"] | version}
        status, document = send("PUT", f"{collection(crd)}/{name}?{DRY_RUN}", json.dumps(new).encode())
    if status >= 400:
        causes = (document.get("details") or {}).get("causes") or []
        return Verdict(status, tuple(sorted({(c["reason"], c.get("field", "")) for c in causes})), "")
    return Verdict(
        status, (), json.dumps({k: v for k, v in document.items() if k != "metadata"}, sort_keys=True)
    )


def named(objects: Sequence[Json], kind: str) -> list[Json]:
    return [
        {**one, "metadata": {**one.get("metadata", {}), "name": f"{kind.lower()}-{n}"}}
        for n, one in enumerate(objects)
    ]


def differences(real: Real, embedded: Embedded, crd: Json, count: int) -> list[str]:
    """Differences between the two servers for `count` changes of a kind."""
    kind, schema = crd["spec"]["names"]["kind"], storage(crd)["schema"]["openAPIV3Schema"]
    olds = named(crd_objects.olds(kind), kind)
    changes = list(crd_objects.changes(Random(kind), kind, schema, olds, count))
    for number, change in enumerate(changes):
        change.new.setdefault("metadata", {}).setdefault("name", f"new-{number}")
    verdicts = []
    for send, senders in ((real.send, SENDERS), (embedded.send, 1)):
        install(send, crd)
        stored = {one["metadata"]["name"]: store(send, crd, one) for one in olds}
        with ThreadPoolExecutor(senders) as pool:
            verdicts.append(list(pool.map(functools.partial(judge, send, crd, stored), changes)))
    accepted = sum(verdict.status < 400 for verdict in verdicts[0])
    assert count / 20 <= accepted <= count * 19 / 20, (kind, accepted)
    return [
        f"{kind}: {json.dumps(change.new)} after {json.dumps(change.old)}\n  real {wanted}\n  embedded {got}"
        for change, wanted, got in zip(changes, *verdicts, strict=True)
        if got != wanted
    ]


@pytest.mark.parametrize("whose", ["ours", "karpenter"])
def test_real_and_embedded_api_server_validate_and_default_custom_resources_alike(
    whose: str, tmp_path: Path
) -> None:
    definitions = OURS if whose == "ours" else crd_files.of_provider()
    assert asyncio.run(differences_from_real_server(definitions, tmp_path)) == []


async def differences_from_real_server(definitions: Sequence[Json], folder: Path) -> list[str]:
    async with processes.running(folder, RealClock(), build_peers.binary) as started:
        address = await control_plane.start_server(started, folder, token=TOKEN, accounts=False)
        return await asyncio.to_thread(all_differences, definitions, address)


def all_differences(definitions: Sequence[Json], address: Address) -> list[str]:
    embedded, share = Embedded(), COUNT // len(definitions)
    with contextlib.closing(Real(address)) as real:
        return [one for crd in definitions for one in differences(real, embedded, crd, share)]


# --- Comparison with Karpenter's CRDs----------------------------------------------------------------

# Where Holdfast's CRDs differ, and the row of docs/crds.md with the reason.
LISTED: Final = {
    "EC2NodeClass required": "f",
    "EC2NodeClass spec.blockDeviceMappings[].ebs.volumeSize pattern": "d",
    "EC2NodeClass spec.capacityReservationSpec": "a",
    "EC2NodeClass spec.kubelet properties": "e",
    "EC2NodeClass spec.kubelet rules": "e",
    "EC2NodeClass spec.kubelet x-kubernetes-preserve-unknown-fields": "e",
    "EC2NodeClass spec.networkInterfaces rules": "h",
    "EC2NodeClass spec rules": "a",
    "EC2NodeClass status.conditions x-kubernetes-list-map-keys": "g",
    "EC2NodeClass status.conditions x-kubernetes-list-type": "g",
    "EC2NodeClass status.reservationSlots": "a",
    "EC2NodeClass status.upcomingCapacityReservations": "a",
    "NodeClaim spec.requirements[].key rules": "j",
    "NodeClaim spec.requirements[].values maxLength": "k",
    "NodeClaim spec.requirements[].values pattern": "k",
    "NodePool spec.disruption.budgets[] required": "k",
    "NodePool spec.template.metadata.labels rules": "j",
    "NodePool spec.template.spec.requirements rules": "j",
    "NodePool spec.template.spec.requirements[].values maxLength": "k",
    "NodePool spec.template.spec.requirements[].values pattern": "k",
    "NodePool status.nodesByCapacityType": "a",
    "NodePool status.reservationSlots": "a",
}
OUR_COLUMNS: Final = ("Reservation", "Slots")  # row l of docs/crds.md


def test_crds_differ_from_those_of_karpenter_only_as_listed() -> None:
    theirs, found = crd_files.newest(), set[str]()
    for crd in OURS:
        kind = crd["spec"]["names"]["kind"]
        ours, theirs_part = _comparable(crd), _comparable(theirs[kind])
        our_schema, other_schema = (one.pop("schema")["openAPIV3Schema"] for one in (ours, theirs_part))
        assert ours == theirs_part
        found |= {f"{kind} {location}" for location in _schema_differences(our_schema, other_schema, "")}
    assert found == set(LISTED)


def test_every_listed_difference_is_documented() -> None:
    rows = {line[2] for line in CRDS_PAGE.read_text(encoding="utf-8").splitlines() if line[:2] == "| "}
    assert set(LISTED.values()) <= rows


def _comparable(crd: Json) -> Json:
    """Names, scope and the one version, without descriptions."""
    (version,) = crd["spec"]["versions"]
    columns = [
        {**one, "description": ""}
        for one in version["additionalPrinterColumns"]
        if one["name"] not in OUR_COLUMNS
    ]
    spec = {key: value for key, value in crd["spec"].items() if key != "versions"}
    return {**spec, **version, "additionalPrinterColumns": columns}


def _schema_differences(ours: Json, theirs: Json, path: str) -> Iterator[str]:
    """Every field that only one schema has, and every other difference of two fields; of rules only their number."""
    child_keys = ("properties", "items", "additionalProperties")
    for keyword in sorted(
        (ours.keys() | theirs.keys()) - {*child_keys, "description", "x-kubernetes-validations"}
    ):
        if _plain(ours.get(keyword)) != _plain(theirs.get(keyword)):
            yield f"{path} {keyword}".strip()
    if len(ours.get("x-kubernetes-validations", ())) != len(theirs.get("x-kubernetes-validations", ())):
        yield f"{path} rules"
    for keyword in child_keys:
        if (keyword in ours) != (keyword in theirs):
            yield f"{path} {keyword}".strip()
    for step, our_schema, theirs_part in _steps(ours, theirs):
        location = f"{path}{step}" if step in ("[]", "{}") else f"{path}.{step}".lstrip(".")
        if our_schema is None or theirs_part is None:
            yield location
        else:
            yield from _schema_differences(our_schema, theirs_part, location)


def _steps(ours: Json, theirs: Json) -> Iterator[tuple[str, Json | None, Json | None]]:
    our_schema, theirs_part = ours.get("properties"), theirs.get("properties")
    if our_schema is not None and theirs_part is not None:
        yield from (
            (name, our_schema.get(name), theirs_part.get(name))
            for name in sorted(our_schema.keys() | theirs_part.keys())
        )
    for keyword, step in (("items", "[]"), ("additionalProperties", "{}")):
        below = ours.get(keyword), theirs.get(keyword)
        if isinstance(below[0], dict) and isinstance(below[1], dict):
            yield step, *below


def _plain(value: Any) -> Any:
    return sorted(value, key=str) if isinstance(value, list) else value
