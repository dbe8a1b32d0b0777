"""The disruption queue executes commands: it creates the replacements, waits until they are initialized, and deletes
the candidates; or it rolls the command back.

Each command is one key, triggered by the NodeClaims of the command; the disruption loop calls `start`. All state is in
the annotations of the candidates (state/conversion/disruption_commands), so after a restart the queue continues a
command if all of its replacements exist, and rolls it back otherwise. `start` itself deletes the candidates of a
command without replacements: the queue finds such a command only if a crash interrupted `start`. A replacement that
waits for the slot of its candidate is not waited for.
"""

import dataclasses
from typing import Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.controllers import claim_end, claim_writing
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.controllers.disruption.taints import DisruptionTaints
from holdfast.core.disruption.commands import DisruptionCommand, Replacement
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.core.scheduling.output import admission
from holdfast.model import wording
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import claim_explanations, disruption_commands, pod_states, times

FAILURES: Final = "karpenter_voluntary_disruption_queue_failures_total"
PODS_DISRUPTED: Final = "karpenter_pods_disruption_initiated_total"
METRICS: Final = (
    Metric(
        FAILURES,
        "counter",
        "Commands that failed and were rolled back.",
        ("decision", "reason", "consolidation_type"),
    ),
    Metric(
        PODS_DISRUPTED,
        "counter",
        "Pods that are evicted because their node is disrupted, without those of DaemonSets.",
        claim_end.LABELS,
    ),
)
_TIMEOUT_S: Final = 600
_CHECK_S: Final = 10.0
_SUFFIX: Final = 8


