"""Decodes and checks responses of an API server.

Bytes are decoded directly into Structs. If that fails, for example on a null that means "unset", nulls are removed
first, which is slower. Every problem with a response is `errors.Unreachable`, never another exception. An object of a
list or a watch that cannot be decoded becomes an `Unreadable`, so that one object does not stop a cache. An object
needs a name, a uid and a numeric resourceVersion.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache
from types import TracebackType
from typing import Any, Final, TypeVar, cast

import msgspec

from holdfast import errors
from holdfast.api import kinds
from holdfast.api.answers import (
    ListMeta,
    MetadataOnly,
    Page,
    RawPage,
    Status,
    TypeMeta,
    Unreadable,
    Version,
    WatchEvent,
)
from holdfast.api.meta import Object, ObjectMeta
from holdfast.kube import statuses
from holdfast.ports import Change

K = TypeVar("K", bound=Object)
T = TypeVar("T")

LONGEST_LINE: Final = 64 * 1024 * 1024  # far larger than any object: etcd stores a few MiB
_VERSION_DIGITS: Final = 20  # of a 64-bit number
_PROBLEM_MAX: Final = 300  # characters
_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")
_EVENTS: Final = msgspec.json.Decoder(WatchEvent)
_BOOKMARKS: Final = msgspec.json.Decoder(MetadataOnly)
_RAW_PAGES: Final = msgspec.json.Decoder(RawPage)
_STATUS: Final = "Status"

# The exceptions of Python and msgspec for malformed content; msgspec's errors and bad UTF-8 are ValueErrors.
_MALFORMED: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


class _Reading:
    """Maps every exception of _MALFORMED inside the block to Unreachable. Each event of a watch enters one, and a class is
    faster than a generator."""

    __slots__ = ("_about",)

    def __init__(self, about: str) -> None:
        self._about = about

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if isinstance(error, _MALFORMED):
            raise errors.Unreachable(f"malformed response for {self._about}: {_words(error)}") from error


def one(kind: type[K], body: bytes, name: str = "") -> K:
    """The object of a response; it must have that name, if one is given."""
    with _Reading(kind.plural):
        found = _object(kind, body)
        if name and found.metadata.name != name:
            raise ValueError(f"{found.metadata.name!r} returned instead of {name!r}")
        return found


def created(obj: K, body: bytes, *, is_subresource: bool) -> K:
    """The object of a response to a create. For subresources such as evictions the response is only a Status."""
    with _Reading(obj.plural):
        if not is_subresource:
            return one(type(obj), body, obj.metadata.name)
        answer = msgspec.json.decode(body, type=TypeMeta)
        if answer.kind == _STATUS and answer.status != "Success":
            raise ValueError(msgspec.json.decode(body, type=Status).message)
        return obj


def unstored(kind: type[K], body: bytes) -> K:
    """The response to a dry run or a review. It is not stored, so it has no resourceVersion, and a review has no uid."""
    with _Reading(kind.plural):
        return cast("K", kinds.from_plain(msgspec.json.decode(body), kind))


def document(path: str, body: bytes, form: type[T]) -> T:
    """A document that is no object of the API."""
    with _Reading(path):
        return msgspec.json.decode(body, type=form)


def page(kind: type[K], body: bytes) -> Page[K | Unreadable]:
    with _Reading(kind.plural):
        found = _page(kind, body)
        check_version(found.metadata.resource_version)
        return found


def version(body: bytes) -> str:
    """Major and minor version of the API server, such as 1.34."""
    with _Reading("the version"):
        found = msgspec.json.decode(body, type=Version)
        return f"{int(found.major)}.{int(found.minor.rstrip('+'))}"


async def changes(
    kind: type[K], chunks: AsyncGenerator[bytes, None]
) -> AsyncIterator[Change[K | Unreadable]]:
    """The events of a watch. A stream that ends inside a line raises Unreachable; an ERROR event raises its error."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk if rest else chunk).split(b"\n")
        for line in lines:
            if line:
                yield _change(kind, line)
        if len(rest) > LONGEST_LINE:
            raise errors.Unreachable(f"watch of {kind.plural}: a line of more than {LONGEST_LINE:,} bytes")
    if rest.strip():
        raise errors.Unreachable(f"watch of {kind.plural}: the stream ended inside an event")


