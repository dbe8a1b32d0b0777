"""Decodes protobuf request bodies of built-in kinds to JSON values. Responses are always JSON, so nothing is encoded.

Called by `bodies`. Field numbers are the published ones. In these messages an empty string is unset, and a zero time is
no time.
"""

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.sim.api.schema import kubernetes

MAGIC: Final = b"k8s\x00"

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_DEPTH: Final = 60
_MAX_VARINT_BYTES: Final = 10
# Strings that have a meaning when they are empty: no class, instead of the default one.
_MEANT_EMPTY: Final = frozenset({"storageClassName"})

Json = dict[str, Any]


class Malformed(Exception):
    """The bytes are not a valid message."""


class UnknownKind(Exception):
    """No message of that kind is published."""


def decode(data: bytes) -> Json:
    """The object in a protobuf envelope, with its apiVersion and kind."""
    if not data.startswith(MAGIC):
        raise Malformed(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    envelope = dict(_fields(data[len(MAGIC) :]))
    type_meta = dict(_fields(_as_bytes(envelope.get(1, b""))))
    api_version, kind = _as_text(type_meta.get(1, b"")), _as_text(type_meta.get(2, b""))
    group, _, version = api_version.rpartition("/")
    name = kubernetes.schema_names().get((group, version, kind))
    if kind == "DeleteOptions":  # every group has it
        name = f"{_META}DeleteOptions"
    if name is None or name not in kubernetes.published().messages:
        raise UnknownKind(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"apiVersion": api_version, "kind": kind, **_message(_as_bytes(envelope.get(2, b"")), name, 0)}


def _message(data: bytes, name: str, depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise Malformed("nested too deeply")
    known = kubernetes.published().messages[name]
    value: Json = {}
    for number, raw in _fields(data):
        if str(number) not in known:
            continue
        field, type_ = known[str(number)]
        if type_.startswith("[]"):
            items = value.setdefault(field, [])
            items += _packed(raw, type_[2:]) or [_value(raw, type_[2:], depth)]
        elif type_.startswith("{}"):
            entry = dict(_fields(_as_bytes(raw)))
            value.setdefault(field, {})[_as_text(entry.get(1, b""))] = _value(
                entry.get(2, b""), type_[2:], depth
            )
        elif not field:
            value |= _message(_as_bytes(raw), type_, depth + 1)
        else:
            found = _value(raw, type_, depth)
            if found is not None and (found != "" or field in _MEANT_EMPTY):
                value[field] = found
    return value


def _value(raw: bytes | int, type_: str, depth: int) -> Any:
    match type_:
        case "string":
            return _as_text(raw)
        case "bytes":
            return base64.b64encode(_as_bytes(raw)).decode()
        case "bool":
            return bool(_as_number(raw))
        case "int32" | "int64":
            number = _as_number(raw)
            return number - (1 << 64) if number >> 63 else number
        case "uint32" | "uint64":
            return _as_number(raw)
        case "double":
            return struct.unpack("<d", _as_bytes(raw, 8))[0]
        case "float":
            return struct.unpack("<f", _as_bytes(raw, 4))[0]
    return (
        _special(_as_bytes(raw), type_) if type_ in _SPECIAL else _message(_as_bytes(raw), type_, depth + 1)
    )


_SPECIAL: Final = {
    f"{_META}Time": "seconds",
    f"{_META}MicroTime": "microseconds",
    f"{_META}Timestamp": "seconds",
    f"{_META}Duration": "duration",
    f"{_META}FieldsV1": "json",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "json",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "json",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
}


def _special(data: bytes, type_: str) -> Any:
    """Messages that are a single value in JSON."""
    fields = dict(_fields(data))
    match _SPECIAL[type_]:
        case "quantity":
            return _as_text(fields.get(1, b""))
        case "int-or-string":
            return _as_text(fields.get(3, b"")) if fields.get(1) else _signed(fields.get(2, 0))
        case "duration":
            return f"{_signed(fields.get(1, 0)) / 1e9:g}s"
        case "json":
            return _json(_as_bytes(fields.get(1, b"")))
        case precision:
            return _time(fields, precision)


def _time(fields: dict[int, bytes | int], precision: str) -> str | None:
    if not fields:
        return None
    try:
        moment = datetime.fromtimestamp(_signed(fields.get(1, 0)), tz=UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise Malformed("a time out of range") from error
    if moment.year == 1:  # Go's zero time
        return None
    micros = _signed(fields.get(2, 0)) // 1000 % 1_000_000
    return moment.replace(tzinfo=None, microsecond=micros).isoformat(timespec=precision) + "Z"


def _json(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data or b"null")
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"JSON inside: {error}") from error


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Field numbers and raw values, in order."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise Malformed(f"proto: illegal wireType {wire}")
        if at + size > len(data):
            raise Malformed("unexpected EOF")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if at >= len(data):
            raise Malformed("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return value & ((1 << 64) - 1), at
    raise Malformed("proto: integer overflow")


def _packed(raw: bytes | int, type_: str) -> list[Any]:
    """Packed numbers of one field."""
    if type_ not in ("int32", "int64", "uint32", "uint64") or isinstance(raw, int):
        return []
    values, at = [], 0
    while at < len(raw):
        number, at = _varint(raw, at)
        values.append(_signed(number))
    return values


def _signed(raw: bytes | int) -> int:
    number = _as_number(raw)
    return number - (1 << 64) if number >> 63 else number


def _as_number(raw: bytes | int) -> int:
    if not isinstance(raw, int):
        raise Malformed("a number was expected")
    return raw


def _as_bytes(raw: bytes | int, size: int | None = None) -> bytes:
    if isinstance(raw, int) or (size is not None and len(raw) != size):
        raise Malformed("bytes were expected")
    return raw


def _as_text(raw: bytes | int) -> str:
    try:
        return _as_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise Malformed("a text is not UTF-8") from error
