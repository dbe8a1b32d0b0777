"""The store: every object as its JSON bytes, one version counter, and recent changes.

It is independent of kinds. A *bucket* has the objects of one resource in all its versions. Bytes are immutable, so
readers and watchers share them without copies. A watcher has a position in a bucket's history, not a queue: if it falls
behind the window, it gets an error and must list again.
"""

import asyncio
import bisect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

Key = tuple[str, str]  # namespace (empty for cluster-scoped objects) and name
Json = dict[str, Any]
Fields = Callable[[str, Json], Mapping[str, str]]  # bucket and object -> its selectable fields

WINDOW: Final = 10_000
NODE_NAME: Final = "spec.nodeName"

encode: Final = msgspec.json.Encoder().encode
decode: Final = msgspec.json.Decoder().decode


class Stored(NamedTuple):
    """One object at one version, with the values that selectors and the garbage collector need."""

    namespace: str
    name: str
    version: int
    uid: str
    body: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    owners: tuple[str, ...]  # their uids

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)

    def value(self) -> Json:
        """A new decoded copy of the object, which the caller may change."""
        value: Json = decode(self.body)
        return value


class Change(NamedTuple):
    """One write. `before` is None for a new object, `after` is the last state when it was deleted."""

    before: Stored | None
    after: Stored
    deleted: bool = False


class TooOld(Exception):
    """The version is older than the history."""


def _no_time() -> float:
    return 0.0


