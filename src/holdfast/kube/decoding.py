"""Answers of an API server as wire types.

Callers: `client`. The fast way decodes bytes straight into Structs. A server that writes null where it means "unset"
is read again the slow way, and an object that is no such kind even so is an error that names the field: to skip it
would be to plan as if it were not there.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast import errors
from holdfast.api import kinds
from holdfast.api.answers import ListMeta, MetadataOnly, Page, TypeMeta, WatchEvent
from holdfast.api.meta import Object, ObjectMeta
from holdfast.kube import statuses
from holdfast.ports import Change

K = TypeVar("K", bound=Object)

LONGEST_LINE: Final = 64 * 1024 * 1024  # no object is that large: etcd stores a few MiB
_EVENTS: Final = msgspec.json.Decoder(WatchEvent)
_BOOKMARKS: Final = msgspec.json.Decoder(MetadataOnly)


def is_status(body: bytes) -> bool:
    return msgspec.json.decode(body, type=TypeMeta).kind == "Status"


def one(kind: type[K], body: bytes | msgspec.Raw) -> K:
    try:
        return cast("K", _decoder(kind).decode(body))
    except msgspec.ValidationError:
        return _slowly(kind, _plain(kind, body))
    except msgspec.DecodeError as error:
        raise _half(kind, error) from error


def page(kind: type[K], body: bytes) -> Page[K]:
    try:
        return cast("Page[K]", _page_decoder(kind).decode(body))
    except msgspec.ValidationError:
        plain = _plain(kind, body)
        meta = msgspec.convert(plain.get("metadata") or {}, ListMeta)
        return Page(metadata=meta, items=tuple(_slowly(kind, item) for item in plain.get("items") or ()))
    except msgspec.DecodeError as error:
        raise _half(kind, error) from error


async def changes(kind: type[K], chunks: AsyncGenerator[bytes, None]) -> AsyncIterator[Change[K]]:
    """The events of a watch. A stream that ends in the middle of a line is Unreachable; an ERROR is its error."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk if rest else chunk).split(b"\n")
        for line in lines:
            if line:
                yield _change(kind, line)
        if len(rest) > LONGEST_LINE:
            raise errors.Unreachable(f"watch of {kind.plural}: a line of more than {LONGEST_LINE:,} bytes")
    if rest.strip():
        raise errors.Unreachable(f"watch of {kind.plural}: it ended in the middle of an event")


def _change(kind: type[K], line: bytes) -> Change[K]:
    try:
        event = _EVENTS.decode(line)
        if event.type == "BOOKMARK":
            version = _BOOKMARKS.decode(event.object).metadata.resource_version
            # Of a bookmark only the version means anything, and not every kind can be made of nothing.
            return Change("BOOKMARK", cast("K", Object(metadata=ObjectMeta(resource_version=version))))
    except msgspec.DecodeError as error:
        raise _half(kind, error) from error
    if event.type == "ERROR":
        raise statuses.error_of(500, {}, bytes(event.object), f"watch of {kind.plural}")
    return Change(event.type, one(kind, event.object))


@cache
def _decoder(kind: type[K]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _page_decoder(kind: type[K]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]


def _plain(kind: type[Object], body: bytes | msgspec.Raw) -> dict[str, Any]:
    try:
        plain = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise _half(kind, error) from error
    if not isinstance(plain, dict):
        raise errors.InvalidInput(
            f"the server answered {type(plain).__name__} where {kind.plural} were asked for"
        )
    return plain


def _slowly(kind: type[K], plain: Any) -> K:
    try:
        return cast("K", kinds.from_plain(plain, kind))
    except msgspec.ValidationError as error:
        name = msgspec.json.encode(plain.get("metadata", {}).get("name") if isinstance(plain, dict) else None)
        raise errors.InvalidInput(f"{kind.kind} {name.decode()} cannot be read: {error}") from error


def _half(kind: type[Object], error: msgspec.DecodeError) -> errors.Unreachable:
    return errors.Unreachable(f"half an answer about {kind.plural}: {error}")