def _change(kind: type[K], line: bytes) -> Change[K | Unreadable]:
    with _Reading(kind.plural):
        event = _EVENTS.decode(line)
        if event.type == "BOOKMARK":
            at = check_version(_BOOKMARKS.decode(event.object).metadata.resource_version)
            # Only the version of a bookmark is meaningful, and not every kind can be decoded without its other fields.
            return Change("BOOKMARK", cast("K", Object(metadata=ObjectMeta(resource_version=at))))
        if event.type in _CHANGES:
            return Change(event.type, _item(kind, event.object))
        if event.type != "ERROR":
            raise ValueError(f"{event.type!r} is not an event type")
    raise statuses.error_of(500, {}, bytes(event.object), f"watch of {kind.plural}")


def check_version(resource_version: str) -> str:
    """Raises ValueError if it is not a number: caches compare versions."""
    if not (resource_version.isdecimal() and len(resource_version) <= _VERSION_DIGITS):
        raise ValueError(f"resourceVersion {resource_version[:_PROBLEM_MAX]!r} is not a number")
    return resource_version


# --- Objects ----------------------------------------------------------------------------------------


def _object(kind: type[K], body: bytes | msgspec.Raw) -> K:
    try:
        return _identified(cast("K", _decoder(kind).decode(body)))
    except msgspec.ValidationError:
        return _identified(cast("K", kinds.from_plain(msgspec.json.decode(body), kind)))


def _identified(obj: K) -> K:
    meta = obj.metadata
    if not meta.name or not meta.uid:
        raise ValueError(f"{obj.kind} {meta.name!r} has no {'uid' if meta.name else 'name'}")
    check_version(meta.resource_version)
    return obj


def _page(kind: type[K], body: bytes) -> Page[K | Unreadable]:
    with contextlib.suppress(*_MALFORMED):
        found = cast("Page[K]", _page_decoder(kind).decode(body))
        for item in found.items or ():
            _identified(item)
        return cast("Page[K | Unreadable]", found)
    raw = _RAW_PAGES.decode(body)
    items = tuple(_item(kind, item) for item in raw.items or ())
    return Page(metadata=raw.metadata or ListMeta(), items=items)


def _item(kind: type[K], body: msgspec.Raw) -> K | Unreadable:
    try:
        return _object(kind, body)
    except _MALFORMED as error:
        return _as_unreadable(kind, body, _words(error))


def _as_unreadable(kind: type[K], body: msgspec.Raw, problem: str) -> Unreadable:
    """The fields that can be read without decoding the kind."""
    plain = msgspec.json.decode(body)
    meta = _below(plain, "metadata")
    read = {name: _text(meta, name) or "" for name in ("name", "namespace", "uid", "resourceVersion")}
    with contextlib.suppress(ValueError):
        check_version(read["resourceVersion"])
        return _unreadable(kind, plain, problem, read, read["resourceVersion"])
    return _unreadable(kind, plain, problem, read, "")


def _unreadable(kind: type[K], plain: Any, problem: str, read: dict[str, str], at: str) -> Unreadable:
    return _kind_of_unreadable(kind)(
        metadata=ObjectMeta(
            name=read["name"], namespace=read["namespace"], uid=read["uid"], resource_version=at
        ),
        problem=problem,
        node_name=_text(_below(plain, "spec"), "nodeName"),
        provider_id=_text(_below(plain, "spec" if kind.kind == "Node" else "status"), "providerID"),
    )


def _below(plain: Any, key: str) -> Any:
    """A nested object, empty if it is missing; None if it is not an object."""
    return (plain.get(key) or {}) if isinstance(plain, dict) else None


def _text(plain: Any, key: str) -> str | None:
    """A string, empty if it is missing; None if it is not a string."""
    found = plain.get(key, "") if isinstance(plain, dict) else None
    return found if isinstance(found, str) else None


@cache
def _decoder(kind: type[K]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


@cache
def _page_decoder(kind: type[K]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]


@cache
def _kind_of_unreadable(kind: type[Object]) -> type[Unreadable]:
    """A subclass with the apiVersion and kind, which events and messages need."""
    named = {
        "api_version": kind.api_version,
        "kind": kind.kind,
        "plural": kind.plural,
        "namespaced": kind.namespaced,
    }
    subclass = msgspec.defstruct(
        f"Unreadable{kind.kind}", [], bases=(Unreadable,), namespace=named, frozen=True, kw_only=True
    )
    return cast("type[Unreadable]", subclass)


def _words(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:_PROBLEM_MAX]
