"""Creates NodeClaims for pending pods: batch, snapshot, plan, create, report.

The controller has one key, so one plan is made at a time. Unschedulable pods and deleting nodes open a window;
`trigger` (a launch failed, or a slot became free) plans at once. NodeClaims that are not launched yet are part of the
next snapshot, so a slow launch delays no other pod, and no pod is planned twice.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import structlog

from holdfast import names
from holdfast.api.kueue import Workload
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.controllers import recount
from holdfast.controllers.provisioning.batch import Batch
from holdfast.controllers.provisioning.creation import ClaimCreation
from holdfast.controllers.recount import Recount
from holdfast.controllers.slot_holds import SlotHolds
from holdfast.core.scheduling import gangs
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import Settings, SolveRequest
from holdfast.core.scheduling.output import admission, report, usable_types
from holdfast.core.scheduling.output.plan import Plan, PlannedClaim, Unplaced
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState, SnapshotResult
from holdfast.state.conversion import pod_states, provisioning_requests

KEY: Final[Key] = ("", "provisioning")
SOLVE_SECONDS: Final = "karpenter_scheduler_scheduling_duration_seconds"
UNSCHEDULABLE: Final = "karpenter_scheduler_unschedulable_pods_count"
IGNORED: Final = "karpenter_scheduler_ignored_pods_count"
BY_ZONE: Final = "karpenter_scheduler_pending_pods_by_effective_zone_count"
DECISION_SECONDS: Final = "karpenter_pods_scheduling_decision_duration_seconds"
QUEUE_DEPTH: Final = "karpenter_scheduler_queue_depth"
UNFINISHED: Final = "karpenter_scheduler_unfinished_work_seconds"
PLAN_COST: Final = "holdfast_plan_cost_usd_per_hour"
FIRST_FIT_COST: Final = "holdfast_plan_first_fit_cost_usd_per_hour"
SAVED: Final = "holdfast_plan_saved_usd_per_hour_total"
_OF_PLAN: Final = ("controller", "scheduling_id")
METRICS: Final = (
    Metric(SOLVE_SECONDS, "histogram", "Time a plan took.", ("controller",)),
    Metric(QUEUE_DEPTH, "gauge", "Pods of the plan that is being made.", _OF_PLAN),
    Metric(UNFINISHED, "gauge", "How long the plan that is being made has taken so far.", _OF_PLAN),
    Metric(PLAN_COST, "gauge", "What the nodes of the last plan with new nodes cost an hour, in USD."),
    Metric(FIRST_FIT_COST, "gauge", "What the nodes would cost with first fit for the same pods, in USD."),
    Metric(SAVED, "counter", "Sum over plans of what they cost less than first fit, in USD an hour."),
    Metric(UNSCHEDULABLE, "gauge", "Pods that the last plan did not place.", ("controller",)),
    Metric(IGNORED, "gauge", "Pods that were left out of the last plan, since no plan can be made for them."),
    Metric(
        BY_ZONE,
        "gauge",
        "Pending pods by the one zone that they can run in; flexible: several, none: no zone.",
        ("controller", "zone"),
    ),
    Metric(
        DECISION_SECONDS, "histogram", "From a pod's being seen to the first plan that has an answer for it."
    ),
)

_AGAIN_S: Final = 10.0  # between two plans while pods are not bound (P-1)
_NAMED_BY: Final = {"controller": "provisioner"}
_NANO: Final = 10**9


@dataclass(frozen=True, slots=True)
class BatchSettings:
    idle_s: float = 1.0
    longest_s: float = 10.0


@dataclass(frozen=True, slots=True)
class _Decided:
    plan: Plan
    by_zone: Counter[str]  # pending pods
    unusable: tuple[tuple[str, str], ...]  # NodePools, and why


def _decided(request: SolveRequest, catalogs: CatalogCache) -> _Decided:
    return _Decided(
        gangs.solve(request, catalogs),
        report.pending_by_zone(request.snapshot, catalogs),
        report.unusable_pools(request, catalogs),
    )


class Provisioner:
    name: Final = "provisioner"

    def __init__(
        self,
        *,
        cluster_state: ClusterState,
        caches: Caches,
        ports: Ports,
        settings: Settings,
        batching: BatchSettings,
        holds: SlotHolds,
    ) -> None:
        self._cluster_state = cluster_state
        self._holds = holds
        self._creation = ClaimCreation(cluster_state=cluster_state, caches=caches, ports=ports)
        self._recount = Recount(cluster_state, ports.clock)
        self._pods = caches.of(Pod)
        self._by_uid = self._pods.index(indexes.by_uid)
        self._pools = caches.of(NodePool)
        self._claims = caches.of(NodeClaim)
        self._compute = ports.compute
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._settings = settings
        self._catalogs = CatalogCache()
        self._zones: set[str] = set()  # zones of the gauge
        self._began_s: float | None = None  # when the plan that is being made began
        self._planned_pods = 0
        self._batch = Batch(batching.idle_s, batching.longest_s)
        self.first_seen_s: dict[
            str, float | None
        ] = {}  # since when a pod waits for its first plan; None: it was planned
        self._again_s: float | None = None  # the next plan for pods that are not bound
        self._wake: Callable[[Key], None] = lambda _: None
        self._log = structlog.get_logger().bind(controller=self.name)
        self._pods.subscribe(self._on_pod)
        caches.of(Node).subscribe(self._on_node)
        caches.of(NodeClaim).subscribe(self._on_claim)
        requests, templates = caches.find(ProvisioningRequest), caches.find(PodTemplate)
        if requests is not None and templates is not None:
            requests.subscribe(self._on_new)
            templates.subscribe(self._on_new)
            if (workloads := caches.find(Workload)) is not None:
                workloads.subscribe(self._on_workload)

    # --- Triggers -------------------------------------------------------------------------------------

    def watch(self, controller: Controller) -> None:
        """The caches have synced, so the first plan includes every pod."""
        self._wake = controller.add
        controller.add(KEY)

    def trigger(self) -> None:
        """Plans now: a launch failed, or a slot became free."""
        self._batch.trigger(self._clock.monotonic_s())
        self._wake(KEY)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        """kube-scheduler repeatedly sets a pod as unschedulable; this is ignored for a nominated pod. A nominated pod
        that was bound to another node counts: it uses capacity that was planned for other pods."""
        if after is None:
            self.first_seen_s.pop(before.metadata.uid if before is not None else "", None)
            return
        target = self._cluster_state.nominations.target_of(after.metadata.uid)
        if after.spec.node_name:
            self.first_seen_s.pop(after.metadata.uid, None)
            is_bound_now = before is None or not before.spec.node_name
            if is_bound_now and target is not None and not self._is_at(after.spec.node_name, target):
                self._add(after.metadata.uid)
        elif target is None and pod_states.is_provisionable(after):
            self.first_seen_s.setdefault(after.metadata.uid, self._clock.monotonic_s())
            self._add(after.metadata.uid)

    def _is_at(self, node: str, target: str) -> bool:
        """Whether the target of a nomination, a Node or a NodeClaim, is this node."""
        claim = self._claims.get(("", target))
        return node == target or (claim is not None and claim.status.node_name == node)

    def _on_node(self, _before: Node | None, after: Node | None) -> None:
        if after is not None and any(t.key == names.DISRUPTED_TAINT for t in after.spec.taints):
            self._add(after.metadata.uid)

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        """Pods of a deleting node need another node; if the claim has no instance, they are planned at once."""
        if before is None or before.metadata.deletion_timestamp is not None:
            return
        if after is None or after.metadata.deletion_timestamp is not None:
            if before.status.provider_id:
                self._add(before.metadata.uid)
            else:
                self.trigger()

    def _on_new(self, before: Object | None, after: Object | None) -> None:
        """A ProvisioningRequest, or a template of one."""
        if before is None and after is not None:
            self._add(after.metadata.uid)

    def _on_workload(self, before: Workload | None, after: Workload | None) -> None:
        """The pods of its request may be planned when it has quota."""
        if after is not None and not provisioning_requests.has_quota(before):
            self._add(after.metadata.uid)

    def _add(self, element: str) -> None:
        self._batch.add(element, self._clock.monotonic_s())
        self._wake(KEY)

    # --- One run --------------------------------------------------------------------------------------

    async def reconcile(self, _key: Key) -> Done | RequeueAfter:
        now_s = self._clock.monotonic_s()
        due_s = min(
            (at_s for at_s in (self._batch.ends_s(), self._again_s) if at_s is not None), default=None
        )
        if due_s is None:
            return Done()
        if now_s < due_s:
            return RequeueAfter(due_s - now_s, "waiting for more pods")
        self._batch.close(now_s)
        self._again_s = now_s  # if this run fails, the next one plans again
        self._creation.unsure |= set(await self._holds.ensure())
        await self._creation.settle()
        result, decided = await self._plan()
        if await self._recount.finds_slots(decided.plan.claims, result.snapshot):
            result, decided = await self._plan()
        lag_s = self._settings.ledger_lag_s
        if recount.is_next_to_doubtful_slots(decided.plan, result.snapshot, lag_s):
            lag_s = min(lag_s, recount.USUAL_LAG_S)
            decided = await self._decide(result, lag_s)
        plan = decided.plan
        self._answered((*(pod.uid for pod in result.snapshot.pending), *(one.pod for one in result.rejected)))
        written = await self._act(plan, result, lag_s)
        self._again_s = None
        left = len(plan.unplaced) + len(result.rejected)
        self._report(decided, result)
        self._report_not_reserved(written)
        did = f"created {len(written)} nodeclaim(s)" if written else ""
        nominated = len(self._cluster_state.nominations)
        is_complete = len(written) == len(plan.claims) and not self._cluster_state.requests.is_one_incomplete
        if not left and not nominated and is_complete:
            return Done(did)
        self._again_s = self._clock.monotonic_s() + _AGAIN_S
        return RequeueAfter(_AGAIN_S, f"{left} pods are not placed, {nominated} wait for their nodes", did)

    async def _plan(self) -> tuple[SnapshotResult, _Decided]:
        result = self._without_delayed(await self._cluster_state.snapshot())
        return result, await self._decide(result, self._settings.ledger_lag_s)

    def _without_delayed(self, result: SnapshotResult) -> SnapshotResult:
        """Rejects pods that are bound to none of several nodes that were launched for them: launches for a pod that is
        never bound must have a limit, whatever the cause."""
        delayed = self._cluster_state.nominations.delayed()
        if not delayed:
            return result
        found = [pod for pod in result.snapshot.pending if pod.uid in delayed]
        pending = tuple(pod for pod in result.snapshot.pending if pod.uid not in delayed)
        return dataclasses.replace(
            result,
            snapshot=dataclasses.replace(result.snapshot, pending=pending),
            rejected=(*result.rejected, *(Unplaced(pod.uid, (_not_bound(),)) for pod in found)),
        )

    async def _decide(self, result: SnapshotResult, lag_s: int) -> _Decided:
        self._began_s = began_s = self._clock.monotonic_s()
        self._planned_pods = len(result.snapshot.pending)
        decide = functools.partial(_decided, catalogs=self._catalogs)
        settings = dataclasses.replace(self._settings, ledger_lag_s=lag_s)
        try:
            decided = await self._compute.run(
                decide, SolveRequest(result.snapshot, settings, explain_claims=True)
            )
        finally:
            self._began_s = None
        self._recorder.observe(SOLVE_SECONDS, _NAMED_BY, self._clock.monotonic_s() - began_s)
        return decided

    async def _act(self, plan: Plan, result: SnapshotResult, lag_s: int) -> list[PlannedClaim]:
        """Creates the NodeClaims in parallel; a failure does not affect the others (P-7). Returns those that were
        created. `lag_s`: of the ledger that the plan was made with."""
        refused = self._refused({claim.node_pool for claim in plan.claims})
        pending = {pod.uid for pod in result.snapshot.pending}
        virtual = self._cluster_state.requests.uids
        allowed = [
            claim
            for claim in plan.claims
            if claim.node_pool not in refused and self._is_needed(claim, pending, virtual)
        ]
        used = {placed.node for placed in plan.placed}
        ready = {node.name for node in result.snapshot.nodes if node.name in used and node.initialized}
        for placed in plan.placed:
            self._cluster_state.nominations.nominate(placed.pods, placed.node, ready=placed.node in ready)
        with self._cluster_state.holding(
            Counter(claim.reservation_id for claim in allowed if claim.reservation_id), lag_s
        ) as held:
            writable = self._of_whole_gangs(tuple(self._with_slots(allowed, held)), plan, result)
            return await self._creation.create(
                writable, gangs.launched_together(result.snapshot, plan, writable)
            )

    def _is_needed(self, claim: PlannedClaim, pending: AbstractSet[str], virtual: AbstractSet[str]) -> bool:
        """Whether a pod of a planned claim still needs a node. During the plan, kube-scheduler may have bound its pods
        to capacity that became free. A pod of a draining node is bound anyway, and needs another node."""
        found = {pod.metadata.uid: pod for pod in self._pods_by_uid(claim.pods)}
        needed = any(
            uid in virtual or (uid in found and not (uid in pending and found[uid].spec.node_name))
            for uid in claim.pods
        )
        if not needed:
            why = "its pods were bound to other nodes or deleted while the plan was made"
            self._log.info("claim not written", nodepool=claim.node_pool, why=why)
        return needed

    def _with_slots(self, claims: Sequence[PlannedClaim], held: Counter[str]) -> Iterator[PlannedClaim]:
        """Claims with a held slot, and claims without a slot. If disruption took the slot, the pods are planned again
        with the next batch."""
        left = held.copy()
        for claim in claims:
            if claim.reservation_id is None:
                yield claim
            elif left[claim.reservation_id]:
                left[claim.reservation_id] -= 1
                yield claim
            else:
                why = f"the slot of {claim.reservation_id} was taken meanwhile"
                self._log.info("claim not written", nodepool=claim.node_pool, why=why)
                for pod in claim.pods:
                    self._add(pod)

    def _of_whole_gangs(
        self, claims: tuple[PlannedClaim, ...], plan: Plan, result: SnapshotResult
    ) -> tuple[PlannedClaim, ...]:
        """The claims without those of gangs of which another claim cannot be written. Their pods are planned again with
        the next batch."""
        if not result.snapshot.gangs:
            return claims
        uids = [pod for claim in plan.claims for pod in claim.pods]
        uids += [pod for placed in plan.placed for pod in placed.pods]
        virtual = self._cluster_state.requests.uids
        present = virtual.union(pod.metadata.uid for pod in self._pods_by_uid(uids))
        whole = gangs.whole_claims(result.snapshot, plan, claims, present)
        kept = set(map(id, whole))  # to compare claims would cost the square of their number
        for claim in claims:
            if id(claim) not in kept:
                why = "another node of its gang cannot be launched now"
                self._log.info("claim not written", nodepool=claim.node_pool, why=why)
                for pod in claim.pods:
                    self._add(pod)
        return whole

    def _refused(self, pools: Iterable[str]) -> set[str]:
        """NodePools that were deleted or exceeded a limit during the plan (S-73)."""
        found = set()
        for name in sorted(pools):
            pool = self._cluster_state.pool(name)
            why = admission.why_refused(pool) if pool is not None else None
            if pool is None or why is not None:
                self._log.info("claims not written", nodepool=name, why=why.text if why else "it is gone")
                found.add(name)
        return found

    # --- Events and metrics -------------------------------------------------------------------------

    def _answered(self, uids: Iterable[str]) -> None:
        now_s = self._clock.monotonic_s()
        for uid in uids:
            since_s = self.first_seen_s.get(uid)
            if since_s is not None:
                self._recorder.observe(DECISION_SECONDS, {}, now_s - since_s)
                self.first_seen_s[uid] = None

    def measure(self) -> None:
        """Sets the metrics of the plan that is being made; for a scrape."""
        about = _NAMED_BY | {"scheduling_id": ""}  # one plan is made at a time
        age_s = 0.0 if self._began_s is None else self._clock.monotonic_s() - self._began_s
        self._recorder.gauge(QUEUE_DEPTH, about, 0 if self._began_s is None else self._planned_pods)
        self._recorder.gauge(UNFINISHED, about, age_s)

    def _measure_cost(self, plan: Plan) -> None:
        """Plans that place different numbers of pods are not compared."""
        if not plan.claims:
            return
        cost, first_fit = plan.price_nano_usd_per_hour / _NANO, plan.baseline_nano_usd_per_hour / _NANO
        self._recorder.gauge(PLAN_COST, {}, cost)
        self._recorder.gauge(FIRST_FIT_COST, {}, first_fit)
        if plan.baseline_unplaced == len(plan.unplaced):
            self._recorder.count(SAVED, {}, max(0.0, first_fit - cost))

    def _report(self, decided: _Decided, result: SnapshotResult) -> None:
        plan = decided.plan
        others = sorted(
            pool.metadata.name
            for pool in self._pools
            if not self._cluster_state.is_ours(pool.spec.template.spec.node_class_ref)
        )
        events = report.events(dataclasses.replace(plan, unplaced=(*plan.unplaced, *result.rejected)), others)
        by_uid = {pod.metadata.uid: pod for pod in self._pods_by_uid(one.pod for one in events)}
        for one in events:
            if one.pod in by_uid:
                self._recorder.event(by_uid[one.pod], one.event, one.text, warning=one.warning)
        self._cluster_state.reasons.planned(
            plan, result.rejected, (*result.unserved, *decided.unusable), self._clock.now_s()
        )
        self._measure_cost(plan)
        self._recorder.gauge(UNSCHEDULABLE, _NAMED_BY, len(plan.unplaced))
        self._recorder.gauge(IGNORED, {}, len(result.rejected))
        for zone in self._zones | set(decided.by_zone):
            self._recorder.gauge(BY_ZONE, _NAMED_BY | {"zone": zone}, decided.by_zone[zone])
        self._zones = set(decided.by_zone)
        pool_events = [("NodePoolNotServed", *one) for one in result.unserved]
        pool_events += [(usable_types.NO_COMPATIBLE_TYPES, *one) for one in decided.unusable]
        for event, name, why in pool_events:
            pool = self._pools.get(("", name))
            if pool is not None:
                self._recorder.event(pool, event, why, warning=True)

    def _report_not_reserved(self, written: Iterable[PlannedClaim]) -> None:
        """After all other events of the plan: if there are too many, these are dropped first."""
        for planned in written:
            why = report.why_not_reserved(planned)
            for pod in self._pods_by_uid(planned.pods) if why else ():
                self._recorder.event(pod, report.NOT_RESERVED, why)

    def _pods_by_uid(self, uids: Iterable[str]) -> list[Pod]:
        return [pod for uid in uids for pod in self._by_uid.get(uid)]


def _not_bound() -> Reason:
    text = (
        "several nodes were launched for this pod, and kube-scheduler bound it to none of them, so the next one is "
        "delayed; compare the events of kube-scheduler with the labels and taints of the nodes"
    )
    return Reason(ReasonCode.NOT_BOUND, text)
