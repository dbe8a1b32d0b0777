"""The disruption loop: take the world, decide, look again after a while, and hand the command to the queue.

Run by the engine under one key, so one decision is made at a time; orders that are being carried out go on beside it.
The rules: what saves money is decided twice, some seconds apart, and acted on if it still holds (D-16, D-42); a mark that
no order explains is taken off (D-1); a claim that waits too long for a slot that somebody else took is given up. Before
a node is marked for deletion, its pods are listed from the API server: a pod that the decision was made without stops
the command.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Final, cast

import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions, orders, reboots
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.controllers import conditions as verdicts
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.controllers.conditions import Verdicts
from holdfast.controllers.disruption.marks import Marks
from holdfast.controllers.disruption.queue import Queue
from holdfast.controllers.disruption.telling import Telling
from holdfast.controllers.doors import Doors
from holdfast.core.disruption import decide, holds, validation
from holdfast.core.disruption.commands import Action, Command, Decision, Memory, Method, Move
from holdfast.core.disruption.inputs import Settings, World
from holdfast.core.disruption.validation import Invalid
from holdfast.core.scheduling import columns
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state import disruption_world, pod_states
from holdfast.state.disruption_world import Changes, Objects
from holdfast.state.live import Live

KEY: Final[Key] = ("", "disruption")
_EVERY_S: Final = 10.0
_AT_ONCE_S: Final = 1.0  # after something was done
_LOOK_AGAIN_S: Final = 15.0
_AT_ONCE: Final = (Method.DRIFT, Method.REPAIR)  # what has to be done is not looked at twice (D-18)


@dataclass(frozen=True, slots=True)
class _Pending:
    """A command that is acted on if it still holds then."""

    command: Command
    due_s: float
    moves_before: tuple[Move, ...] | None


class Disruption:
    name: Final = "disruption"

    def __init__(self, *, live: Live, caches: Caches, doors: Doors, queue: Queue, settings: Settings) -> None:
        self._live = live
        self._claims = caches.of(NodeClaim)
        self._nodes = caches.of(Node)
        self._all_pods = caches.of(Pod)
        self._pods = self._all_pods.index(indexes.by_node)
        self._pools = caches.of(NodePool)
        self._treatments = doors.cloud.treatments
        self._kube = doors.kube
        self._compute = doors.compute
        self._clock = doors.clock
        self._recorder = doors.recorder
        self._queue = queue
        self._settings = settings
        self._marks = Marks(caches=caches, doors=doors)
        self._end = ClaimEnd(kube=doors.kube, clock=doors.clock, recorder=doors.recorder)
        self._telling = Telling(caches=caches, doors=doors)
        self._changes = Changes(caches)
        self._memory = Memory()
        self._planner = columns.CatalogCache()
        self._pending: _Pending | None = None
        self._log = structlog.get_logger().bind(controller=self.name)

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        await self._clean_up()
        now_s = self._clock.monotonic_s()
        if self._pending is not None and now_s < self._pending.due_s:
            return RequeueAfter(self._pending.due_s - now_s, "whether it still holds then")
        world = await self._world()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            return await self._look_again(pending, world)
        decision = await self._decide(world)
        await self._give_up_waiting(world)
        command = decision.command
        if command is None:
            return RequeueAfter(_EVERY_S, "nothing to disrupt")
        if command.method in _AT_ONCE:
            return await self._act(command, world)
        return RequeueAfter(_LOOK_AGAIN_S, f"whether it still holds then: {command.why}")

    async def _world(self) -> World:
        changed = self._changes.number  # before the look: what changes meanwhile is looked at again
        seen = await self._live.take()
        objects = Objects(
            [pool for pool in self._pools if self._live.is_ours(pool.spec.template.spec.node_class_ref)],
            [claim for claim in self._claims if self._live.is_ours(claim.spec.node_class_ref)],
            tuple(self._nodes),
            self._unreadable(),
        )
        see = functools.partial(disruption_world.world, objects=objects, changed=changed)
        return await self._compute.run(
            see, seen.snapshot
        )  # of five thousand nodes it takes a tenth of a second

    def _unreadable(self) -> frozenset[str] | None:
        """Nodes and NodeClaims that are not disrupted, since they or pods on them cannot be read. None: all."""
        nodes = {pod.node_name for pod in self._all_pods.unreadable.values() if pod.node_name != ""}
        named = {name for cache in (self._nodes, self._claims) for _, name in cache.unreadable}
        found = frozenset(nodes | named)
        return None if not found.isdisjoint((None, "")) else cast("frozenset[str]", found)

    # --- Decide ---------------------------------------------------------------------------------------

    async def _decide(self, world: World) -> Decision:
        began_s = self._clock.monotonic_s()
        think = functools.partial(
            decide.decide,
            settings=self._settings,
            memory=self._memory,
            treatments=self._treatments,
            planner=self._planner,
        )
        decision = await self._compute.run(think, world)
        if decision.command is not None and decision.command.method not in _AT_ONCE:
            due_s = self._clock.monotonic_s() + _LOOK_AGAIN_S
            self._pending = _Pending(decision.command, due_s, self._memory.moves)
        self._memory = decision.memory
        self._telling.decided(decision, self._clock.monotonic_s() - began_s)
        return decision

    async def _look_again(self, pending: _Pending, world: World) -> RequeueAfter:
        check = functools.partial(
            validation.still_valid, pending.command, settings=self._settings, planner=self._planner
        )
        found = await self._compute.run(check, world)
        if isinstance(found, Command):
            return await self._act(found, world)
        self._rejected(pending, found)
        return RequeueAfter(_AT_ONCE_S, f"it did not hold: {found.why}")

    def _rejected(self, pending: _Pending, why: Invalid) -> None:
        """Pods that were not moved are not left in peace for it."""
        self._memory = dataclasses.replace(self._memory, moves=pending.moves_before)
        self._telling.rejected(pending.command, why)

    # --- Act ------------------------------------------------------------------------------------------

    async def _act(self, command: Command, world: World) -> RequeueAfter:
        claims = self._claims_of(command, world)
        if len(claims) < len(command.candidates) and command.action is not Action.DELETE:
            return RequeueAfter(_AT_ONCE_S, "a node is gone")
        try:
            await self._check_pods(claims, world)
            if command.action is Action.REBOOT:
                await self._reboot(command, claims)
            else:
                await self._queue.start(command, claims)
        except (errors.Terminal, errors.NotReady, errors.NotFound, errors.Conflict) as error:
            self._log.info("not done", why=str(error), command=command.why)
            return RequeueAfter(_EVERY_S, f"not done: {error}")
        self._telling.acts(command, claims)
        said = f"{command.action} {', '.join(command.candidates)} ({command.reason}): {command.why}"
        return RequeueAfter(_AT_ONCE_S, "what else there is", said)

    async def _check_pods(self, claims: tuple[NodeClaim, ...], world: World) -> None:
        """NotReady when a node has a pod that the decision was made without, or is nominated for one: the watch of pods is
        behind, or the pod was bound or planned while the decision was made."""
        known = {node.claim: {pod.uid for pod in node.pods} for node in world.snapshot.nodes}
        nominated = self._live.nominations.places()
        for claim in claims:
            node = claim.status.node_name
            if not node:
                continue
            if node in nominated or claim.metadata.name in nominated:
                raise errors.NotReady(f"node {node} is nominated for pods, and was not when it was decided")
            for pod in (await self._kube.list(Pod, field_selector=f"spec.nodeName={node}")).items:
                is_known = pod.metadata.uid in known.get(claim.metadata.name, ())
                # Those that tolerate the taint count as well: they are not evicted, and would end with the node.
                if not is_known and pod_states.is_reschedulable(pod, pod_states.owner(pod)):
                    found = f"{pod.metadata.namespace}/{pod.metadata.name}"
                    raise errors.NotReady(
                        f"pod {found} is bound to node {node}, and was not when it was decided"
                    )

    async def _reboot(self, command: Command, claims: tuple[NodeClaim, ...]) -> None:
        """When it was asked for is on the claim before that it was, and so is whose pods are there: they wait for it. What
        a reboot before it noted goes."""
        now_s = self._clock.now_s()
        for claim in claims:
            bound_s = command.drain_bound_s
            written = {
                names.REBOOTS: reboots.and_one(claim, now_s),
                names.HELD_FOR: pod_states.makers(self._pods.get(claim.status.node_name or "")),
                names.REBOOT_TERMINATION_GRACE_PERIOD: None if bound_s is None else f"{bound_s}s",
                names.REBOOT_PRE_BOOT_ID: None,
            }
            marked = await self._kube.patch(claim, {"metadata": {"annotations": written}})
            found = Verdicts(marked, now_s=now_s)
            found.put(claim_conditions.REBOOTING, conditions.TRUE, "RebootRequested", command.why)
            await verdicts.write(self._kube, marked, found.changes)

    def _claims_of(self, command: Command, world: World) -> tuple[NodeClaim, ...]:
        by_name = {node.name: node.claim for node in world.snapshot.nodes}
        found = (self._claims.get(("", by_name.get(name) or "")) for name in command.candidates)
        return tuple(one for one in found if one is not None and one.metadata.deletion_timestamp is None)

    async def _clean_up(self) -> None:
        """Marks that nobody stands behind: those of another autoscaler, which had a queue in its memory (D-1)."""
        for claim in tuple(self._claims):
            node = self._marks.node_of(claim)
            going = claim.metadata.deletion_timestamp or (node and node.metadata.deletion_timestamp)
            if not going and orders.of(claim) is None and _is_marked(claim, node):
                await self._marks.take_off(claim)

    async def _give_up_waiting(self, world: World) -> None:
        lag_s = self._settings.solving.ledger_lag_s
        for one in holds.overdue(world, self._settings.slot_wait_s, lag_s):
            claim = self._claims.get(("", one.claim))
            if claim is not None:
                self._recorder.event(claim, "SlotTaken", one.why, warning=True)
                await self._end.end(claim, "insufficient_capacity")


def _is_marked(claim: NodeClaim, node: Node | None) -> bool:
    tainted = node is not None and any(taint.key == names.DISRUPTED_TAINT for taint in node.spec.taints)
    return tainted or conditions.holds(claim.status.conditions, claim_conditions.DISRUPTION_REASON)
