"""All writes: each is validated, defaulted, checked for field ownership, versioned and stored, or rejected as a whole.

`change` functions get the current object and return the new one. They must not modify the current one; the new one may
share parts with it, and parts that are the same object are not validated and compared again. Values that a client may
not set (uid, times, generation) are corrected afterwards. A write that changes nothing keeps the version.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from holdfast.ports import Clock, Ids
from holdfast.sim.api.schema import defaults, managed, status
from holdfast.sim.api.schema.fieldsets import Path
from holdfast.sim.api.schema.managed import Writer
from holdfast.sim.api.schema.resources import Resource, Resources
from holdfast.sim.api.schema.status import Cause
from holdfast.sim.api.storage import admission, definitions, rules, selectors
from holdfast.sim.api.storage.deletion import DEFINITIONS, NAMESPACES, Deletion
from holdfast.sim.api.storage.store import Key, Store, Stored

Json = dict[str, Any]
Change = Callable[[Json], Json]

# Built-in kinds with a generation that counts changes of the spec.
_COUNTED: Final = frozenset(
    {
        "/pods",
        "/replicationcontrollers",
        "apps/daemonsets",
        "apps/deployments",
        "apps/replicasets",
        "apps/statefulsets",
        "autoscaling/horizontalpodautoscalers",
        "batch/cronjobs",
        "batch/jobs",
        "networking.k8s.io/ingresses",
        "networking.k8s.io/networkpolicies",
        "policy/poddisruptionbudgets",
        "resource.k8s.io/resourceslices",
        "scheduling.k8s.io/priorityclasses",
        DEFINITIONS,
    }
)
# Kinds that are created with their status: a kubelet sends that of its Node, `definitions` sets that of a CRD.
_KEEP_STATUS: Final = frozenset({"/nodes", DEFINITIONS})
_SET_BY_SERVER: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_KEPT: Final = frozenset({*_SET_BY_SERVER, "generation"})
# The fields of metadata that are validated and that a client may change.
_CHECKED: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_EVENTS: Final = "/events"
_EVENTS_LAST_S: Final = 3600
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_MAX_GENERATED: Final = 63
_ATTEMPTS: Final = 8


class Write(NamedTuple):
    """One write: the resource and its part, the field manager, and dryRun."""

    resource: Resource
    writer: Writer
    dry_run: bool = False

    @property
    def bucket(self) -> str:
        return self.resource.bucket

    @property
    def subresource(self) -> str:
        return self.writer.subresource


class Registry:
    """The store with validation, defaults and field management."""

    def __init__(self, *, clock: Clock, ids: Ids, window: int, history_s: float) -> None:
        self._clock = clock
        self._ids = ids
        self.resources = Resources()
        self.store = Store(self._fields, window=window, history_s=history_s, monotonic_s=clock.monotonic_s)
        self._event_ends_s: dict[Key, int] = {}  # the next one first
        self.deletion = Deletion(store=self.store, resources=self.resources, now=self.time)
        for bucket, value in admission.beginnings():
            resource = self.resources.of_bucket(bucket)
            self.create(Write(resource, Writer("kube-apiserver", "Update", resource.api_version)), value, "")

    def time(self, from_now_s: int = 0) -> str:
        return _time_text(self._clock.now_s() + from_now_s)

    def expire(self) -> None:
        """Deletes Events that were not written for an hour, like the `--event-ttl` of kube-apiserver."""
        now_s = self._clock.now_s()
        while self._event_ends_s:
            key, ends_s = next(iter(self._event_ends_s.items()))
            if ends_s > now_s:
                return
            del self._event_ends_s[key]
            if self.store.get(_EVENTS, key) is not None:
                self.store.remove(_EVENTS, key)

    def _put(self, bucket: str, value: Json) -> Stored:
        stored = self.store.put(bucket, value)
        if bucket == _EVENTS:
            self._event_ends_s.pop(stored.key, None)
            self._event_ends_s[stored.key] = self._clock.now_s() + _EVENTS_LAST_S
        return stored

    def get(self, resource: Resource, key: Key) -> Stored:
        stored = self.store.get(resource.bucket, key)
        if stored is None:
            raise status.not_found(resource.group, resource.plural, key[1])
        return stored

    def create(self, write: Write, value: Json, namespace: str) -> Stored:
        """Creates an object; raises Refused."""
        self._check_namespace(write.resource, namespace)
        metadata = value.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        self._begin(write, metadata, namespace)
        if "status" in write.resource.subresources and write.bucket not in _KEEP_STATUS:
            value.pop("status", None)
            if write.resource.custom is None:
                value["status"] = {}
        self._complete(write, value, None)
        if metadata.get("managedFields") is None:
            shape, mine = write.resource.shape, owned_by(write.resource)
            metadata["managedFields"] = managed.after_create(value, shape, write.writer, self.time(), mine)
        if not metadata["managedFields"]:
            del metadata["managedFields"]
        if write.resource.custom is None:
            admission.admit(write.bucket, value, self.store)
        self._validate(write, value, None)
        key = (metadata.get("namespace", ""), metadata["name"])
        if self.store.get(write.bucket, key):
            raise status.already_exists(write.resource.group, write.resource.plural, key[1])
        if write.dry_run:
            return self.store.shown(write.bucket, value, 0)
        stored = self._put(write.bucket, value)
        if write.bucket == DEFINITIONS:
            definitions.serve(value, self.resources)
        self.deletion.adopt(write.bucket, stored)
        return stored

    def update(self, write: Write, key: Key, change: Change, *, must_have_version: bool = False) -> Stored:
        """Changes an object; raises Refused."""
        stored = self.get(write.resource, key)
        old = stored.value()
        new = change(old)
        self._check_identity(write, new, stored, must_have_version=must_have_version)
        new = self._keep_the_rest(write, new, old)
        self._complete(write, new, old)
        if write.bucket == "/pods" and new["spec"] is not old["spec"]:
            admission.tolerate(new)
        self._validate(write, new, old)
        if write.writer.operation == "Update":
            shape = write.resource.shape
            fields = managed.after_update(old, new, shape, write.writer, self.time())
            new["metadata"]["managedFields"] = fields
        if not new["metadata"].get("managedFields"):
            new["metadata"].pop("managedFields", None)
        if _same(old, new):
            return stored
        if write.dry_run:
            return self.store.shown(write.bucket, new, stored.version)
        removed = self.deletion.finish(write.bucket, new)
        if removed:
            return removed
        updated = self._put(write.bucket, new)
        if write.bucket == DEFINITIONS:
            definitions.serve(new, self.resources)
        return updated

    def _fields(self, bucket: str, value: Json) -> dict[str, str]:
        return selectors.field_values(value, self.selectable(bucket))

    def selectable(self, bucket: str) -> tuple[str, ...]:
        known = selectors.selectable(bucket)
        if known or "." not in bucket:
            return known
        return self.resources.fields_of(bucket)

    def _check_namespace(self, resource: Resource, namespace: str) -> None:
        if not resource.namespaced:
            return
        space = self.store.get(NAMESPACES, ("", namespace))
        if space is None:
            raise status.not_found("", "namespaces", namespace)
        if space.fields["status.phase"] == "Terminating":
            raise status.forbidden(
                resource.group,
                resource.plural,
                "",
                f"unable to create new content in namespace {namespace} because it is being terminated",
                [
                    Cause(
                        "NamespaceTerminating",
                        "metadata.namespace",
                        f"namespace {namespace} is being terminated",
                    )
                ],
            )

    def _begin(self, write: Write, metadata: Json, namespace: str) -> None:
        """Sets the metadata of a new object."""
        for name in (
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "namespace",
            "resourceVersion",
        ):
            metadata.pop(name, None)
        if namespace:
            metadata["namespace"] = namespace
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generated(write.bucket, metadata["generateName"], namespace)
        metadata["uid"] = self._uid()
        metadata["creationTimestamp"] = self.time()
        metadata.pop("generation", None)
        if write.resource.custom or write.bucket in _COUNTED:
            metadata["generation"] = 1

    def _generated(self, bucket: str, prefix: str, namespace: str) -> str:
        name = prefix
        for _ in range(_ATTEMPTS):
            digest = hashlib.blake2b(self._ids.token().encode(), digest_size=_SUFFIX_LENGTH).digest()
            suffix = "".join(_SUFFIX_LETTERS[byte % len(_SUFFIX_LETTERS)] for byte in digest)
            name = f"{prefix[: _MAX_GENERATED - _SUFFIX_LENGTH]}{suffix}"
            if self.store.get(bucket, (namespace, name)) is None:
                break
        return name

    def _uid(self) -> str:
        digest = hashlib.blake2b(self._ids.token().encode(), digest_size=16).digest()
        return str(uuid.UUID(bytes=digest, version=4))

    def _complete(self, write: Write, value: Json, old: Json | None) -> None:
        custom = write.resource.custom
        if custom:
            filled = custom.completed(value, old)
            value.clear()
            value.update(filled)
        else:
            defaults.fill(write.bucket, value)

    def _validate(self, write: Write, value: Json, old: Json | None) -> None:
        causes = list(self._causes(write, value, old))
        if causes:
            metadata = value["metadata"]
            name = metadata.get("name") or metadata.get("generateName", "")
            raise status.invalid(write.resource.group, write.resource.kind, name, causes)
        if write.bucket == DEFINITIONS:
            definitions.complete(value, self.time())

    def _causes(self, write: Write, value: Json, old: Json | None) -> Iterator[Cause]:
        if old is None or not _shares(value["metadata"], old["metadata"], _CHECKED):
            yield from rules.of_metadata(write.bucket, value["metadata"])
        if old is not None:
            yield from _new_finalizers(value["metadata"], old["metadata"])
        if write.resource.custom:
            yield from write.resource.custom.causes(value, old)
            return
        if old is not None and write.subresource and value.get("spec") is old.get("spec"):
            return
        missing = list(rules.of_create(write.bucket, value))
        yield from missing
        if old is not None and not write.subresource:
            yield from rules.of_update(write.bucket, value, old)
        if write.bucket == DEFINITIONS and not missing:
            yield from definitions.causes(value)

    def _check_identity(self, write: Write, new: Json, stored: Stored, *, must_have_version: bool) -> None:
        resource, metadata = write.resource, new.setdefault("metadata", {})
        name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
        if name and name != stored.name:
            raise status.bad_request(
                f"the name of the object ({name[:100]}) does not match the name on the URL ({stored.name})"
            )
        if namespace and namespace != stored.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        version = metadata.get("resourceVersion", "")
        if not version and must_have_version:
            cause = Cause(
                "FieldValueInvalid", "metadata.resourceVersion", "0: must be specified for an update"
            )
            raise status.invalid(resource.group, resource.plural, stored.name, [cause])
        if metadata.get("uid") and metadata["uid"] != stored.uid:
            raise status.conflict(
                resource.group,
                resource.plural,
                stored.name,
                f"Precondition failed: UID in precondition: {metadata['uid'][:100]}, UID in object meta: {stored.uid}",
            )
        if version and version != str(stored.version):
            raise status.modified(resource.group, resource.plural, stored.name)

    @staticmethod
    def _keep_the_rest(write: Write, new: Json, old: Json) -> Json:
        """The new object, with the old values of fields that this request may not change."""
        resource, before = write.resource, old["metadata"]
        metadata = {name: child for name, child in new["metadata"].items() if name not in _KEPT}
        if write.subresource == "status":
            new = {**old, "status": new.get("status")} if "status" in new else _without_status(old)
            if resource.custom:
                metadata = {
                    **before,
                    "managedFields": metadata.get("managedFields", before.get("managedFields")),
                }
                metadata = {name: child for name, child in metadata.items() if child is not None}
        elif "status" in resource.subresources:
            new = {**_without_status(new), **({"status": old["status"]} if "status" in old else {})}
        metadata |= {name: before[name] for name in _SET_BY_SERVER if name in before}
        if "generation" in before:
            changed = write.subresource != "binding" and _counted(new, resource) != _counted(old, resource)
            metadata["generation"] = before["generation"] + (1 if changed else 0)
        metadata["resourceVersion"] = before["resourceVersion"]
        return {**new, "apiVersion": old["apiVersion"], "kind": old["kind"], "metadata": metadata}


@lru_cache(maxsize=128)
def _time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def owned_by(resource: Resource, subresource: str = "") -> Callable[[Path], bool]:
    """Tests whether a request may own a field: the status subresource owns status, the main resource everything
    else."""
    if subresource == "status":
        return lambda path: path[0] == "f:status"
    if "status" in resource.subresources:
        return lambda path: path[0] != "f:status"
    return lambda _path: True


def _without_status(value: Json) -> Json:
    return {name: child for name, child in value.items() if name != "status"}


def _shares(value: Json, old: Json, names: tuple[str, ...]) -> bool:
    """Whether these fields are the same objects as before."""
    return all(value.get(name) is old.get(name) for name in names)


def _counted(value: Json, resource: Resource) -> Any:
    """The part of an object whose changes increment the generation."""
    if resource.custom is None:
        return value.get("spec")
    skipped = {"metadata", "status"} if resource.custom.has_status else {"metadata"}
    return {name: child for name, child in value.items() if name not in skipped}


def _same(old: Json, new: Json) -> bool:
    """Whether nothing changed except the times in managedFields."""
    if {**old, "metadata": None} != {**new, "metadata": None}:
        return False
    return _untimed(old["metadata"]) == _untimed(new["metadata"])


def _untimed(metadata: Json) -> Json:
    entries = [{**entry, "time": ""} for entry in metadata.get("managedFields") or ()]
    key = sorted(entries, key=lambda e: (e["manager"], e["operation"], e.get("subresource", "")))
    set_fields = {name: child for name, child in metadata.items() if child not in ({}, [], None)}
    return {**set_fields, "managedFields": key}


def _new_finalizers(metadata: Json, old: Json) -> Iterator[Cause]:
    before = old.get("finalizers") or ()
    new = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer not in before]
    if new and old.get("deletionTimestamp"):
        listed = ", ".join(f'"{finalizer[:100]}"' for finalizer in new)
        yield Cause(
            "FieldValueForbidden",
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, found new finalizers"
            f" []string{{{listed}}}",
        )
