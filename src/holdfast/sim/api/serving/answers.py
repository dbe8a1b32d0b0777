"""Writes objects and lists in the form that the client accepts.

Called by the verbs and `watching`. The forms are the object itself, a Table, or the metadata alone. The response is
JSON in every case; a client that accepts neither JSON nor `*/*` gets a 406.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec

from holdfast.sim.api.schema import tables
from holdfast.sim.api.schema.resources import Resource
from holdfast.sim.api.schema.status import Refused
from holdfast.sim.api.serving.front import Request, Response
from holdfast.sim.api.serving.routing import Call
from holdfast.sim.api.storage.store import Stored, decode, encode

Json = dict[str, Any]
Form = Literal["object", "table", "metadata"]

_JSON: Final = {"content-type": "application/json"}
_FITS: Final = frozenset({"application/json", "application/*", "*/*"})
_FORMS: Final[dict[str, Form]] = {
    "": "object",
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


class _OnlyMetadata(msgspec.Struct):
    metadata: msgspec.Raw


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _List(msgspec.Struct):
    metadata: _ListMeta = _ListMeta()


_metadata_of: Final = msgspec.json.Decoder(_OnlyMetadata).decode


def form_of(request: Request) -> Form:
    """The first accepted form that is supported; raises Refused if there is none."""
    form = _accepted(request.headers.get("accept", "") or "*/*")
    if form is None:
        raise Refused(
            "NotAcceptable",
            "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch",
            details={},
        )
    return form


@lru_cache(maxsize=256)
def _accepted(accept: str) -> Form | None:
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in _FITS and values.get("as", "") in _FORMS and values.get("v", "v1") == "v1":
            return _FORMS[values.get("as", "")]
    return None


def plain(value: Json, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    return raw(encode(value), code, warnings)


def raw(body: bytes, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    if not warnings:
        return Response(code, _JSON, body)
    quoted = (warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for warning in warnings)
    texts = ", ".join(f'299 - "{text}"' for text in quoted)
    return Response(code, {**_JSON, "warning": texts.encode("ascii", "replace").decode()}, body)


def one(call: Call, stored: Stored, code: int = 200, warnings: Sequence[str] = ()) -> Response:
    """One object in the accepted form."""
    form = form_of(call.request)
    if form == "table":
        return plain(row(call, stored), code, warnings)
    return raw(as_bytes(call.resource, stored, form), code, warnings)


def many(call: Call, found: Sequence[Stored], meta: Json) -> Response:
    """A list in the accepted form."""
    form, resource = form_of(call.request), call.resource
    if form == "table":
        values = [_shown(resource, stored) for stored in found]
        return plain(tables.table(resource, values, _included(call.request), meta, call.now_s))
    kind, version = resource.list_kind, resource.api_version
    if form == "metadata":
        kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    return raw(_list_bytes(kind, version, meta, (as_bytes(resource, stored, form) for stored in found)))


def as_bytes(resource: Resource, stored: Stored, form: Form) -> bytes:
    """An object, or its metadata alone."""
    if form == "metadata":
        head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
        return head + bytes(_metadata_of(stored.body).metadata) + b"}"
    return resource.show(stored.body, decode, encode)


def list_version(body: bytes) -> str:
    """The resourceVersion of a list response."""
    return msgspec.json.decode(body, type=_List).metadata.resource_version


def row(call: Call, stored: Stored) -> Json:
    """One object as a Table."""
    meta = {"resourceVersion": str(stored.version)}
    shown = [_shown(call.resource, stored)]
    return tables.table(call.resource, shown, _included(call.request), meta, call.now_s)


def _shown(resource: Resource, stored: Stored) -> Json:
    return resource.view.show(stored.value()) if resource.view else stored.value()


def _included(request: Request) -> str:
    return request.query.get("includeObject", "Metadata")


def _list_bytes(kind: str, version: str, meta: Json, items: Iterable[bytes]) -> bytes:
    head = encode({"kind": kind, "apiVersion": version, "metadata": meta})
    return head[:-1] + b',"items":[' + b",".join(items) + b"]}"
