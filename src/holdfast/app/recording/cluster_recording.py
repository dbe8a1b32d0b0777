"""Follows the pods, DaemonSets and PodDisruptionBudgets of a cluster and writes their history to a file.

Only lists and watches are sent: a fence refuses every write. The watch caches hold the metadata of pods alone. While the
watch of pods is silent, nothing is written; afterwards the file has a line with the length of the gap.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from holdfast import errors
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Pod
from holdfast.api.recording import VERSION, Header
from holdfast.api.workloads import DaemonSet
from holdfast.app.recording.recording_file import RecordingFile
from holdfast.kube import cluster_access
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.http import HttpTransport
from holdfast.ports import Clock, Ids
from holdfast.runtime.cache import SILENT_S, Cache
from holdfast.runtime.metrics import Metrics
from holdfast.runtime.recorder import KubeRecorder
from holdfast.runtime.reflector import Reflector
from holdfast.runtime.supervision import Supervisor, Unexpected, until_first_ends
from holdfast.scenarios.catalog import CloudTerms
from holdfast.scenarios.history.pod_history import PodHistory
from holdfast.scenarios.history.shapes import Shapes

STEP_S: Final = 1.0
FLUSH_S: Final = 10
GAP_S: Final = SILENT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOptions:
    output: Path
    force: bool = False
    duration_s: int | None = None  # None: until `stop`
    kubeconfig: str = ""
    context: str = ""
    kept_labels: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Progress:
    at_s: int  # since the beginning
    pods: int
    size_bytes: int
    silent_s: int  # since the API server was heard last


Report = Callable[[Progress], None]


@contextlib.asynccontextmanager
async def connected(
    options: RecordOptions, *, environ: Mapping[str, str], clock: Clock, ids: Ids
) -> AsyncIterator[Client]:
    """A client that cannot write."""
    connection = cluster_access.connection(
        file=options.kubeconfig, context=options.context, environ=environ, clock=clock
    )
    transport = HttpTransport(connection)
    try:
        settings = ClientSettings()
        yield Client(transport=transport, clock=clock, ids=ids, settings=settings, may_write=lambda: False)
    finally:
        await transport.aclose()


class ClusterRecording:
    """`read` the cluster, `begin` the file, then `run` until the end."""

    def __init__(
        self, options: RecordOptions, terms: CloudTerms, *, kube: Client, clock: Clock, ids: Ids
    ) -> None:
        self._options = options
        self._kube = kube
        self._clock = clock
        self._ids = ids
        self._history = PodHistory(Shapes(ids.token(), terms, kept_labels=options.kept_labels))
        self._began_s: float | None = None  # of the monotonic clock
        self._file: RecordingFile | None = None
        self._gap_since_s: int | None = None
        self._pods = Cache(Pod, clock=clock, stored=_identity)
        self._pods.subscribe(self._on_pod)
        daemon_sets = Cache(DaemonSet, clock=clock)
        daemon_sets.subscribe(self._on_daemon_set)
        budgets = Cache(PodDisruptionBudget, clock=clock)
        budgets.subscribe(self._on_budget)
        self._caches: list[Cache[Any]] = [self._pods, daemon_sets, budgets]

    async def read(self) -> list[str]:
        """Lists everything once. Raises what prevents the list of pods; returns notes of what else cannot be read."""
        notes = []
        for cache in tuple(self._caches):
            try:
                await cache.replace(self._kube.pages(cache.kind))
            except errors.Unauthorized as error:
                if cache is self._pods:
                    raise
                self._caches.remove(cache)
                notes.append(f"{cache.kind.kind}s are not recorded: {error}")
        notes += [
            f"{one.kind} {one.metadata.namespace}/{one.metadata.name} is not recorded: {one.problem}"
            for cache in self._caches
            for one in cache.unreadable.values()
        ]
        return notes

    def begin(self) -> None:
        """Creates the file with what was read. Raises OSError."""
        self._began_s, begins_s = self._clock.monotonic_s(), self._clock.now_s()
        self._file = RecordingFile(self._options.output, force=self._options.force)
        version = metadata.version("holdfast")
        self._file.write([Header(holdfast_record=VERSION, begins=begins_s, holdfast=version)])
        self._file.write(self._history.begin(begins_s))
        self._file.flush()

    async def run(self, stop: asyncio.Event, report: Report) -> Progress:
        """Writes until `stop` is set or the time is over. Raises OSError of the file."""
        assert self._file is not None, "`begin` was not called"
        file = self._file
        try:
            async with self._followed():
                await self._write(file, stop, report)
            self._end_gap(self._at_s())
            file.write(self._history.finish(self._at_s()))
        finally:
            file.close()
        return self._progress(file)

    async def _write(self, file: RecordingFile, stop: asyncio.Event, report: Report) -> None:
        flushed_s = last_s = 0
        while not stop.is_set() and self._left_s() > 0:
            report(self._progress(file))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), min(STEP_S, self._left_s()))
            self._step(file, last_s)
            last_s = self._at_s()
            if last_s - flushed_s >= FLUSH_S:
                flushed_s = last_s
                file.flush()

    def _step(self, file: RecordingFile, last_s: int) -> None:
        """`last_s`: the time of the last step. A long time since then means that the process was suspended."""
        at_s, silent_s = self._at_s(), int(self._pods.silent_s)
        if self._gap_since_s is None and max(silent_s, at_s - last_s) >= GAP_S:
            self._gap_since_s = min(at_s - silent_s, last_s)
        if silent_s >= GAP_S:
            return
        self._end_gap(at_s)
        file.write(self._history.take(at_s, contact_s=at_s - silent_s))

    def _end_gap(self, at_s: int) -> None:
        if self._gap_since_s is not None:
            self._history.gap(self._gap_since_s, at_s)
            self._gap_since_s = None

    @contextlib.asynccontextmanager
    async def _followed(self) -> AsyncIterator[None]:
        """Inside the block the watches run. They start with a list, which passes on what changed since `read`."""
        metrics = Metrics((), strict=False)
        recorder = KubeRecorder(kube=self._kube, metrics=metrics, clock=self._clock, ids=self._ids)
        supervisor = Supervisor(
            Unexpected(clock=self._clock, recorder=recorder), clock=self._clock, ids=self._ids
        )
        watches = [
            supervisor.start(
                f"watch {cache.kind.plural}",
                Reflector(cache, kube=self._kube, clock=self._clock, ids=self._ids, recorder=recorder).run,
            )
            for cache in self._caches
        ]
        following = asyncio.create_task(until_first_ends(watches))
        try:
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    # --- Changes ----------------------------------------------------------------------------------------

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        is_new = before is None or after is None or before.metadata.uid != after.metadata.uid
        if before is not None and is_new:
            self._history.remove(before.metadata.uid, self._at_s())
        if after is not None:
            self._history.observe(after, self._at_s(), is_new=is_new)

    def _on_daemon_set(self, before: DaemonSet | None, after: DaemonSet | None) -> None:
        if before is not None and (after is None or before.metadata.uid != after.metadata.uid):
            self._history.remove_daemon_set(before.metadata.uid, self._at_s())
        if after is not None:
            self._history.observe_daemon_set(after, self._at_s())

    def _on_budget(self, before: PodDisruptionBudget | None, after: PodDisruptionBudget | None) -> None:
        if before is not None and (after is None or before.metadata.uid != after.metadata.uid):
            self._history.remove_budget(before.metadata.uid)
        if after is not None:
            self._history.observe_budget(after, self._at_s())

    # --- Times ------------------------------------------------------------------------------------------

    def _at_s(self) -> int:
        return 0 if self._began_s is None else int(self._clock.monotonic_s() - self._began_s)

    def _left_s(self) -> float:
        assert self._began_s is not None
        if self._options.duration_s is None:
            return STEP_S
        return self._options.duration_s - (self._clock.monotonic_s() - self._began_s)

    def _progress(self, file: RecordingFile) -> Progress:
        return Progress(self._at_s(), self._history.pods, file.size_bytes, int(self._pods.silent_s))


def _identity(pod: Pod) -> Pod:
    """What the cache needs of a pod. The history has the rest, until the pod ends."""
    meta: ObjectMeta = pod.metadata
    return Pod(
        metadata=ObjectMeta(
            name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version
        )
    )
