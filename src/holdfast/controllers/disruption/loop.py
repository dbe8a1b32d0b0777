"""The disruption loop decides which nodes to disrupt, validates the command after a delay, and passes it to the queue.

It has one key, so it makes one decision at a time while the queue executes earlier commands. A command that saves money
is validated some seconds after the decision and started only if it is still valid (D-16, D-42). A taint or condition of
a NodeClaim without a command is removed (D-1). A replacement that waits too long for a slot that was taken is deleted.
Before the queue taints a node, its pods are listed from the API server: a pod that was not in the decision's snapshot
stops the command.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Final, cast

import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions, reboots
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.controllers import status_patch
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.controllers.disruption.queue import Queue
from holdfast.controllers.disruption.reporter import DisruptionReporter
from holdfast.controllers.disruption.taints import DisruptionTaints
from holdfast.controllers.provisioning.provisioner import SOLVE_SECONDS
from holdfast.controllers.recount import Recount
from holdfast.core.disruption import decide, unchanged, validation, waiting_replacements
from holdfast.core.disruption.candidates import CandidateCache
from holdfast.core.disruption.commands import Action, Decision, DecisionCache, DisruptionCommand, Method, Move
from holdfast.core.disruption.inputs import DisruptionInput, Settings
from holdfast.core.disruption.validation import Invalid
from holdfast.core.scheduling.input import columns
from holdfast.model import prices
from holdfast.model.decisions import DecisionType
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import disruption_commands, disruption_input, pod_states
from holdfast.state.conversion.disruption_input import Changes, FactsCache, Objects

KEY: Final[Key] = ("", "disruption")
_EVERY_S: Final = 10.0
_AGAIN_S: Final = 1.0  # after a command was started or rejected
_VALIDATION_S: Final = 15.0  # between the decision and its validation
_SLOT_FREE: Final = "a slot that its replacements may use became free"
_NOT_VALIDATED: Final = (Method.DRIFT, Method.REPAIR)  # necessary at any cost (D-18)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A command that is validated at `due_s`."""

    command: DisruptionCommand
    due_s: float
    moves_before: tuple[Move, ...] | None


@dataclass(frozen=True, slots=True)
class _Nothing:
    """The last decision had no command. An equal cluster gets none until `until_s`."""

    cluster: DisruptionInput
    until_s: int

    def holds_for(self, cluster: DisruptionInput, settings: Settings) -> bool:
        lag_s = settings.solving.ledger_lag_s
        return cluster.now_s < self.until_s and unchanged.is_same(self.cluster, cluster, lag_s)


