"""A watch cache: the newest known version of every object of a kind, with indexes.

`reflector` fills it from lists and watches, `writes` adds the responses to this process's writes. The version of an
object never goes backwards, and readers never see a version older than this process's last write: the response to a
write is stored at once, and later events of older versions are ignored. This relies on resourceVersions being growing
numbers, which Kubernetes guarantees since 1.35.

An object that cannot be decoded is listed in `unreadable`, and readers see its last readable version. A controller must
check `unreadable` before it deletes or terminates something because an object is missing.
"""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from holdfast import errors
from holdfast.api.answers import Unreadable
from holdfast.api.meta import Object
from holdfast.ports import Change, Clock, Listing
from holdfast.runtime.results import Key

K = TypeVar("K", bound=Object)

Handler = Callable[[K | None, K | None], None]  # the object before and after; None: it did or does not exist

_SLICE: Final = 500  # objects that a relist removes before it yields to other tasks
SILENT_S: Final = 150.0  # an API server sends a bookmark every minute: two are missing
CONFIRM_S: Final = (
    120.0  # a watch that has delivered nothing at all is confirmed by a list, before it is silent
)
_ASSUMED_DELETING_S: Final = 60.0  # how long an accepted deletion is shown before the watch confirms it


def key_of(obj: Object) -> Key:
    return obj.metadata.namespace, obj.metadata.name


def version_of(version: str) -> int:
    if not version.isdecimal():
        raise errors.InvalidInput(
            f"resourceVersion {version!r} is not a number: this is not a Kubernetes API server"
        )
    return int(version)


class Index(Generic[K]):
    """The objects of a cache by a value of theirs, in the order of their arrival."""

    def __init__(self, values_of: Callable[[K], Iterable[str]]) -> None:
        self.values_of = values_of
        self._by_value: dict[str, dict[Key, K]] = {}

    def get(self, value: str) -> Iterable[K]:
        """Do not await while iterating: the index changes."""
        return self._by_value.get(value, {}).values()

    def change(self, key: Key, before: K | None, after: K | None) -> None:
        old = tuple(self.values_of(before)) if before is not None else ()
        new = tuple(self.values_of(after)) if after is not None else ()
        if after is not None and old == new:
            for value in new:
                self._by_value[value][key] = after
            return
        for value in old:
            if value not in new:
                objects = self._by_value[value]
                del objects[key]
                if not objects:
                    del self._by_value[value]
        if after is not None:
            for value in new:
                self._by_value.setdefault(value, {})[key] = after


