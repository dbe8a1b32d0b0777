"""A read-only view of a running cluster and its AWS account, for `holdfast plan --live`, `snapshot` and `explain`.

It is the `App` of `holdfast run` with the same settings and a fence that lets no write pass: no Lease, no controllers, no
interruption queue. The caches are filled by one list of each kind. AWS is read once. A NodePool or a class that no
controller has resolved yet is resolved in memory only, so a plan can be made before Holdfast is installed.

What only the memory of the leader has is missing here: which pods it nominated, and which offerings were out of capacity
a short time ago. Pods that wait for NodeClaims in flight are planned onto these NodeClaims, as by a new leader.
"""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from holdfast import errors
from holdfast.api import claim_conditions, conditions, kinds
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.app import production
from holdfast.app.program import Adapters, App
from holdfast.app.settings import Program, Settings
from holdfast.cloud.aws.provider import Aws
from holdfast.core.scheduling.gangs import solve
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Plan, Unplaced
from holdfast.kube.client import Client
from holdfast.model import resources
from holdfast.model.snapshot import Snapshot
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.clock import RealClock
from holdfast.state.cluster.cluster_state import ClusterState, SnapshotResult
from holdfast.state.conversion import nodepools


@dataclass(frozen=True, slots=True)
class LivePlan:
    """A plan for the pending pods of a cluster. Nothing of it was carried out."""

    plan: Plan  # its pods are uids
    rejected: tuple[Unplaced, ...]  # pending pods that no plan can be made for
    unserved: tuple[tuple[str, str], ...]  # NodePools that the plan does not use, and why
    snapshot: Snapshot
    pod_names: Mapping[str, str]  # namespace and name, by uid


class LiveCluster:
    """What was read. It does not change: read again for newer values."""

    def __init__(self, app: App, notes: tuple[str, ...]) -> None:
        self._app = app
        self._snapshot: SnapshotResult | None = None
        self.notes = notes  # what could not be read, and what was resolved in memory only
        self.read_s = app.ports.clock.now_s()

    @property
    def app(self) -> App:
        """The program that read. It cannot write."""
        return self._app

    @property
    def settings(self) -> Settings:
        return self._app.settings

    @property
    def caches(self) -> Caches:
        return self._app.caches

    @property
    def cloud(self) -> Aws:
        return self._app.cloud

    @property
    def clock(self) -> Clock:
        return self._app.ports.clock

    @property
    def cluster_state(self) -> ClusterState:
        return self._app.cluster_state

    async def snapshot(self) -> SnapshotResult:
        """The snapshot of what was read; the same object at every call."""
        if self._snapshot is None:
            self._snapshot = await self.cluster_state.snapshot()
        return self._snapshot

    async def plan(self, settings: PlanSettings | None = None) -> LivePlan:
        """The plan that the leader would make now. Its reasons are in `cluster_state` afterwards. `settings`
        replace those of the program."""
        result = await self.snapshot()
        planning = settings or self.settings.planning
        request = SolveRequest(result.snapshot, planning, explain_slots=True, explain_claims=True)
        plan = await self._app.ports.compute.run(solve, request)
        unserved = self.unserved(result)
        self.cluster_state.reasons.planned(plan, result.rejected, unserved, result.snapshot.taken_s)
        for placed in plan.placed:
            self.cluster_state.nominations.nominate(placed.pods, placed.node, ready=False)
        names = {
            pod.metadata.uid: f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in self.caches.of(Pod)
        }
        return LivePlan(plan, result.rejected, unserved, result.snapshot, names)

    def unserved(self, result: SnapshotResult) -> tuple[tuple[str, str], ...]:
        """Our NodePools that the snapshot does not have, and why."""
        ours = {
            (self.cloud.node_classes.kind.api_version.partition("/")[0], self.cloud.node_classes.kind.kind)
        }
        known = {name for name, _ in result.unserved}
        found = (
            (pool.metadata.name, nodepools.why_no_nodes(pool, ours, needs_ready=True))
            for pool in self.caches.of(NodePool)
            if self.cluster_state.is_ours(pool.spec.template.spec.node_class_ref)
        )
        not_ready = [(name, why) for name, why in found if why is not None and name not in known]
        return tuple(sorted((*result.unserved, *not_ready)))