class Disruption:
    name: Final = "disruption"

    def __init__(
        self, *, cluster_state: ClusterState, caches: Caches, ports: Ports, queue: Queue, settings: Settings
    ) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim)
        self._nodes = caches.of(Node)
        self._all_pods = caches.of(Pod)
        self._pods = self._all_pods.index(indexes.by_node)
        self._pools = caches.of(NodePool)
        self._repair_policies = ports.cloud.repair_policies
        self._kube = ports.kube
        self._compute = ports.compute
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._queue = queue
        self._settings = settings
        self._recount = Recount(cluster_state, ports.clock)
        self._taints = DisruptionTaints(caches=caches, ports=ports)
        self._end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)
        self._reporter = DisruptionReporter(caches=caches, ports=ports)
        self._changes = Changes(caches)
        self._facts = FactsCache()
        self._cache = DecisionCache()
        self._planner = columns.CatalogCache()
        self._candidates = CandidateCache()
        self._pending: _Pending | None = None
        self._nothing: _Nothing | None = None
        self._log = structlog.get_logger().bind(controller=self.name)

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        await self._remove_orphaned_taints()
        now_s = self._clock.monotonic_s()
        if self._pending is not None and now_s < self._pending.due_s:
            return RequeueAfter(self._pending.due_s - now_s, "validation of the command")
        cluster = await self._input()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            return await self._validate(pending, cluster)
        if self._nothing is not None and self._nothing.holds_for(cluster, self._settings):
            self._cache = unchanged.cache_after(cluster, self._cache)
            self._cluster_state.reasons.still_decided(self._clock.now_s())
            self._reporter.still_decided()
            return RequeueAfter(_EVERY_S, "nothing changed since no node was to be disrupted")
        decision = await self._decide(cluster)
        await self._end_overdue_waits(cluster)
        command = decision.command
        if command is None:
            until_s = unchanged.holds_until_s(cluster, self._settings, decision)
            self._nothing = _Nothing(cluster, until_s)
            return RequeueAfter(_EVERY_S, "no node to disrupt")
        if command.method in _NOT_VALIDATED:
            if await self._finds_slots(command, cluster):
                return RequeueAfter(_AGAIN_S, _SLOT_FREE)
            return await self._start(command, cluster)
        return RequeueAfter(_VALIDATION_S, f"validation of the command: {command.why}")

    async def _input(self) -> DisruptionInput:
        changed = self._changes.number  # before the snapshot, so that no later change is missed
        result = await self._cluster_state.snapshot()
        objects = Objects(
            [
                pool
                for pool in self._pools
                if self._cluster_state.is_ours(pool.spec.template.spec.node_class_ref)
            ],
            self._cluster_state.node_objects(),
            self._unreadable(),
        )
        convert = functools.partial(
            disruption_input.disruption_input, objects=objects, changed=changed, cache=self._facts
        )
        return await self._compute.run(convert, result.snapshot)  # takes 0.1 s for 5000 nodes

    def _unreadable(self) -> frozenset[str] | None:
        """Nodes and NodeClaims that are not disrupted, since they or pods on them cannot be decoded. None: all."""
        nodes = {pod.node_name for pod in self._all_pods.unreadable.values() if pod.node_name != ""}
        named = {name for cache in (self._nodes, self._claims) for _, name in cache.unreadable}
        found = frozenset(nodes | named)
        return None if not found.isdisjoint((None, "")) else cast("frozenset[str]", found)

    # --- Decide ---------------------------------------------------------------------------------------

    async def _decide(self, cluster: DisruptionInput) -> Decision:
        began_s = self._clock.monotonic_s()
        decide_ = functools.partial(
            decide.decide,
            settings=self._settings,
            cache=self._cache,
            repair_policies=self._repair_policies,
            planner=self._planner,
            candidates=self._candidates,
        )
        decision = await self._compute.run(decide_, cluster)
        self._recorder.observe(SOLVE_SECONDS, {"controller": self.name}, self._clock.monotonic_s() - began_s)
        if decision.command is not None and decision.command.method not in _NOT_VALIDATED:
            due_s = self._clock.monotonic_s() + _VALIDATION_S
            self._pending = _Pending(decision.command, due_s, self._cache.moves)
        self._cache = decision.cache
        self._cluster_state.reasons.decided(decision, self._clock.now_s())
        self._reporter.decided(decision, self._clock.monotonic_s() - began_s)
        return decision

    async def _validate(self, pending: _Pending, cluster: DisruptionInput) -> RequeueAfter:
        check = functools.partial(
            validation.still_valid,
            pending.command,
            settings=self._settings,
            planner=self._planner,
            candidates=self._candidates,
        )
        found = await self._compute.run(check, cluster)
        if isinstance(found, DisruptionCommand) and await self._finds_slots(found, cluster):
            found = Invalid("scheduling", _SLOT_FREE)
        if isinstance(found, DisruptionCommand):
            return await self._start(found, cluster, pending)
        self._forget_moves(pending)
        self._reporter.rejected(pending.command, found)
        return RequeueAfter(_AGAIN_S, f"the command is not valid any more: {found.why}")

    async def _finds_slots(self, command: DisruptionCommand, cluster: DisruptionInput) -> bool:
        """Whether a replacement outside of reservations could use a slot that was released since the last count."""
        planned = [one.claim for one in command.replacements]
        return await self._recount.finds_slots(planned, cluster.snapshot)

    def _forget_moves(self, pending: _Pending) -> None:
        """The cool-down of pods does not count a command that was not executed."""
        self._cache = dataclasses.replace(self._cache, moves=pending.moves_before)

    # --- Act ------------------------------------------------------------------------------------------

    async def _start(
        self, command: DisruptionCommand, cluster: DisruptionInput, pending: _Pending | None = None
    ) -> RequeueAfter:
        """`pending`: what was validated; None: the command needs no validation."""
        claims = self._claims_of(command, cluster)
        if len(claims) < len(command.candidates) and command.action is not Action.DELETE:
            if pending is not None:
                self._forget_moves(pending)
            return RequeueAfter(_AGAIN_S, "a candidate was deleted")
        try:
            await self._check_pods(claims, cluster)
            if command.action is Action.REBOOT:
                await self._reboot(command, claims)
            else:
                await self._queue.start(command, claims)
        except (errors.Terminal, errors.NotReady, errors.NotFound, errors.Conflict) as error:
            self._log.info("abandoning disruption attempt", error=str(error), command=command.why)
            if pending is not None:
                self._forget_moves(pending)
            return RequeueAfter(_EVERY_S, f"the command was not started: {error}")
        self._reporter.started(command, claims)
        self._report_started(command, claims)
        did = f"disrupting node(s) {', '.join(command.candidates)}: {command.reason}/{command.action}: {command.why}"
        return RequeueAfter(_AGAIN_S, "next decision", did)

    def _report_started(self, command: DisruptionCommand, claims: tuple[NodeClaim, ...]) -> None:
        saved = command.saves_nano_usd_per_hour
        savings = [f"It saves ${prices.text(saved)} an hour."] if saved > 0 else []
        into = [
            f"Replacement: {one.claim.instance_type} in {one.claim.zone}, {one.claim.capacity_type}"
            for one in command.replacements
        ]
        for claim in claims:
            text = f"{command.action.title()} node {claim.status.node_name}: {command.reason}: {command.why}"
            self._recorder.decision(DecisionType.DISRUPTION, claim, text, [*savings, *into])

    async def _check_pods(self, claims: tuple[NodeClaim, ...], cluster: DisruptionInput) -> None:
        """Raises NotReady if a candidate has, or is nominated for, a pod that was not in the decision's snapshot: the
        watch of pods is behind, or the pod was bound or planned during the decision."""
        names_ = {claim.metadata.name for claim in claims}
        nodes = (node for node in cluster.snapshot.nodes if node.claim in names_)
        known = {node.claim: {pod.uid for pod in node.pods} for node in nodes}
        nominated = self._cluster_state.nominations.targets()
        for claim in claims:
            node = claim.status.node_name
            if not node:
                continue
            if node in nominated or claim.metadata.name in nominated:
                raise errors.NotReady(f"node {node} was nominated for a pending pod since the decision")
            for pod in (await self._kube.list(Pod, field_selector=f"spec.nodeName={node}")).items:
                is_known = pod.metadata.uid in known.get(claim.metadata.name, ())
                # Pods that tolerate the taint count too: they are not evicted, and would be deleted with the node.
                if not is_known and pod_states.is_reschedulable(pod, pod_states.owner(pod)):
                    found = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    raise errors.NotReady(f"pod {found} was bound to node {node} since the decision")

    async def _reboot(self, command: DisruptionCommand, claims: tuple[NodeClaim, ...]) -> None:
        """Writes the annotations before the condition that starts the reboot. So the reboot is counted even if this
        process exits in between, and the evicted pods wait for the node."""
        now_s = self._clock.now_s()
        for claim in claims:
            bound_s = command.drain_bound_s
            written = {
                names.REBOOTS: reboots.and_one(claim, now_s),
                names.HELD_FOR: pod_states.makers(self._pods.get(claim.status.node_name or "")),
                names.REBOOT_TERMINATION_GRACE_PERIOD: None if bound_s is None else f"{bound_s}s",
                names.REBOOT_PRE_BOOT_ID: None,
            }
            patched = await self._kube.patch(claim, {"metadata": {"annotations": written}})
            found = conditions.edit(patched, now_s=now_s)
            found.put(claim_conditions.REBOOTING, conditions.TRUE, "RebootRequested", command.why)
            await status_patch.write(self._kube, patched, found.changes)

    def _claims_of(self, command: DisruptionCommand, cluster: DisruptionInput) -> tuple[NodeClaim, ...]:
        by_name = {node.name: node.claim for node in cluster.snapshot.nodes}
        found = (self._claims.get(("", by_name.get(name) or "")) for name in command.candidates)
        return tuple(one for one in found if one is not None and one.metadata.deletion_timestamp is None)

    async def _remove_orphaned_taints(self) -> None:
        """Removes taints and conditions without a command. Karpenter leaves them: a restart clears its queue (D-1)."""
        for claim in self._taints.disrupted():
            node = self._taints.node_of(claim)
            deleting = claim.metadata.deletion_timestamp or (node and node.metadata.deletion_timestamp)
            ours = self._cluster_state.is_ours(claim.spec.node_class_ref)
            has_command = deleting or disruption_commands.of(claim) is not None
            if ours and not has_command:
                await self._taints.remove(claim)

    async def _end_overdue_waits(self, cluster: DisruptionInput) -> None:
        lag_s = self._settings.solving.ledger_lag_s
        for one in waiting_replacements.overdue(cluster, self._settings.slot_wait_s, lag_s):
            claim = self._claims.get(("", one.claim))
            if claim is not None:
                self._recorder.event(claim, "SlotTaken", one.why, warning=True)
                await self._end.end(claim, "insufficient_capacity", why=one.why)