class Cache(Generic[K]):
    def __init__(self, kind: type[K], *, clock: Clock, stored: Callable[[K], K] = lambda obj: obj) -> None:
        """`stored`: the part of an object that is stored, with its metadata; handlers get the whole object once."""
        self.kind = kind
        self._clock = clock
        self._stored = stored
        self._objects: dict[Key, K] = {}
        self._indexes: list[Index[K]] = []
        self._handlers: list[Handler[K]] = []
        self._watched_version = 0  # the watch has delivered all events up to this version
        self._unlisted: set[Key] | None = None  # keys that the list in progress has not returned yet
        self._unreadable: dict[Key, Unreadable] = {}
        self._on_unreadable: list[Callable[[Unreadable | None], None]] = []
        self._deleting: dict[str, tuple[datetime, float]] = {}  # by uid: since when, and assumed until when
        self._synced = asyncio.Event()
        self._received_s = 0.0  # when a list, an event or a bookmark last arrived

    # --- Readers ------------------------------------------------------------------------------------

    def get(self, key: Key) -> K | None:
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[K]:
        """Do not await while iterating: the index changes."""
        return iter(self._objects.values())

    @property
    def unreadable(self) -> Mapping[Key, Unreadable]:
        """The objects whose newest version cannot be decoded. The key of one without a readable name is ("", "")."""
        return self._unreadable

    def subscribe_unreadable(self, handler: Callable[[Unreadable | None], None]) -> None:
        """Calls the handler with each version that cannot be decoded, and with None when an object becomes readable."""
        self._on_unreadable.append(handler)

    @property
    def synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    async def until_synced(self) -> None:
        await self._synced.wait()

    @property
    def silent_s(self) -> float:
        """Seconds since the last list, event or bookmark; 0 before the first list."""
        return self._clock.monotonic_s() - self._received_s if self.synced else 0.0

    def index(self, values_of: Callable[[K], Iterable[str]]) -> Index[K]:
        """An index over all objects. Callers that pass the same function share one index."""
        for index in self._indexes:
            if index.values_of is values_of:
                return index
        index = Index(values_of)
        for key, obj in self._objects.items():
            index.change(key, None, obj)
        self._indexes.append(index)
        return index

    def subscribe(self, handler: Handler[K]) -> None:
        """Calls the handler on every change from now on. It must not block or raise."""
        self._handlers.append(handler)

    # --- The reflector ------------------------------------------------------------------------------

    async def replace(self, pages: AsyncIterator[Listing[K | Unreadable]]) -> str:
        """Stores a complete list and returns the version to watch from. It works page by page, so that the objects are
        not in memory twice, and yields in between. If the pages break off, the objects read so far are stored and
        none is removed."""
        version, _ = await self._store(pages)
        self._received_s = self._clock.monotonic_s()
        self._synced.set()
        return version

    async def confirm(self, pages: AsyncIterator[Listing[K | Unreadable]]) -> bool:
        """Stores a complete list and returns whether it was what the cache had. Then the watch has missed nothing, and
        the cache is as fresh as after an event."""
        _, changed = await self._store(pages)
        if not changed:
            self._received_s = self._clock.monotonic_s()
        return not changed

    def apply(self, change: Change[K | Unreadable]) -> None:
        """One event of the watch."""
        self._received_s = self._clock.monotonic_s()
        obj = change.object
        version = _version(obj)
        if change.kind == "DELETED":
            self._remove(key_of(obj), version)
        elif isinstance(obj, Unreadable):
            self._put_unreadable(obj)
        elif change.kind != "BOOKMARK" and not self._is_deleted(obj):
            self._put(obj)
        self._watched_version = max(self._watched_version, version)

    # --- Our own writes -----------------------------------------------------------------------------

    def written(self, obj: K) -> None:
        """Stores the API server's response to a write of this process."""
        if self._is_deleted(obj):
            return
        if self._unlisted is not None and key_of(obj) not in self._objects:
            self._unlisted.add(key_of(obj))  # the list in progress may be older than the object
        self._put(obj)

    def ends(self, key: Key, uid: str) -> None:
        """The API server accepted the deletion of the object with this uid: readers see a deletionTimestamp until the
        watch delivers the actual state."""
        now_s = self._clock.monotonic_s()
        for expired in [old for old, (_, until_s) in self._deleting.items() if until_s <= now_s]:
            del self._deleting[expired]
        self._deleting[uid] = (datetime.fromtimestamp(self._clock.now_s(), UTC), now_s + _ASSUMED_DELETING_S)
        current = self._objects.get(key)
        if current is not None and current.metadata.uid == uid:
            self._show(key, current, self._with_deletion(current))

    # --- Inside -------------------------------------------------------------------------------------

    async def _store(self, pages: AsyncIterator[Listing[K | Unreadable]]) -> tuple[str, bool]:
        """The version of the list, and whether the cache had something else."""
        self._unlisted = set(self._objects)
        try:
            version, changed = await self._store_pages(pages, self._unlisted)
        finally:
            self._unlisted = None
        self._watched_version = version_of(version)
        return version, changed

    async def _store_pages(
        self, pages: AsyncIterator[Listing[K | Unreadable]], unlisted: set[Key]
    ) -> tuple[str, bool]:
        version, changed = "", False
        were_unreadable = set(self._unreadable)
        async for page in pages:
            await self._clock.sleep(0)  # decoding the page already took long
            version = page.resource_version
            for obj in page.items:
                unlisted.discard(key_of(obj))
                if isinstance(obj, Unreadable):
                    were_unreadable.discard(key_of(obj))
                    changed |= self._put_unreadable(obj)
                else:
                    changed |= self._put(obj)
            # A page is thousands of tuples that hold nothing for the garbage collector. A collection right now untracks
            # them; otherwise one later collection would visit all of them at once and stop the event loop.
            gc.collect(0)
            await self._clock.sleep(0)
        for number, key in enumerate(sorted(unlisted), start=1):
            self._remove(key, version_of(version))
            if number % _SLICE == 0:
                await self._clock.sleep(0)
        for key in were_unreadable:
            self._drop_unreadable(key)
        return version, changed or bool(unlisted or were_unreadable)

    def _put_unreadable(self, obj: Unreadable) -> bool:
        """Whether this version was unknown."""
        key = key_of(obj)
        current, known = self._objects.get(key), self._unreadable.get(key)
        version = _version(obj)
        if current is not None and version and version <= _version(current):
            return False
        self._unreadable[key] = obj
        if known is not None and known.metadata == obj.metadata:
            return False
        for handler in self._on_unreadable:
            handler(obj)
        return True

    def _drop_unreadable(self, key: Key) -> None:
        """The object is readable again, or deleted."""
        if self._unreadable.pop(key, None) is not None:
            for handler in self._on_unreadable:
                handler(None)

    def _is_deleted(self, obj: K) -> bool:
        """Whether the watch is past this version and the object does not exist any more."""
        return _version(obj) <= self._watched_version and key_of(obj) not in self._objects

    def _put(self, obj: K) -> bool:
        """Whether this version is newer than the one in the cache."""
        key = key_of(obj)
        current = self._objects.get(key)
        if current is not None and _version(obj) <= _version(current):
            return False
        if key in self._unreadable and _version(obj) >= _version(self._unreadable[key]):
            self._drop_unreadable(key)
        self._show(key, current, self._with_deletion(obj))
        return True

    def _remove(self, key: Key, version: int) -> None:
        current = self._objects.get(key)
        self._drop_unreadable(key)
        if current is not None and _version(current) <= version:
            self._deleting.pop(current.metadata.uid, None)
            self._show(key, current, None)

    def _show(self, key: Key, before: K | None, after: K | None) -> None:
        if after is before:
            return
        stored = None
        if after is None:
            del self._objects[key]
        else:
            stored = self._objects[key] = self._stored(after)
        for index in self._indexes:
            index.change(key, before, stored)
        failed: Exception | None = None
        for handler in self._handlers:
            try:
                handler(before, after)
            except Exception as error:  # noqa: BLE001 - raised below, after the other handlers
                failed = error
        if failed is not None:
            raise failed  # not earlier: the other handlers would miss the change

    def _with_deletion(self, obj: K) -> K:
        meta = obj.metadata
        if not self._deleting or meta.uid not in self._deleting:
            return obj
        since, until_s = self._deleting[meta.uid]
        if meta.deletion_timestamp is not None or self._clock.monotonic_s() >= until_s:
            del self._deleting[meta.uid]
            return obj
        deleting = msgspec.structs.replace(meta, deletion_timestamp=since)
        return msgspec.structs.replace(obj, metadata=deleting)


