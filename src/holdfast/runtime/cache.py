"""A watch cache: every object of a kind as last seen, with indexes. One resident form: the wire object itself.

Callers: `reflector` keeps it current, `writes` tells it what we wrote, controllers and `state` read it. The rule: an
object only ever moves forward, and a reader never sees one older than our own last write of it. So an answer to a
write goes in at once, and whatever the watch still has to say about earlier versions is ignored. This stands on
resourceVersions being numbers that grow, as Kubernetes promises since 1.35 and always kept.

An object that cannot be decoded is set aside in `unreadable`; readers go on seeing its last version that could be. A
controller that would delete or terminate something because an object is missing asks `unreadable` first.
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

Handler = Callable[[K | None, K | None], None]  # before and after; None where there was or is none

_SLICE: Final = 500  # objects that a relist takes out before others have their turn
SILENT_S: Final = (
    150.0  # an API server sends a bookmark a minute: after two missing ones a watch counts as dead
)
_BELIEVED_S: Final = 60.0  # how long the end of an object is taken for granted before the watch has said so


def key_of(obj: Object) -> Key:
    return obj.metadata.namespace, obj.metadata.name


def version_of(version: str) -> int:
    if not version.isdecimal():
        raise errors.InvalidInput(
            f"resourceVersion {version!r} is no number: this is no Kubernetes API server"
        )
    return int(version)


class Index(Generic[K]):
    """The objects of a cache by some value of theirs. Its order is that in which they came."""

    def __init__(self, values_of: Callable[[K], Iterable[str]]) -> None:
        self.values_of = values_of
        self._by_value: dict[str, dict[Key, K]] = {}

    def get(self, value: str) -> Iterable[K]:
        """Do not wait while you go through it: it changes."""
        return self._by_value.get(value, {}).values()

    def change(self, key: Key, before: K | None, after: K | None) -> None:
        old = tuple(self.values_of(before)) if before is not None else ()
        new = tuple(self.values_of(after)) if after is not None else ()
        for value in old:
            if value not in new:
                there = self._by_value[value]
                del there[key]
                if not there:
                    del self._by_value[value]
        if after is not None:
            for value in new:
                self._by_value.setdefault(value, {})[key] = after


class Cache(Generic[K]):
    def __init__(self, kind: type[K], *, clock: Clock) -> None:
        self.kind = kind
        self._clock = clock
        self._objects: dict[Key, K] = {}
        self._indexes: list[Index[K]] = []
        self._handlers: list[Handler[K]] = []
        self._seen = 0  # the version up to which the watch has told everything
        self._unlisted: set[Key] | None = None  # while a list is read: what it has not shown yet
        self._unreadable: dict[Key, Unreadable] = {}
        self._on_unreadable: list[Callable[[Unreadable | None], None]] = []
        self._ending: dict[
            str, tuple[datetime, float]
        ] = {}  # uid -> since when, and until when we believe it
        self._synced = asyncio.Event()
        self._heard_s = 0.0  # when a list, an event or a bookmark last arrived

    # --- Readers ------------------------------------------------------------------------------------

    def get(self, key: Key) -> K | None:
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[K]:
        """Do not wait while you go through it: it changes."""
        return iter(self._objects.values())

    @property
    def unreadable(self) -> Mapping[Key, Unreadable]:
        """The objects whose newest version cannot be decoded. The key of one without a readable name is ("", "")."""
        return self._unreadable

    def subscribe_unreadable(self, handler: Callable[[Unreadable | None], None]) -> None:
        """Calls the handler with each version that is set aside, and with None when one is there no more."""
        self._on_unreadable.append(handler)

    @property
    def synced(self) -> bool:
        """Whether it has held everything once."""
        return self._synced.is_set()

    async def until_synced(self) -> None:
        await self._synced.wait()

    @property
    def silent_s(self) -> float:
        """How long neither a list, an event nor a bookmark has arrived; 0 before the first list."""
        return self._clock.monotonic_s() - self._heard_s if self.synced else 0.0

    def index(self, values_of: Callable[[K], Iterable[str]]) -> Index[K]:
        """An index, kept from now on; for objects that are there already too. One, whoever asks for it."""
        for known in self._indexes:
            if known.values_of is values_of:
                return known
        made = Index(values_of)
        for key, obj in self._objects.items():
            made.change(key, None, obj)
        self._indexes.append(made)
        return made

    def subscribe(self, handler: Handler[K]) -> None:
        """Calls the handler on every change from now on. It must not wait, and must not raise."""
        self._handlers.append(handler)

    # --- The reflector ------------------------------------------------------------------------------

    async def replace(self, pages: AsyncIterator[Listing[K | Unreadable]]) -> str:
        """Takes in everything there is, and answers the version to watch from. Page by page, so that it is never
        held twice, with others running in between: each object moves forward by itself. Pages that break off
        have brought what they brought, and end nothing."""
        self._unlisted = set(self._objects)
        try:
            version = await self._take_in(pages, self._unlisted)
        finally:
            self._unlisted = None
        self._seen = version_of(version)
        self._heard_s = self._clock.monotonic_s()
        self._synced.set()
        return version

    def apply(self, change: Change[K | Unreadable]) -> None:
        """One event of the watch."""
        self._heard_s = self._clock.monotonic_s()
        obj = change.object
        version = _version(obj)
        if change.kind == "DELETED":
            self._remove(key_of(obj), version)
        elif isinstance(obj, Unreadable):
            self._set_aside(obj)
        elif change.kind != "BOOKMARK" and not self._is_over(obj):
            self._put(obj)
        self._seen = max(self._seen, version)

    # --- Our own writes -----------------------------------------------------------------------------

    def written(self, obj: K) -> None:
        """What the server answered to a write of ours."""
        if self._is_over(obj):
            return
        if self._unlisted is not None and key_of(obj) not in self._objects:
            self._unlisted.add(key_of(obj))  # so may the list be that is being read
        self._put(obj)

    def ends(self, key: Key, uid: str) -> None:
        """The server accepted the end of that very object: it is shown as being deleted from now on, until the
        watch shows what became of it."""
        now_s = self._clock.monotonic_s()
        for old in [old for old, (_, until_s) in self._ending.items() if until_s <= now_s]:
            del self._ending[old]
        self._ending[uid] = (datetime.fromtimestamp(self._clock.now_s(), UTC), now_s + _BELIEVED_S)
        current = self._objects.get(key)
        if current is not None and current.metadata.uid == uid:
            self._show(key, current, self._as_it_ends(current))

    # --- Inside -------------------------------------------------------------------------------------

    async def _take_in(self, pages: AsyncIterator[Listing[K | Unreadable]], unlisted: set[Key]) -> str:
        version = ""
        were_unreadable = set(self._unreadable)
        async for page in pages:
            await self._clock.sleep(0)  # to decode a page took its time already
            version = page.resource_version
            for obj in page.items:
                unlisted.discard(key_of(obj))
                if isinstance(obj, Unreadable):
                    were_unreadable.discard(key_of(obj))
                    self._set_aside(obj)
                else:
                    self._put(obj)
            # A page is thousands of new tuples of what the collector need not look at. Seen once while they are
            # young, they are left out of every later collection; seen all at once, they stop the loop.
            gc.collect(0)
            await self._clock.sleep(0)
        for number, key in enumerate(sorted(unlisted), start=1):
            self._remove(key, version_of(version))
            if number % _SLICE == 0:
                await self._clock.sleep(0)
        for key in were_unreadable:
            self._is_readable(key)
        return version

    def _set_aside(self, obj: Unreadable) -> None:
        key = key_of(obj)
        current, known = self._objects.get(key), self._unreadable.get(key)
        version = _version(obj)
        if current is not None and version and version <= _version(current):
            return
        self._unreadable[key] = obj
        if known is None or known.metadata != obj.metadata:
            for handler in self._on_unreadable:
                handler(obj)

    def _is_readable(self, key: Key) -> None:
        """Or it is gone."""
        if self._unreadable.pop(key, None) is not None:
            for handler in self._on_unreadable:
                handler(None)

    def _is_over(self, obj: K) -> bool:
        """Whether what was seen is past it: the object has ended since."""
        return _version(obj) <= self._seen and key_of(obj) not in self._objects

    def _put(self, obj: K) -> None:
        key = key_of(obj)
        current = self._objects.get(key)
        if current is None or _version(obj) > _version(current):
            if key in self._unreadable and _version(obj) >= _version(self._unreadable[key]):
                self._is_readable(key)
            self._show(key, current, self._as_it_ends(obj))

    def _remove(self, key: Key, version: int) -> None:
        current = self._objects.get(key)
        self._is_readable(key)
        if current is not None and _version(current) <= version:
            self._ending.pop(current.metadata.uid, None)
            self._show(key, current, None)

    def _show(self, key: Key, before: K | None, after: K | None) -> None:
        if after is before:
            return
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        for index in self._indexes:
            index.change(key, before, after)
        failed: Exception | None = None
        for handler in self._handlers:
            try:
                handler(before, after)
            except Exception as error:  # noqa: BLE001 - raised below, after the other handlers
                failed = error
        if failed is not None:
            raise failed  # after every other handler heard of the change: they would wait for it in vain

    def _as_it_ends(self, obj: K) -> K:
        meta = obj.metadata
        if not self._ending or meta.uid not in self._ending:
            return obj
        since, until_s = self._ending[meta.uid]
        if meta.deletion_timestamp is not None or self._clock.monotonic_s() >= until_s:
            del self._ending[meta.uid]
            return obj
        ending = msgspec.structs.replace(meta, deletion_timestamp=since)
        return msgspec.structs.replace(obj, metadata=ending)


class Caches:
    """One cache a kind."""

    def __init__(self, kinds: Iterable[type[Object]], *, clock: Clock) -> None:
        self._by_kind: Mapping[type[Object], Cache[Any]] = {kind: Cache(kind, clock=clock) for kind in kinds}

    def of(self, kind: type[K]) -> Cache[K]:
        return cast("Cache[K]", self._by_kind[kind])

    def find(self, kind: type[K]) -> Cache[K] | None:
        return self._by_kind.get(kind)

    def __iter__(self) -> Iterator[Cache[Any]]:
        return iter(self._by_kind.values())

    def check_fresh(self) -> None:
        """NotReady when a watch has been silent for too long: what is decided on its cache must not be carried out."""
        silent = [cache for cache in self if cache.silent_s >= SILENT_S]
        if silent:
            longest = max(silent, key=lambda cache: cache.silent_s)
            raise errors.NotReady(
                f"the watch of {longest.kind.plural} has brought no event and no bookmark for "
                f"{longest.silent_s:.0f} s, so nothing is decided on its cache"
            )

    def unsynced(self) -> list[str]:
        """The kinds that have not been seen whole yet, by their plural."""
        return [cache.kind.plural for cache in self if not cache.synced]


def _version(obj: Object) -> int:
    """0 of an object whose version cannot be read."""
    if isinstance(obj, Unreadable) and not obj.metadata.resource_version:
        return 0
    return version_of(obj.metadata.resource_version)
