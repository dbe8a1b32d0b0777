"""The Kube port of the controllers: stores the response to each write in the caches before the call returns.

After a Conflict it reads the object again, so that the next reconcile sees the new version even if the watch is late.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Any, TypeVar

from holdfast import errors
from holdfast.api.answers import Unreadable
from holdfast.api.meta import Object
from holdfast.api.pods import Pod
from holdfast.ports import Change, Kube, Listing
from holdfast.runtime.cache import Caches, key_of

K = TypeVar("K", bound=Object)


class Writer:
    """The Kube port with caches."""

    def __init__(self, kube: Kube, caches: Caches) -> None:
        self._kube = kube
        self._caches = caches

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        return await self._kube.get(kind, name, namespace)

    async def list(self, kind: type[K], *, label_selector: str = "", field_selector: str = "") -> Listing[K]:
        return await self._kube.list(kind, label_selector=label_selector, field_selector=field_selector)

    def pages(self, kind: type[K]) -> AsyncIterator[Listing[K | Unreadable]]:
        return self._kube.pages(kind)

    def watch(self, kind: type[K], resource_version: str) -> AsyncIterator[Change[K | Unreadable]]:
        return self._kube.watch(kind, resource_version)

    async def create(self, obj: K) -> K:
        return self._written(await self._kube.create(obj))

    async def patch(
        self, obj: K, change: Mapping[str, Any], *, status: bool = False, only_if_unchanged: bool = False
    ) -> K:
        patching = self._kube.patch(obj, change, status=status, only_if_unchanged=only_if_unchanged)
        return await self._changed(obj, patching)

    async def apply(self, obj: K, *, status: bool = False) -> K:
        return await self._changed(obj, self._kube.apply(obj, status=status))

    async def delete(self, obj: K, *, only_this: bool = True, grace_period_s: int | None = None) -> None:
        await self._kube.delete(obj, only_this=only_this, grace_period_s=grace_period_s)
        cache = self._caches.find(type(obj))
        if cache is not None and obj.metadata.uid:
            cache.ends(key_of(obj), obj.metadata.uid)

    async def evict(self, namespace: str, pod: str, uid: str) -> None:
        await self._kube.evict(namespace, pod, uid)
        cache = self._caches.find(Pod)
        if cache is not None:
            cache.ends((namespace, pod), uid)

    async def _changed(self, obj: K, writing: Awaitable[K]) -> K:
        try:
            return self._written(await writing)
        except errors.Conflict:
            await self._read_again(obj)
            raise

    async def _read_again(self, obj: Object) -> None:
        if self._caches.find(type(obj)) is None:
            return
        with contextlib.suppress(errors.HoldfastError):
            self._written(await self._kube.get(type(obj), obj.metadata.name, obj.metadata.namespace))

    def _written(self, obj: K) -> K:
        cache = self._caches.find(type(obj))
        if cache is not None and obj.metadata.resource_version:
            cache.written(obj)
        return obj