class Caches:
    """One cache per kind."""

    def __init__(self, kinds: Iterable[type[Object]], *, clock: Clock) -> None:
        self._by_kind: Mapping[type[Object], Cache[Any]] = {kind: Cache(kind, clock=clock) for kind in kinds}

    def of(self, kind: type[K]) -> Cache[K]:
        return cast("Cache[K]", self._by_kind[kind])

    def find(self, kind: type[K]) -> Cache[K] | None:
        return self._by_kind.get(kind)

    def __iter__(self) -> Iterator[Cache[Any]]:
        return iter(self._by_kind.values())

    def check_fresh(self) -> None:
        """Raises NotReady if a watch has been silent for too long: its cache may be stale, so no decision may use it."""
        silent = [cache for cache in self if cache.silent_s >= SILENT_S]
        if silent:
            longest = max(silent, key=lambda cache: cache.silent_s)
            raise errors.NotReady(
                f"the watch of {longest.kind.plural} has had no event and no bookmark for "
                f"{longest.silent_s:.0f} s, so its cache may be stale"
            )

    def unsynced(self) -> list[str]:
        """The kinds whose first list is not complete, by their plural."""
        return [cache.kind.plural for cache in self if not cache.synced]


def _version(obj: Object) -> int:
    """The version as a number; 0 if it cannot be read."""
    if isinstance(obj, Unreadable) and not obj.metadata.resource_version:
        return 0
    return version_of(obj.metadata.resource_version)