class Queue:
    name: Final = "disruption.queue"

    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim)
        self._by_command = self._claims.index(_command_id)
        self._by_replacement = self._claims.index(_replacement_names)
        self._pods = caches.of(Pod).index(indexes.by_uid)
        self._pods_on = caches.of(Pod).index(indexes.by_node)
        self._pools = caches.of(NodePool)
        self._taints = DisruptionTaints(caches=caches, ports=ports)
        self._end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)
        self._kube = ports.kube
        self._labels = ports.cloud.labels
        self._clock = ports.clock
        self._ids = ports.ids
        self._recorder = ports.recorder
        self._starting: set[str] = set()

    def watch(self, controller: Controller) -> None:
        self._controller = controller
        controller.watch(self._claims, self._keys)

    def _keys(self, claim: NodeClaim) -> list[Key]:
        about = (claim, *self._by_replacement.get(claim.metadata.name))
        ours = [one for one in about if self._cluster_state.is_ours(one.spec.node_class_ref)]
        return [("", id_) for one in ours for id_ in _command_id(one)]

    # --- Start ----------------------------------------------------------------------------------------

    async def start(self, command: DisruptionCommand, candidates: tuple[NodeClaim, ...]) -> DisruptionCommand:
        """Taints the candidates and creates the replacements; without replacements, deletes the candidates. Raises
        NotReady if a replacement cannot be launched: its NodePool is deleted or at a limit, or its slot was taken."""
        claims = [self._node_claim(one, command) for one in command.replacements]
        started = dataclasses.replace(
            command,
            id=self._ids.token(),
            started_s=self._clock.now_s(),
            replacement_names=tuple(claim.metadata.name for claim in claims),
        )
        with self._cluster_state.holding(command.slots_needed) as held:
            taken = command.slots_needed - held
            if taken:
                raise errors.NotReady(f"a slot of {', '.join(sorted(taken))} was taken since the decision")
            self._starting.add(started.id)
            try:
                await self._execute(started, candidates, claims)
            finally:
                self._starting.discard(started.id)
                self._controller.add(("", started.id))
        return started

    async def _execute(
        self, command: DisruptionCommand, candidates: tuple[NodeClaim, ...], claims: list[NodeClaim]
    ) -> None:
        if command.reason is DisruptionReason.UNDERUTILIZED:
            await self._record_consolidation(candidates)
        tainted = []
        for claim in candidates:
            try:
                await self._taints.add(claim, command)
            except (errors.NotFound, errors.Conflict):
                if claims:
                    raise
                continue
            tainted.append(claim)
        for claim in claims:
            await self._kube.create(claim)
            claim_writing.count(self._recorder, claim, command.reason.lower())
        if not claims:
            await self._delete(command, tainted)

    async def _record_consolidation(self, candidates: tuple[NodeClaim, ...]) -> None:
        """Called before pods are evicted, so that the cool-down also applies after a restart."""
        now = times.text(self._clock.now_s())
        for name in sorted({one.metadata.labels.get(names.NODEPOOL, "") for one in candidates}):
            pool = self._pools.get(("", name))
            if pool is not None:
                await self._kube.patch(pool, {"metadata": {"annotations": {names.CONSOLIDATED: now}}})

    def _node_claim(self, one: Replacement, command: DisruptionCommand) -> NodeClaim:
        """The NodeClaim to create. Raises NotReady if its NodePool is deleted or allows no further node."""
        name = one.claim.node_pool
        pool, view = self._pools.get(("", name)), self._cluster_state.pool(name)
        if pool is None or view is None:
            raise errors.NotReady(f"NodePool {name} does not exist")
        refused = admission.why_refused(view)
        if refused is not None:
            raise errors.NotReady(f"NodePool {name}: {refused.text}")
        pods = [pod for uid in one.claim.pods for pod in self._pods.get(uid)]
        cause = f"Replaces {wording.listed(command.candidates)}: {command.reason}: {command.why}"
        explanation = claim_explanations.annotation(one.claim, pods, cause=cause, now_s=self._clock.now_s())
        held = explanation | claim_writing.hold_annotations(one, pods)
        token = self._ids.token()[:_SUFFIX]
        return claim_writing.node_claim(
            one.claim, pool, f"{name}-{token}", self._labels.well_known, annotations=held
        )

    # --- Until the candidates are deleted -------------------------------------------------------------

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        id_ = key[1]
        candidates = [one for one in self._by_command.get(id_) if one.metadata.deletion_timestamp is None]
        command = disruption_commands.of(candidates[0]) if candidates else None
        if command is None or id_ in self._starting:
            return Done()
        found = [self._claims.get(("", name)) for name in command.replacement_names]
        existing = [one for one in found if one is not None and one.metadata.deletion_timestamp is None]
        starting = [one for one in existing if not _is_ready(one)]
        if not command.replacement_names:
            return await self._roll_back(command, candidates, "the start of the command was interrupted")
        if len(existing) < len(found):
            return await self._roll_back(command, candidates, "a replacement NodeClaim was deleted")
        if starting and self._clock.now_s() >= command.started_s + _TIMEOUT_S:
            why = f"a replacement was not initialized within {_TIMEOUT_S} s"
            return await self._roll_back(command, candidates, why)
        if starting:
            self._report_progress(starting, command)
            return RequeueAfter(_CHECK_S, f"{len(starting)} replacements are not initialized")
        await self._delete(command, candidates)
        return Done(f"deleted {', '.join(claim.metadata.name for claim in candidates)}: {command.why}")

    async def _delete(self, command: DisruptionCommand, candidates: list[NodeClaim]) -> None:
        bound_s = command.drain_bound_s
        until_s = self._clock.now_s() + bound_s if bound_s is not None else None
        about = f"{command.reason}/{command.action.title()}: {command.why}"
        for claim in candidates:
            self._report(claim, "DisruptionTerminating", "Disrupting {}: " + about)
            policy = self._policy(claim) if command.consolidation_type else ""
            labels = claim_end.labels(claim, command.reason.lower(), policy)
            pods = [pod for pod in self._pods_on.get(claim.status.node_name or "") if _is_moved(pod)]
            if await self._end.end(
                claim, command.reason.lower(), until_s=until_s, why=about, consolidation_policy=policy
            ):
                self._recorder.count(PODS_DISRUPTED, labels, len(pods))

    def _policy(self, claim: NodeClaim) -> str:
        pool = self._pools.get(("", claim.metadata.labels.get(names.NODEPOOL, "")))
        return wording.snake_case(pool.spec.disruption.consolidation_policy) if pool is not None else ""

    async def _roll_back(self, command: DisruptionCommand, candidates: list[NodeClaim], why: str) -> Done:
        """Replacements with an instance are kept: emptiness deletes them if no pod uses them (D-47)."""
        for name in command.replacement_names:
            claim = await self._replacement(name)
            if claim is not None and not claim.status.provider_id:
                await self._end.end(claim, command.reason.lower())
        for claim in candidates:
            about = f"Disruption of {{}} failed: {command.reason}: {why}"
            self._report(claim, "DisruptionFailed", about, warning=True)
            await self._taints.remove(claim)
        labels = {
            "decision": command.action.value,
            "reason": command.reason.lower(),
            "consolidation_type": command.consolidation_type,
        }
        self._recorder.count(FAILURES, labels)
        return Done(f"rolled back {command.id}: {why}")

    async def _replacement(self, name: str) -> NodeClaim | None:
        """Reads the NodeClaim from the API server if the cache lacks it: the answer to its creation may be lost."""
        claim = self._claims.get(("", name))
        if claim is not None:
            return claim
        try:
            return await self._kube.get(NodeClaim, name)
        except errors.NotFound:
            return None

    def _report_progress(self, starting: list[NodeClaim], command: DisruptionCommand) -> None:
        for claim in starting:
            if claim.status.provider_id:
                text = "Waiting on readiness to continue disruption"
                self._recorder.event(claim, "DisruptionWaitingReadiness", text)
            else:
                self._recorder.event(claim, "DisruptionLaunching", f"Launching NodeClaim: {command.reason}")

    def _report(self, claim: NodeClaim, reason: str, text: str, *, warning: bool = False) -> None:
        """Emits an event on the NodeClaim and its Node; `{}` in the text is replaced by the kind."""
        for kind, obj in (("NodeClaim", claim), ("Node", self._taints.node_of(claim))):
            if obj is not None:
                self._recorder.event(obj, reason, text.replace("{}", kind, 1), warning=warning)


def _is_moved(pod: Pod) -> bool:
    return pod_states.is_reschedulable(pod, pod_states.owner(pod))


def _is_ready(claim: NodeClaim) -> bool:
    if names.WAITS_FOR_INSTANCE in claim.metadata.annotations:
        return True
    return conditions.holds(claim.status.conditions, claim_conditions.INITIALIZED)


def _command_id(claim: NodeClaim) -> tuple[str, ...]:
    command = disruption_commands.of(claim)
    return (command.id,) if command is not None else ()


def _replacement_names(claim: NodeClaim) -> tuple[str, ...]:
    command = disruption_commands.of(claim)
    return command.replacement_names if command is not None else ()
