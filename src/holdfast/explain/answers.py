"""Explains single objects: finds what is known about a pod, a node, a NodeClaim, a NodePool or a reservation.

`gang_answers` does it for Jobs, JobSets, LeaderWorkerSets, PodGroups and ProvisioningRequests.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

import msgspec

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.reports import DecisionRow, Explanation, NodeRow
from holdfast.core.reservations import pool_slots
from holdfast.core.scheduling.input.request import Settings, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.explain import gangs, inventory, jobs, nodepools, nodes, pods, reports, slots
from holdfast.explain.gang_answers import GangAnswers
from holdfast.explain.nodepools import PoolInput
from holdfast.explain.nodes import NodeInput
from holdfast.explain.reports import Reports, reservation_row
from holdfast.explain.slots import ReservationInput
from holdfast.explain.sources import Sources
from holdfast.model.decisions import DecisionType
from holdfast.model.reasons import Reason
from holdfast.model.snapshot import Snapshot
from holdfast.runtime import decision_log
from holdfast.state.conversion import disruption_commands, times
from holdfast.state.conversion import nodepools as pool_states

KINDS: Final = (
    pods.KIND,
    nodes.NODE,
    nodes.CLAIM,
    nodepools.KIND,
    slots.KIND,
    jobs.KIND,
    gangs.JOB_SET_KIND,
    gangs.GROUPS_KIND,
    gangs.KIND,
    gangs.REQUEST,
)
NAMESPACED: Final = (pods.KIND, jobs.KIND, *gangs.NAMES)
_OBJECTS: Final[Mapping[str, str]] = {
    pods.KIND: "NodeClaim",
    nodes.NODE: "NodeClaim",
    nodes.CLAIM: "NodeClaim",
    nodepools.KIND: "NodePool",
}
_PLANS_WAITING_MAX: Final = 8  # explanations of pods that wait for their plan
_PENDING_MAX: Final = 10


class Answers:
    def __init__(self, sources: Sources, reports_: Reports) -> None:
        self._sources = sources
        self._reports = reports_
        self._caches = sources.caches
        self._cluster_state = sources.cluster_state
        self._clock = sources.clock
        self.gangs = GangAnswers(sources, reports_, self._not_reserved)
        self._planning = asyncio.Lock()  # plans for explanations use the planner's thread, so one at a time
        self._plans_waiting = 0
        self._by_kind: Mapping[str, Callable[[str, str], Awaitable[Explanation]]] = {
            pods.KIND: self._pod,
            nodes.NODE: self._node,
            nodes.CLAIM: self._claim,
            nodepools.KIND: self._pool,
            slots.KIND: self._reservation,
            jobs.KIND: self.gangs.job,
            gangs.JOB_SET_KIND: self.gangs.job_set,
            gangs.GROUPS_KIND: self.gangs.leader_worker_set,
            gangs.KIND: self.gangs.pod_group,
            gangs.REQUEST: self.gangs.request,
        }

    async def explain(self, kind: str, namespace: str, name: str) -> Explanation:
        """Raises NotFound."""
        await self._reports.inventory.see_changed()
        answer = await self._by_kind[kind](namespace, name)
        decisions: list[DecisionRow] = list(answer.decisions)
        if kind in _OBJECTS and not decisions:
            found = self._sources.decisions.of(_OBJECTS[kind], self._claim_name(kind, namespace, name))
            decisions = [reports.row(one) for one in found]
        return msgspec.structs.replace(answer, decisions=tuple(decisions), computed=self._sources.computed)

    def _claim_name(self, kind: str, namespace: str, name: str) -> str:
        """The object of which decisions are shown: of a pod or a node, its NodeClaim."""
        claim = None
        if kind == nodes.NODE:
            claim = self._reports.inventory.claim_of_node(name)
        elif kind == pods.KIND:
            pod = self._caches.of(Pod).get((namespace, name))
            claim = self._reports.pod_input(pod).claim if pod is not None else None
        return claim.metadata.name if claim is not None else name

    # --- Pods ----------------------------------------------------------------------------------

    async def _pod(self, namespace: str, name: str) -> Explanation:
        pod = self._caches.of(Pod).get((namespace, name))
        if pod is None:
            raise errors.NotFound(f'pods "{name}" not found in namespace "{namespace}"')
        known = self._reports.pod_input(pod)
        if known.unplaced is not None and not pod.spec.node_name:
            named = {id_ for reason in known.unplaced.reasons for id_ in reason.subjects}
            listed = (await self._reports.reservations()).items
            known = replace(
                known,
                not_reserved=await self._not_reserved({pod.metadata.uid}),
                reservations=[row for row in listed if row.id in named][:_PENDING_MAX],
            )
        return pods.explain(known)

    async def _not_reserved(self, uids: AbstractSet[str]) -> tuple[Reason, ...]:
        """Why these pods are in none of the reservations, by a plan for them alone. Empty: no plan can be made now."""
        if self._plans_waiting >= _PLANS_WAITING_MAX:
            return ()
        self._plans_waiting += 1
        try:
            async with self._planning:
                snapshot = (await self._cluster_state.snapshot()).snapshot
                decide = functools.partial(_not_reserved, uids=uids, settings=self._sources.planning)
                return await self._sources.compute.run(decide, snapshot)
        except errors.HoldfastError:
            return ()
        finally:
            self._plans_waiting -= 1

    # --- Nodes ------------------------------------------------------------------------------------------

    async def _node(self, _: str, name: str) -> Explanation:
        row = self._reports.inventory.of_node(name)
        if self._caches.of(Node).get(("", name)) is None or row is None:
            return self._gone(nodes.NODE, name)
        return self._explained(nodes.NODE, name, row, self._reports.inventory.claim_of_node(name))

    async def _claim(self, _: str, name: str) -> Explanation:
        row, claim = self._reports.inventory.of_claim(name), self._caches.of(NodeClaim).get(("", name))
        if row is None or claim is None:
            return self._gone(nodes.CLAIM, name)
        return self._explained(nodes.CLAIM, name, row, claim)

    def _gone(self, kind: str, name: str) -> Explanation:
        """Why a node or NodeClaim was removed, from the recent decisions. Raises NotFound without one."""
        kept = self._sources.decisions.newest(decision_log.MAX)
        about = [one for one in kept if one.name == name or name in one.text.replace(":", " ").split()]
        removal = next((one for one in about if one.type is DecisionType.REMOVAL), None)
        if removal is None:
            raise errors.NotFound(f'{kind}s "{name}" not found')
        return nodes.gone(kind, name, removal, [reports.row(one) for one in about], self._clock.now_s())

    def _explained(self, kind: str, name: str, row: NodeRow, claim: NodeClaim | None) -> Explanation:
        (shown,) = self._reports.inventory.shown([row], self._reports.prices())
        decided = self._cluster_state.reasons.disruption
        known = {one.id: one for one in self._cluster_state.reservations}
        command = disruption_commands.of(claim) if claim is not None else None
        return nodes.explain(
            NodeInput(
                kind=kind,
                name=name,
                row=shown,
                now_s=self._clock.now_s(),
                claim=claim,
                reservation=known.get(row.reservation),
                blockers=decided.blockers.get(row.name, ()) if decided is not None else (),
                decided_s=decided.at_s if decided is not None else None,
                command=f"{command.reason}: {command.why}" if command is not None else "",
                removed=self._removed(claim) if row.state == inventory.DRAINING else "",
                expires_s=_expires_s(claim) if claim is not None else None,
            )
        )

    def _removed(self, claim: NodeClaim | None) -> str:
        """Why a NodeClaim was deleted; empty: an earlier leader or a user deleted it."""
        found = self._sources.decisions.of("NodeClaim", claim.metadata.name) if claim is not None else []
        return next((one.text for one in found if one.type is DecisionType.REMOVAL), "")

    async def _pool(self, _: str, name: str) -> Explanation:
        pool = self._caches.of(NodePool).get(("", name))
        if pool is None:
            raise errors.NotFound(f'nodepools "{name}" not found')
        reference = pool.spec.template.spec.node_class_ref
        ours = {(reference.group, reference.kind)} if self._cluster_state.is_ours(reference) else frozenset()
        rows = [row for row in self._reports.inventory.rows() if row.node_pool == name]
        listed, usable = await self._reports.reservations(), self._usable(pool)
        return nodepools.explain(
            PoolInput(
                pool=pool,
                now_s=self._clock.now_s(),
                no_nodes=pool_states.why_no_nodes(pool, ours, needs_ready=True),
                unserved=self._cluster_state.reasons.unserved.get(name, ""),
                rows=tuple(self._reports.inventory.shown(rows, self._reports.prices())),
                reservations=[one for one in listed.items if one.id in usable],
            )
        )

    def _usable(self, pool: NodePool) -> AbstractSet[str]:
        """The reservations that the NodePool may use."""
        types = self._cluster_state.types.get(pool.spec.template.spec.node_class_ref.name, ())
        try:
            wanted = pool_states.template_requirements(pool)
        except errors.InvalidInput:
            return frozenset()
        return pool_slots.usable(wanted, types, self._sources.cloud.labels.well_known).keys()

    # --- Reservations -----------------------------------------------------------------------------------

    async def _reservation(self, _: str, name: str) -> Explanation:
        row = reservation_row(await self._reports.reservations(), name)
        if row is None:
            raise errors.NotFound(
                f'reservation "{name}" not found: EC2 lists no such reservation for this account'
            )
        plan = self._cluster_state.reasons.plan
        unplaced = plan.unplaced.values() if plan is not None else ()
        pending = [
            (name_, reason.text)
            for one in unplaced
            for reason in one.reasons
            if name in reason.subjects
            for name_ in self._reports.pod_names(one.pod)
        ]
        uses = await self._reports.slots([name])
        return slots.explain(
            ReservationInput(
                row=row,
                now_s=self._clock.now_s(),
                uses=uses.items[name],
                pending=pending[:_PENDING_MAX],
                waiting=len(unplaced),
            )
        )


def _not_reserved(snapshot: Snapshot, *, uids: AbstractSet[str], settings: Settings) -> tuple[Reason, ...]:
    alone = replace(snapshot, pending=tuple(pod for pod in snapshot.pending if pod.uid in uids))
    found = solve(SolveRequest(alone, settings, explain_slots=True)).not_reserved
    return tuple(dict.fromkeys(reason for one in found for reason in one.reasons))


def _expires_s(claim: NodeClaim) -> int | None:
    after_s = times.duration_s(claim.spec.expire_after)
    created_s = times.epoch_s_or_none(claim.metadata.creation_timestamp)
    return None if after_s is None or created_s is None else created_s + after_s
