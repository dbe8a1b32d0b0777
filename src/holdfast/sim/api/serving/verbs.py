"""The verbs on objects: get, list, watch, create, update, patch, delete, deletecollection.

Called by `server` with a parsed call. `subresources` has the subresources that are not a part of their object.
"""

from collections.abc import Callable
from typing import Any, Final

from holdfast.ports import Clock
from holdfast.sim.api.schema import reading, shapes, status
from holdfast.sim.api.schema.resources import Resource
from holdfast.sim.api.schema.status import Cause, bad_request
from holdfast.sim.api.serving import answers, listing, patch_requests, watching
from holdfast.sim.api.serving.bodies import Reader
from holdfast.sim.api.serving.front import Request, Response
from holdfast.sim.api.serving.routing import Call
from holdfast.sim.api.storage.deletion import Options
from holdfast.sim.api.storage.registry import Registry, Write

Json = dict[str, Any]

# Built-in kinds that may be updated without a resourceVersion.
_CONDITIONAL: Final = frozenset(
    {
        "coordination.k8s.io/leases",
        "policy/poddisruptionbudgets",
        "storage.k8s.io/csinodes",
        "apiextensions.k8s.io/customresourcedefinitions",
        "resource.k8s.io/resourceslices",
    }
)
_SHOWS_DELETED: Final = frozenset(
    {"/pods", "/services", "/serviceaccounts", "/persistentvolumeclaims", "/persistentvolumes"}
)
_POLICIES: Final = ("Foreground", "Background", "Orphan")