@contextlib.asynccontextmanager
async def reading(program: Program, *, environ: Mapping[str, str]) -> AsyncIterator[LiveCluster]:
    """Connects as `holdfast run` does, and reads. Raises what prevents it."""
    clock = RealClock()
    connection = production.connect(program, environ, clock)
    async with production.adapters_of(program, connection, clock) as adapters:
        kube = Client(
            transport=adapters.transport, clock=clock, ids=adapters.ids, settings=program.app.client
        )
        settings = await production.completed(program.app, kube, connection, await kube.version())
        yield await read(read_only_app(settings, adapters))


def read_only_app(settings: Settings, adapters: Adapters) -> App:
    """The program without leader election, queue and dry runs, which are writes for the fence."""
    changed = dataclasses.replace(settings, election=None, interruption_queue="", dry_runs=False)
    return App(changed, adapters, read_only=True)


async def read(app: App) -> LiveCluster:
    """The cluster and the account behind an app of `read_only_app`."""
    failures = await app.read_once()
    if "instance-types" in failures:  # without them nothing can be planned
        raise failures["instance-types"]
    notes = [f"{source} cannot be read from AWS: {error}" for source, error in sorted(failures.items())]
    notes += [
        f"{one.kind} {one.metadata.namespace}/{one.metadata.name} cannot be decoded: {one.problem}"
        for cache in app.caches
        for one in cache.unreadable.values()
    ]
    notes += await _resolve(app)
    await _record_capacity(app)
    return LiveCluster(app, tuple(notes))


# --- What no controller has resolved yet ------------------------------------------------------------------


async def _resolve(app: App) -> list[str]:
    """Resolves classes that have no status yet, then the NodePools, in memory. Returns notes."""
    notes, now_s = [], app.ports.clock.now_s()
    kind = app.cloud.node_classes.kind
    for node_class in tuple(app.caches.of(kind)):
        if conditions.find(conditions.of(node_class), conditions.READY) is None:
            resolved = _with_status(node_class, await app.cloud.resolve(node_class))
            app.caches.of(kind).written(resolved)
            notes.append(
                f"{kind.kind} {node_class.metadata.name} has no status yet: it was resolved in memory, {_ready(resolved)}"
            )
    for pool in tuple(app.caches.of(NodePool)):
        reference = pool.spec.template.spec.node_class_ref
        is_known = conditions.find(pool.status.conditions, conditions.READY) is not None
        found = app.cluster_state.node_class(reference)
        if is_known or found is None or not conditions.holds(conditions.of(found), conditions.READY):
            continue
        if not list(nodepools.problems(pool, app.cloud.labels.well_known)):
            edited = conditions.edit(pool, now_s=now_s)
            edited.put(conditions.READY, conditions.TRUE)
            ready = _with_status(pool, {"conditions": msgspec.to_builtins(edited.all)})
            app.caches.of(NodePool).written(ready)
            notes.append(
                f"NodePool {pool.metadata.name} has no status yet: it is used because its class is ready"
            )
    return notes


def _with_status(obj: Any, status: Mapping[str, Any]) -> Any:
    """The object with a status that is not written to the API server. The cache takes only newer versions."""
    there = to_wire(obj)
    newer = str(int(obj.metadata.resource_version) + 1)
    changed: dict[str, Any] = {
        **there,
        "metadata": {**there["metadata"], "resourceVersion": newer},
        "status": {**there.get("status", {}), **status},
    }
    return kinds.from_plain(changed, type(obj))


def _ready(node_class: Object) -> str:
    found = conditions.find(conditions.of(node_class), conditions.READY)
    if found is not None and found.status == conditions.TRUE:
        return "and it is ready"
    return f"and it is not ready: {found.message or found.reason}" if found is not None else "without result"


async def _record_capacity(app: App) -> None:
    """The memory that nodes report, as a leader records it after its start: the types in the catalog get it."""
    nodes = app.caches.of(Node).index(indexes.by_provider_id)
    for claim in tuple(app.caches.of(NodeClaim)):
        node = next(iter(nodes.get(claim.status.provider_id or "")), None)
        node_class = app.cluster_state.node_class(claim.spec.node_class_ref)
        is_initialized = conditions.holds(claim.status.conditions, claim_conditions.INITIALIZED)
        if node is not None and node_class is not None and is_initialized:
            with contextlib.suppress(errors.InvalidInput):
                capacity = resources.parse_readable(node.status.capacity)
                await app.cloud.record_capacity(claim, node_class, capacity)
