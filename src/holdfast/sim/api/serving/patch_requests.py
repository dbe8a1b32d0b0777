"""Converts patch requests to changes of an object.

Called by `verbs` and `subresources`. The four types are JSON, merge, strategic (built-in kinds only) and apply.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.sim.api.schema import json_patches, managed, reading, status, strategic
from holdfast.sim.api.schema.managed import Writer
from holdfast.sim.api.schema.resources import Resource
from holdfast.sim.api.schema.status import Cause, Refused, bad_request
from holdfast.sim.api.serving import bodies
from holdfast.sim.api.serving.bodies import Reader
from holdfast.sim.api.serving.routing import Call
from holdfast.sim.api.storage.registry import owned_by
from holdfast.sim.api.storage.store import encode

Json = dict[str, Any]
Change = Callable[[Json], Json]

JSON: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_AGENT_CHARACTERS: Final = 128


def manager_of(call: Call, operation: str = "Update") -> Writer:
    """The field manager of the request, by default the name of the client program."""
    manager = call.request.query.get("fieldManager", "")
    if len(manager) > _AGENT_CHARACTERS or not manager.isprintable():
        cause = Cause(
            "FieldValueInvalid", "fieldManager", f'"{manager[:50]}": may not be longer than 128 characters'
        )
        raise status.invalid("meta.k8s.io", "PatchOptions", "", [cause])
    if not manager:
        agent = call.request.headers.get("user-agent", "") or "unknown"
        manager = agent.partition("/")[0][:_AGENT_CHARACTERS]
    part = call.subresource if call.subresource in ("status", "scale") else ""
    return Writer(manager, operation, call.resource.api_version, part)


def change_of(call: Call, reader: Reader) -> Change:
    """The change of a patch that is not an apply, to the object in the form of this resource."""
    media, body = reader.media_type, reader.request.body
    if media not in (JSON, MERGE, STRATEGIC) or (media == STRATEGIC and call.resource.custom):
        raise _unsupported(call.resource)
    patch = _decoded(body)
    if media == MERGE:
        _check_object(patch)
    return lambda old: _reread(call, reader, _patched(old, media, patch, call.resource), old)


def _patched(old: Json, media: str, patch: Any, resource: Resource) -> Any:
    if media == JSON:
        return json_patches.json_patch(old, patch)
    if media == MERGE:
        return json_patches.merge(old, patch)
    return strategic.merge(old, patch, resource.shape)


def scale_change(call: Call, reader: Reader) -> Change:
    """The change of a patch to the Scale of an object."""
    if reader.media_type not in (JSON, MERGE, STRATEGIC):
        raise _unsupported(call.resource)
    patch = _decoded(reader.request.body)

    def change(old: Json) -> Json:
        if reader.media_type == JSON:
            changed = json_patches.json_patch(old, patch)
        else:
            _check_object(patch)
            changed = json_patches.merge(old, patch)
        return reader.of_kind(changed, ("autoscaling", "v1", "Scale"))

    return change


def applied(call: Call, reader: Reader) -> Json:
    """The validated configuration of an apply."""
    value = bodies.yaml_value(reader.request.body)
    if not isinstance(value, dict) or not value.get("apiVersion") or not value.get("kind"):
        raise bad_request("invalid object type: an applied object needs apiVersion and kind")
    if not call.request.query.get("fieldManager"):
        cause = Cause("FieldValueRequired", "fieldManager", "is required for apply patch")
        raise status.invalid("meta.k8s.io", "PatchOptions", "", [cause])
    config = reader.of_kind(
        value, (call.resource.group, call.resource.version, call.resource.kind), call.resource
    )
    metadata = config.setdefault("metadata", {})
    if metadata.get("name") not in (None, "", call.name):
        raise bad_request(
            f"the name of the object ({str(metadata['name'])[:100]}) does not match the name on the URL ({call.name})"
        )
    if metadata.get("namespace") not in (None, "", call.namespace):
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["name"] = call.name
    return config


def apply(call: Call, config: Json, writer: Writer, now: str) -> Change:
    """The change of an apply; it creates an object that does not exist."""

    def change(live: Json) -> Json:
        shape, force = call.resource.shape, call.flag("force")
        mine = owned_by(call.resource, call.subresource)
        return managed.apply(live, config, shape, writer, now=now, mine=mine, force=force)

    return change


def _reread(call: Call, reader: Reader, value: Any, old: Json) -> Json:
    """The patched object, validated like a request body."""
    resource = call.resource
    if not isinstance(value, dict):
        raise status.invalid("", "", "", [Cause("FieldValueInvalid", "patch", "the result is not an object")])
    kind = (resource.group, resource.version, resource.kind)
    if (value.get("apiVersion"), value.get("kind")) != (resource.api_version, resource.kind):
        raise bad_request(
            f"the patch makes it something else than a {resource.kind} of {resource.api_version}"
        )
    try:
        stored = old if resource.view is None else None
        if (
            stored
            and not resource.custom
            and (call.subresource == "status" or "status" not in resource.subresources)
        ):
            stored = {**stored, "status": None}  # it may have null, which the server itself writes there
        return reader.patched(value, kind, resource.shape, custom=bool(resource.custom), stored=stored)
    except reading.WrongType as error:
        shown = encode(encode(value).decode()).decode()
        cause = Cause("FieldValueInvalid", "patch", f"{shown}: {error}")
        raise status.invalid("", "", "", [cause]) from error


def _decoded(body: bytes) -> Any:
    try:
        return bodies.json_value(body)
    except Refused as refused:
        raise bad_request(f"error decoding patch: {refused.message.rpartition('error: ')[2]}") from refused


def _check_object(patch: Any) -> None:
    if not isinstance(patch, dict):
        raise bad_request(
            "json: cannot unmarshal a patch that is not an object into Go value of type map[string]interface {}"
        )


def _unsupported(resource: Resource) -> Refused:
    if resource.custom is None:
        return Refused("UnsupportedMediaType", "415: Unsupported Media Type", details={})
    return Refused(
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        f"{JSON}, {MERGE}, {APPLY}",
    )
