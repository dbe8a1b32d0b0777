"""Lists objects at a version, in pages.

Called by `verbs`. All pages of a list have one version; a continue token that is too old gets a 410.
"""

import base64
import binascii
import bisect
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from holdfast.sim.api.schema import status
from holdfast.sim.api.schema.status import Cause, Refused
from holdfast.sim.api.serving import answers
from holdfast.sim.api.serving.front import Response
from holdfast.sim.api.serving.routing import Call
from holdfast.sim.api.storage import selectors
from holdfast.sim.api.storage.registry import Registry
from holdfast.sim.api.storage.selectors import Selector
from holdfast.sim.api.storage.store import Key, Stored, TooOld

_TOO_OLD_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter."
)


class _Mark(msgspec.Struct):
    """The start of the next page: after this key, at this version."""

    version: int
    namespace: str
    name: str


def answer(call: Call, registry: Registry) -> Response:
    """One page of a list."""
    selector = selector_of(call, registry)
    limit = call.number("limit") or 0
    version, after = _where(call, registry)
    found = _objects(call, registry, version, selector)
    if after:
        found = found[bisect.bisect_right(found, after, key=attrgetter("key")) :]
    if selector.tests:
        found = [s for s in found if selector.matches(s)]
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if 0 < limit < len(found):
        page = found[:limit]
        mark = _Mark(version, *page[-1].key)
        meta["continue"] = base64.urlsafe_b64encode(msgspec.json.encode(mark)).decode().rstrip("=")
        if not selector.tests:
            meta["remainingItemCount"] = len(found) - limit
        found = page
    return answers.many(call, found, meta)


def selector_of(call: Call, registry: Registry) -> Selector:
    query, view = call.request.query, call.resource.view
    return selectors.parse(
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        registry.selectable(call.resource.bucket),
        view.field if view else str,
    )


def version_of(call: Call) -> int | None:
    """The requested resourceVersion; None if the request has none."""
    text = call.request.query.get("resourceVersion", "")
    if not text:
        return None
    if not text.isdecimal() or not text.isascii() or len(text) > 18:  # noqa: PLR2004 - 64 bits
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text[:100]}": strconv.ParseUint: parsing'
            f' "{text[:100]}": invalid syntax'
        )
    return int(text)


def _where(call: Call, registry: Registry) -> tuple[int, Key | None]:
    """The version of the list, and the key after which it continues."""
    now, query = registry.store.version, call.request.query
    wanted, match = version_of(call), query.get("resourceVersionMatch", "")
    if query.get("continue"):
        mark = _mark(query["continue"])
        return min(mark.version, now), (mark.namespace, mark.name)
    if match and wanted is None:
        raise _bad_options(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    if match not in ("", "Exact", "NotOlderThan"):
        raise _bad_options("resourceVersionMatch", "supported values: Exact, NotOlderThan")
    if wanted and wanted > now:
        raise Refused(
            "Timeout",
            f"Timeout: Too large resource version: {wanted}, current: {now}",
            details={
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        )
    return (wanted if wanted and match == "Exact" else now), None


def _objects(call: Call, registry: Registry, version: int, selector: Selector) -> Sequence[Stored]:
    """The objects that the selector may match, sorted by key."""
    bucket = registry.store.bucket(call.resource.bucket)
    if version == registry.store.version:
        if selector.name and call.namespace:
            stored = bucket.objects.get((call.namespace, selector.name))
            return [stored] if stored else []
        if selector.node:
            return bucket.on_node(selector.node, call.namespace)
        return bucket.sorted(call.namespace)
    try:
        return bucket.at(version, call.namespace)
    except TooOld as error:
        paged = "continue" in call.request.query
        raise status.expired(_TOO_OLD_PAGE if paged else f"too old resource version: {version}") from error


def _mark(text: str) -> _Mark:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text.encode() + b"=="), type=_Mark)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise status.bad_request(
            "invalid continue token: continue key is not valid: it was not given by this server"
        ) from error


def _bad_options(field: str, why: str) -> Refused:
    return status.invalid("meta.k8s.io", "ListOptions", "", [Cause("FieldValueForbidden", field, why)])
