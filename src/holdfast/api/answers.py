"""Responses of an API server that are not objects: statuses, pages of a list, events of a watch.

An event of a watch is decoded in two steps: its object is decoded as its kind once the event type is known.
"""

from typing import Generic, TypeVar

import msgspec

from holdfast.api.meta import Object, Wire

K = TypeVar("K", bound=Object)


class StatusDetails(Wire, frozen=True):
    retry_after_seconds: int | None = None


class Status(Wire, frozen=True, kw_only=True):
    """Why a request failed. `code` repeats the HTTP status; an ERROR event of a watch has only this one."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class TypeMeta(Wire, frozen=True):
    """Any response; only its type is decoded."""

    kind: str = ""
    status: str = ""


class Version(Wire, frozen=True):
    """The response of `/version`. The minor version may have a suffix, such as the plus of EKS."""

    major: str = ""
    minor: str = ""


class ListMeta(Wire, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(Wire, Generic[K], frozen=True, kw_only=True):
    """A part of a list. A server writes null for no items."""

    metadata: ListMeta = ListMeta()
    items: tuple[K, ...] | None = None


class RawPage(Wire, frozen=True, kw_only=True):
    """A page whose items are decoded one by one."""

    metadata: ListMeta | None = None
    items: tuple[msgspec.Raw, ...] | None = None


class Unreadable(Object, frozen=True, kw_only=True):
    """Replaces an object that cannot be decoded as its kind: its identity, as far as it can be decoded, and the reason.

    An empty name or resource version could not be read. The kind of an instance has the names of the object's own kind.
    """

    problem: str
    node_name: str | None = None  # of a Pod, empty while it is not bound; None: cannot be read
    provider_id: str | None = None  # of a Node or a NodeClaim, empty while it has none; None: cannot be read


class WatchEvent(Wire, frozen=True):
    type: str
    object: msgspec.Raw


class BookmarkMeta(Wire, frozen=True):
    resource_version: str


class MetadataOnly(Wire, frozen=True):
    """Any object; only its metadata is decoded. A bookmark has nothing else."""

    metadata: BookmarkMeta