class Verbs:
    """The verbs."""

    def __init__(self, *, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock

    def answer(self, call: Call) -> Response:
        match call.verb:
            case "get":
                answers.form_of(call.request)
                return answers.one(call, self._registry.get(call.resource, call.key))
            case "list":
                return listing.answer(call, self._registry)
            case "watch":
                return watching.answer(call, self._registry, self._clock)
            case "create":
                return self._create(call)
            case "update":
                return self._update(call)
            case "patch":
                return self._patch(call)
            case "delete":
                return self._delete(call)
        return self._delete_collection(call)

    def write(self, call: Call, operation: str = "Update") -> Write:
        """The write of this call, to the stored resource."""
        return Write(self._stored_as(call.resource), patch_requests.manager_of(call, operation), call.dry_run)

    def _stored_as(self, resource: Resource) -> Resource:
        return self._registry.resources.of_bucket(resource.bucket) if resource.view else resource

    def _create(self, call: Call) -> Response:
        answers.form_of(call.request)
        reader = Reader(call.request)
        value = reader.object(call.resource)
        given = (value.get("metadata") or {}).get("namespace")
        if call.resource.namespaced and given and given != call.namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        (value.get("metadata") or {}).pop("managedFields", None)
        stored = self._registry.create(self.write(call), _as_stored(call, value), call.namespace)
        return answers.one(call, stored, 201, reader.warnings)

    def _update(self, call: Call) -> Response:
        answers.form_of(call.request)
        reader = Reader(call.request)
        value = _as_stored(call, reader.object(call.resource))
        if not value.get("metadata", {}).get("name"):
            cause = Cause("FieldValueRequired", "metadata.name", "name is required")
            raise status.invalid(call.resource.group, call.resource.kind, call.name, [cause])
        versioned = bool(call.resource.custom) or call.resource.bucket in _CONDITIONAL
        stored = self._registry.update(
            self.write(call), call.key, lambda _old: value, must_have_version=versioned
        )
        return answers.one(call, stored, 200, reader.warnings)

    def _patch(self, call: Call) -> Response:
        answers.form_of(call.request)
        reader = Reader(call.request)
        if reader.media_type == patch_requests.APPLY:
            return self._apply(call, reader)
        change = self._on_stored(call.resource, patch_requests.change_of(call, reader))
        stored = self._registry.update(self.write(call), call.key, change)
        return answers.one(call, stored, 200, reader.warnings)

    def _apply(self, call: Call, reader: Reader) -> Response:
        config = patch_requests.applied(call, reader)
        write = self.write(call, "Apply")
        change = self._on_stored(
            call.resource, patch_requests.apply(call, config, write.writer, self._registry.time())
        )
        if self._registry.store.get(call.resource.bucket, call.key) is None:
            if call.subresource or (
                config["metadata"].get("resourceVersion") or config["metadata"].get("uid")
            ):
                raise status.not_found(call.resource.group, call.resource.plural, call.name)
            stored = self._registry.create(write, change({}), call.namespace)
            return answers.one(call, stored, 201, reader.warnings)
        stored = self._registry.update(write, call.key, change)
        return answers.one(call, stored, 200, reader.warnings)

    @staticmethod
    def _on_stored(resource: Resource, change: Callable[[Json], Json]) -> Callable[[Json], Json]:
        view = resource.view
        if view is None:
            return change
        return lambda old: view.keep(change(view.show(old)))

    def _delete(self, call: Call) -> Response:
        options = delete_options(call.request, call.dry_run)
        stored = self._registry.get(call.resource, call.key)
        last, gone = self._registry.deletion.delete(call.resource.bucket, stored, options)
        if gone and call.resource.bucket not in _SHOWS_DELETED:
            details = {"name": stored.name, "group": call.resource.group, "kind": call.resource.plural}
            details["uid"] = stored.uid
            return answers.plain(status.success({key: value for key, value in details.items() if value}))
        return answers.one(call, last)

    def _delete_collection(self, call: Call) -> Response:
        options = delete_options(call.request, call.dry_run)
        selector = listing.selector_of(call, self._registry)
        bucket = self._registry.store.bucket(call.resource.bucket)
        found = [stored for stored in bucket.sorted(call.namespace) if selector.matches(stored)]
        for stored in found:
            current = bucket.objects.get(stored.key)
            if current:
                self._registry.deletion.delete(call.resource.bucket, current, options)
        return answers.many(call, found, {"resourceVersion": str(self._registry.store.version)})


def delete_options(request: Request, dry_run: bool = False) -> Options:  # noqa: FBT001, FBT002 - as the query has it
    """The DeleteOptions of the body and the query; raises Refused."""
    reader = Reader(request)
    value = reader.plain() if request.body else {}
    return options_of(value, request, dry_run=dry_run)


def options_of(value: Any, request: Request, *, dry_run: bool) -> Options:
    """DeleteOptions from a decoded value."""
    if not isinstance(value, dict):
        raise bad_request("couldn't get version/kind; json parse error: DeleteOptions are an object")
    shape = shapes.named("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    try:
        given: Json = reading.built_in(value, shape, [])
    except reading.WrongType as error:
        raise bad_request(f"DeleteOptions cannot be handled: {error}") from error
    if given.get("kind", "DeleteOptions") != "DeleteOptions":
        raise bad_request(f"{str(given['kind'])[:100]} cannot be handled as DeleteOptions")
    policy = given.get("propagationPolicy") or request.query.get("propagationPolicy", "")
    if "orphanDependents" in given and not policy:
        policy = "Orphan" if given["orphanDependents"] else "Background"
    if policy and policy not in _POLICIES:
        supported = ", ".join(f'"{name}"' for name in (*_POLICIES, "nil"))
        cause = Cause(
            "FieldValueNotSupported", "propagationPolicy", f'"{policy[:100]}": supported values: {supported}'
        )
        raise status.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    grace = given.get("gracePeriodSeconds")
    if grace is None and request.query.get("gracePeriodSeconds", "").isdecimal():
        grace = int(request.query["gracePeriodSeconds"][:9])
    preconditions = given.get("preconditions") or {}
    return Options(
        grace_s=grace,
        uid=preconditions.get("uid", ""),
        resource_version=preconditions.get("resourceVersion", ""),
        policy=policy,
        dry_run=dry_run or "All" in (given.get("dryRun") or ()),
    )


def _as_stored(call: Call, value: Json) -> Json:
    return call.resource.view.keep(value) if call.resource.view else value