class Bucket:
    """The objects of one resource, and its recent changes."""

    def __init__(
        self, *, window: int, history_s: float = math.inf, monotonic_s: Callable[[], float] = _no_time
    ) -> None:
        """`window`: how many changes are kept; `history_s`: for how long."""
        self.objects: dict[Key, Stored] = {}
        self._by_node: dict[
            str, dict[Key, Stored]
        ] = {}  # by the field `spec.nodeName`, as in a kube-apiserver
        self._window = window
        self._history_s = history_s
        self._monotonic_s = monotonic_s
        self._changes: list[Change] = []
        self._times_s: list[float] = []  # of the changes
        self._first = 0  # the position of _changes[0]
        self._discarded_version = 0  # the version of the newest change that is no longer in _changes
        self._sorted: list[Key] | None = None
        self._in_order: tuple[Stored, ...] | None = None  # None: an object changed
        self._waiting: list[asyncio.Future[None]] = []
        self.closed = False  # its kind is no longer served

    def record(self, change: Change) -> None:
        after = change.after
        if change.deleted:
            del self.objects[after.key]
            self._sorted = None
        else:
            if change.before is None:
                self._sorted = None
            self.objects[after.key] = after
        self._in_order = None
        self._index(change)
        now_s = self._monotonic_s()
        self._changes.append(change)
        self._times_s.append(now_s)
        # Seldom, so that a change is cheap on average.
        if len(self._changes) >= 2 * self._window:
            self._discard(self._window)
        if self._times_s[0] < now_s - 2 * self._history_s:
            self._discard(bisect.bisect_left(self._times_s, now_s - self._history_s))
        self._wake()

    def _index(self, change: Change) -> None:
        before, after = change.before, change.after
        if before is not None and before.fields.get(NODE_NAME):
            node = before.fields[NODE_NAME]
            del self._by_node[node][before.key]
            if not self._by_node[node]:
                del self._by_node[node]
        if not change.deleted and after.fields.get(NODE_NAME):
            self._by_node.setdefault(after.fields[NODE_NAME], {})[after.key] = after

    def _discard(self, count: int) -> None:
        """Discards the oldest changes."""
        self._discarded_version = self._changes[count - 1].after.version
        del self._changes[:count], self._times_s[:count]
        self._first += count

    def close(self) -> None:
        self.closed = True
        self._wake()

    def sorted(self, namespace: str = "") -> Sequence[Stored]:
        """The objects sorted by key, of one namespace or of all. The pages of a list use the same tuple."""
        if self._sorted is None:
            self._sorted = sorted(self.objects)
        if namespace:
            return [self.objects[key] for key in self._sorted if key[0] == namespace]
        if self._in_order is None:
            self._in_order = tuple([self.objects[key] for key in self._sorted])
        return self._in_order

    def on_node(self, node: str, namespace: str = "") -> list[Stored]:
        """The objects with this `spec.nodeName`, sorted by key."""
        found = self._by_node.get(node, {})
        return [found[key] for key in sorted(found) if not namespace or key[0] == namespace]

    def at(self, version: int, namespace: str = "") -> list[Stored]:
        """The objects at an older version; raises TooOld."""
        objects = dict(self.objects)
        for change in reversed(self._since(version)):
            if change.before is None:
                objects.pop(change.after.key, None)
            else:
                objects[change.after.key] = change.before
        return [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]

    def position(self, version: int) -> int:
        """The position of a watch that continues after a version; raises TooOld."""
        return self._first + len(self._changes) - len(self._since(version))

    @property
    def end(self) -> int:
        return self._first + len(self._changes)

    def changes(self, position: int) -> list[Change]:
        """The changes from a position on; raises TooOld if some were discarded."""
        if self.end - position > self._window or position < self._first:
            raise TooOld
        return self._changes[position - self._first :]

    def changed(self) -> "asyncio.Future[None]":
        """A future that is done at the next change. Call it before any await, or a change is missed."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Watches of a resource that never changes time out and wait again: their old futures are done.
        self._waiting = [*(one for one in self._waiting if not one.done()), future]
        return future

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _since(self, version: int) -> list[Change]:
        if version < self._discarded_version:
            raise TooOld
        low, high = 0, len(self._changes)
        while low < high:
            middle = (low + high) // 2
            if self._changes[middle].after.version <= version:
                low = middle + 1
            else:
                high = middle
        if len(self._changes) - low > self._window:
            raise TooOld
        return self._changes[low:]


def _no_fields(_bucket: str, _value: Json) -> Mapping[str, str]:
    return {}


class Store:
    """All buckets, with one version counter."""

    def __init__(
        self,
        fields: Fields = _no_fields,
        *,
        window: int = WINDOW,
        history_s: float = math.inf,
        monotonic_s: Callable[[], float] = _no_time,
    ) -> None:
        self.version = 1
        self._fields = fields
        self._new_bucket = partial(Bucket, window=window, history_s=history_s, monotonic_s=monotonic_s)
        self._buckets: dict[str, Bucket] = {}
        self._dependents: dict[str, dict[tuple[str, Key], None]] = {}  # by the uid of the owner
        self._uids: dict[str, tuple[str, Key]] = {}

    def bucket(self, name: str) -> Bucket:
        if name not in self._buckets:
            self._buckets[name] = self._new_bucket()
        return self._buckets[name]

    def buckets(self) -> Iterator[tuple[str, Bucket]]:
        yield from list(self._buckets.items())

    def remove_bucket(self, name: str) -> None:
        """Ends the watches of a resource that is no longer served. A new resource of that name starts empty."""
        self.bucket(name).close()
        del self._buckets[name]

    def get(self, bucket: str, key: Key) -> Stored | None:
        return self.bucket(bucket).objects.get(key)

    def put(self, bucket: str, value: Json) -> Stored:
        """Stores an object with a new version."""
        self.version += 1
        after = self.shown(bucket, value, self.version)
        before = self.get(bucket, after.key)
        self.bucket(bucket).record(Change(before, after))
        if before is None or before.owners != after.owners:
            self._disown(bucket, before)
            for owner in after.owners:
                self._dependents.setdefault(owner, {})[bucket, after.key] = None
        self._uids[after.uid] = (bucket, after.key)
        return after

    def remove(self, bucket: str, key: Key, value: Json | None = None) -> Stored:
        """Deletes an object; returns its last state with a new version."""
        before = self.bucket(bucket).objects[key]
        self.version += 1
        after = self.shown(bucket, before.value() if value is None else value, self.version)
        self.bucket(bucket).record(Change(before, after, deleted=True))
        self._disown(bucket, before)
        self._uids.pop(before.uid, None)
        return after

    def shown(self, bucket: str, value: Json, version: int) -> Stored:
        """What an object would be at a version; 0: it was never stored. Nothing is written."""
        return _stored(value, version, self._fields(bucket, value))

    def dependents(self, uid: str) -> list[tuple[str, Key]]:
        """The objects that have this one as an owner: bucket and key."""
        return list(self._dependents.get(uid, ()))

    def exists(self, uid: str) -> bool:
        return uid in self._uids

    def find(self, uid: str) -> tuple[str, Stored] | None:
        """The object with that uid, and its bucket."""
        found = self._uids.get(uid)
        return found and (found[0], self.bucket(found[0]).objects[found[1]])

    def _disown(self, bucket: str, stored: Stored | None) -> None:
        for owner in stored.owners if stored else ():
            known = self._dependents.get(owner, {})
            known.pop((bucket, stored.key if stored else ("", "")), None)
            if not known:
                self._dependents.pop(owner, None)


def _stored(value: Json, version: int, fields: Mapping[str, str]) -> Stored:
    metadata = value["metadata"]
    if version:
        metadata["resourceVersion"] = str(version)
    return Stored(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        version=version,
        uid=metadata["uid"],
        body=encode(value),
        labels=metadata.get("labels") or {},
        fields=fields,
        owners=_owners(metadata.get("ownerReferences") or ()),
    )


def _owners(references: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(reference["uid"] for reference in references)
