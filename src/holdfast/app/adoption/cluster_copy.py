"""Copies objects of a cluster into an embedded API server, as they are: with uids, times and status.

Objects are copied as JSON, so that fields that Holdfast does not know are copied too. Only reads are sent to the cluster.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api import crds
from holdfast.api.meta import Object
from holdfast.app import sandbox
from holdfast.kube import paths
from holdfast.kube.client import Client
from holdfast.ports import Clock, Ids
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.api.storage.store import Bucket

Json = dict[str, Any]

_PAGE: Final = 500
_PAGES_MAX: Final = 2000


class _Metadata(msgspec.Struct, frozen=True):
    continue_token: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, frozen=True):
    items: tuple[Json, ...] | None = None
    metadata: _Metadata = _Metadata()


class ClusterCopy:
    """An embedded API server with the objects of another one, and how they were when they were copied."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.transport = InProcess(server)
        self._before: dict[type[Object], dict[str, Json]] = {}

    def before(self, kind: type[Object]) -> Mapping[str, Json]:
        """The objects as they were copied, by namespace and name."""
        return self._before[kind]

    def after(self, kind: type[Object]) -> Mapping[str, Json]:
        """The objects as they are now."""
        return dict(map(_with_key, _values(self._bucket(kind))))

    def put(self, kind: type[Object], objects: Iterable[Json]) -> None:
        # The items of a list have neither apiVersion nor kind.
        values = [one | {"apiVersion": kind.api_version, "kind": kind.kind} for one in objects]
        for value in values:
            self.server.registry.store.put(_bucket_name(kind), value)
        self._before[kind] = dict(map(_with_key, values))

    def _bucket(self, kind: type[Object]) -> Bucket:
        return self.server.registry.store.bucket(_bucket_name(kind))


async def copied(source: Client, kinds: Iterable[type[Object]], *, clock: Clock, ids: Ids) -> ClusterCopy:
    """A copy of all objects of these kinds, with Holdfast's CRDs. Raises the error of a list that fails."""
    copy = ClusterCopy(ApiServer(clock=clock, ids=ids))
    await sandbox.install(crds.all_crds(), copy.transport, clock)
    for kind in kinds:
        copy.put(kind, await _objects(source, kind))
    return copy


async def _objects(source: Client, kind: type[Object]) -> list[Json]:
    found: list[Json] = []
    query = {"limit": str(_PAGE)}
    for _ in range(_PAGES_MAX):
        page = await source.document(paths.all_of(kind), _Page, query)
        found.extend(page.items or ())
        if not page.metadata.continue_token:
            return found
        query["continue"] = page.metadata.continue_token
    raise errors.Unreachable(f"list of {kind.plural}: the list has no last page")


def _bucket_name(kind: type[Object]) -> str:
    group = kind.api_version.partition("/")[0] if "/" in kind.api_version else ""
    return f"{group}/{kind.plural}"


def _values(bucket: Bucket) -> list[Json]:
    return [stored.value() for stored in bucket.sorted()]


def _with_key(value: Json) -> tuple[str, Json]:
    meta = value["metadata"]
    namespace = meta.get("namespace")
    return (f"{namespace}/{meta['name']}" if namespace else meta["name"]), value
