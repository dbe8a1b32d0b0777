"""Deletes objects: grace periods, finalizers, owners and dependents, namespaces, CRDs.

Called by `registry` and the delete verbs. Garbage collection and emptying a namespace, which kube-controller-manager
does later, happen here in the same call, so that a run replays. A real controller manager with this server finds
nothing left to do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.sim.api.schema import status
from holdfast.sim.api.schema.resources import Resources
from holdfast.sim.api.storage.store import Key, Store, Stored

Json = dict[str, Any]

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
NAMESPACES: Final = "/namespaces"
DEFINITIONS: Final = "apiextensions.k8s.io/customresourcedefinitions"

_POLICIES: Final = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


@dataclass(frozen=True, slots=True)
class Options:
    """DeleteOptions. Without a policy, the object's finalizers decide, else it is Background."""

    grace_s: int | None = None
    uid: str = ""
    resource_version: str = ""
    policy: str = ""
    dry_run: bool = False


class Deletion:
    """Deletes objects and their dependents."""

    def __init__(self, *, store: Store, resources: Resources, now: Callable[[int], str]) -> None:
        self._store = store
        self._resources = resources
        self._now = now  # the time that many seconds from now
        # Objects that may be ready for their next step. A work list, not a recursion: a namespace may have thousands.
        self._due: dict[tuple[str, Key], None] = {}

    def delete(self, bucket: str, stored: Stored, options: Options) -> tuple[Stored, bool]:
        """The last state of the object, and whether it is removed."""
        self._check(bucket, stored, options)
        last = self._delete(bucket, stored, options)
        self._work()
        return last, self._store.get(bucket, stored.key) is None

    def finish(self, bucket: str, value: Json) -> Stored | None:
        """Removes a deleted object without finalizers or a grace period; None if it has any."""
        finished = self._finish(bucket, value)
        self._work()
        return finished

    def adopt(self, bucket: str, stored: Stored) -> None:
        """Deletes a new object whose owners are all deleted."""
        if stored.owners and not any(self._store.exists(uid) for uid in stored.owners):
            references = stored.value()["metadata"]["ownerReferences"]
            if all(self._resources.of_kind(r["apiVersion"], r["kind"]) for r in references):
                self.delete(bucket, stored, Options(policy="Background"))

    def _work(self) -> None:
        while self._due:
            bucket, key = next(iter(self._due))
            del self._due[bucket, key]
            stored = self._store.get(bucket, key)
            if stored:
                self._proceed(bucket, stored)

    def _delete(self, bucket: str, stored: Stored, options: Options) -> Stored:
        value = stored.value()
        metadata = value["metadata"]
        grace = self._grace(bucket, value, options)
        finalizers = _finalizers(metadata.get("finalizers") or [], options.policy)
        waits = bool(finalizers) or grace > 0 or (bucket == NAMESPACES and self._spec_finalizers(value))
        if not waits:
            if (
                bucket == "/pods"
            ):  # watches get the last state with a deletionTimestamp before the DELETED event
                self._mark(bucket, value, 0, [])
                if not options.dry_run:
                    self._store.put(bucket, value)
            return stored if options.dry_run else self._remove(bucket, stored.key, value)
        if metadata.get("deletionTimestamp") and not self._hastens(metadata, grace, finalizers):
            return stored
        self._mark(bucket, value, grace, finalizers)
        if options.dry_run:
            return self._store.shown(bucket, value, stored.version)
        marked = self._store.put(bucket, value)
        self._due[bucket, stored.key] = None
        return marked

    def _finish(self, bucket: str, value: Json) -> Stored | None:
        metadata = value["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return None
        if metadata.get("deletionGracePeriodSeconds") or (
            bucket == NAMESPACES and self._spec_finalizers(value)
        ):
            return None
        return self._remove(bucket, (metadata.get("namespace", ""), metadata["name"]), value)

    def _check(self, bucket: str, stored: Stored, options: Options) -> None:
        group = bucket.rpartition("/")[0]
        kind = self._resources.of_bucket(bucket).kind
        if options.uid and options.uid != stored.uid:
            raise status.conflict(
                group,
                kind,
                stored.name,
                f"the UID in the precondition ({options.uid[:100]}) does not match the UID in record ({stored.uid})."
                " The object might have been deleted and then recreated",
            )
        if options.resource_version and options.resource_version != str(stored.version):
            raise status.conflict(
                group,
                kind,
                stored.name,
                f"the ResourceVersion in the precondition ({options.resource_version[:100]}) does not match the"
                f" ResourceVersion in record ({stored.version}). The object might have been modified",
            )

    @staticmethod
    def _grace(bucket: str, value: Json, options: Options) -> int:
        """Only pods that may run have a grace period."""
        if bucket != "/pods" or not value["spec"].get("nodeName"):
            return 0
        if (value.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        given = options.grace_s
        period: int = value["spec"].get("terminationGracePeriodSeconds", 30) if given is None else given
        return max(period, 0)

    @staticmethod
    def _hastens(metadata: Json, grace: int, finalizers: list[str]) -> bool:
        """Whether a second delete changes anything."""
        before = metadata.get("deletionGracePeriodSeconds") or 0
        return grace < before or finalizers != (metadata.get("finalizers") or [])

    def _mark(self, bucket: str, value: Json, grace: int, finalizers: list[str]) -> None:
        metadata = value["metadata"]
        if metadata.get("generation") and not metadata.get("deletionTimestamp"):
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = self._now(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        if bucket == NAMESPACES:
            value.setdefault("status", {})["phase"] = "Terminating"
            metadata.pop("deletionGracePeriodSeconds")

    def _remove(self, bucket: str, key: Key, value: Json) -> Stored:
        removed = self._store.remove(bucket, key, value)
        if bucket == DEFINITIONS:
            self._resources.define(removed.name, [])
            group, plural = value["spec"]["group"], value["spec"]["names"]["plural"]
            self._store.remove_bucket(f"{group}/{plural}")
        for dependent_bucket, dependent in self._store.dependents(removed.uid):
            self._disown(dependent_bucket, dependent, removed.uid)
        for uid in removed.owners:
            found = self._store.find(uid)
            if found:
                self._due[found[0], found[1].key] = None
        # Objects that may have waited for the last object of a namespace or of a custom kind.
        group, _, plural = bucket.rpartition("/")
        self._due[NAMESPACES, ("", removed.namespace)] = None
        self._due[DEFINITIONS, ("", f"{plural}.{group}")] = None
        return removed

    def _disown(self, bucket: str, key: Key, uid: str) -> None:
        """Deletes a dependent of a removed object, unless it has another owner."""
        stored = self._store.get(bucket, key)
        if stored is None:
            return
        if not any(self._store.exists(other) for other in stored.owners):
            self._delete(bucket, stored, Options(policy="Background"))
        else:
            self._put_without_owner(bucket, stored, uid)

    def _put_without_owner(self, bucket: str, stored: Stored, uid: str) -> None:
        value = stored.value()
        references = [r for r in value["metadata"]["ownerReferences"] if r["uid"] != uid]
        value["metadata"]["ownerReferences"] = references
        if not references:
            del value["metadata"]["ownerReferences"]
        self._store.put(bucket, value)

    def _proceed(self, bucket: str, stored: Stored) -> None:
        """Does the next step for an object that is being deleted."""
        value = stored.value()
        metadata = value["metadata"]
        if not metadata.get("deletionTimestamp"):
            return
        finalizers: list[str] = metadata.get("finalizers") or []
        if bucket == NAMESPACES:
            self._empty_namespace(stored)
        elif CLEANUP in finalizers and bucket == DEFINITIONS:
            self._empty_kind(value, stored)
        elif ORPHAN in finalizers:
            for dependent_bucket, key in self._store.dependents(stored.uid):
                dependent = self._store.get(dependent_bucket, key)
                if dependent:
                    self._put_without_owner(dependent_bucket, dependent, stored.uid)
            self._drop_finalizer(bucket, stored, ORPHAN)
        elif FOREGROUND in finalizers and not self._blocking(stored):
            self._drop_finalizer(bucket, stored, FOREGROUND)

    def _blocking(self, stored: Stored) -> list[Key]:
        """Deletes the dependents, and returns those that a foreground deletion must wait for."""
        blocking = []
        for dependent_bucket, key in self._store.dependents(stored.uid):
            dependent = self._store.get(dependent_bucket, key)
            if dependent and not dependent.value()["metadata"].get("deletionTimestamp"):
                self._delete(dependent_bucket, dependent, Options(policy="Foreground"))
            left = self._store.get(dependent_bucket, key)
            references = left.value()["metadata"].get("ownerReferences", ()) if left else ()
            if any(r["uid"] == stored.uid and r.get("blockOwnerDeletion") for r in references):
                blocking.append(key)
        return blocking

    def _empty_namespace(self, stored: Stored) -> None:
        left = 0
        for name, bucket in self._store.buckets():
            for found in bucket.sorted(stored.name):
                if not found.value()["metadata"].get("deletionTimestamp"):
                    self._delete(name, found, Options(policy="Background"))
            left += len(bucket.sorted(stored.name))
        current = self._store.get(NAMESPACES, stored.key)
        if not left and current:
            value = current.value()
            value["spec"]["finalizers"] = [
                f for f in value["spec"].get("finalizers") or () if f != "kubernetes"
            ]
            self._finish(NAMESPACES, value)

    def _empty_kind(self, definition: Json, stored: Stored) -> None:
        bucket = f"{definition['spec']['group']}/{definition['spec']['names']['plural']}"
        for found in self._store.bucket(bucket).sorted():
            if not found.value()["metadata"].get("deletionTimestamp"):
                self._delete(bucket, found, Options(policy="Background"))
        if not self._store.bucket(bucket).objects:
            self._drop_finalizer(DEFINITIONS, stored, CLEANUP)

    def _drop_finalizer(self, bucket: str, stored: Stored, name: str) -> None:
        current = self._store.get(bucket, stored.key)
        if current is None:
            return
        value = current.value()
        left = [finalizer for finalizer in value["metadata"].get("finalizers") or () if finalizer != name]
        value["metadata"]["finalizers"] = left
        if not left:
            del value["metadata"]["finalizers"]
        if self._finish(bucket, value) is None:
            self._store.put(bucket, value)

    @staticmethod
    def _spec_finalizers(value: Json) -> bool:
        return bool((value.get("spec") or {}).get("finalizers"))


def _finalizers(given: list[str], policy: str) -> list[str]:
    """The finalizers after a delete with that policy."""
    if not policy:
        return given
    finalizers = [finalizer for finalizer in given if finalizer not in (FOREGROUND, ORPHAN)]
    return [*finalizers, _POLICIES[policy]] if policy in _POLICIES else finalizers
