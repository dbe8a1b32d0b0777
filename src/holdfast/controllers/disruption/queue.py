"""Orders that are carried out: replacements are waited for, then the nodes they replace go; or all is taken back.

Run by the engine, a key an order, woken by the claims it is about; `start` is called by the loop. The rules: everything
needed is on the claims (api/orders), so a restart between any two writes goes on, where every replacement is written, or
else takes the order back; a node that waits for nothing is deleted by `start` itself, and an order of that kind that
is found later was left behind by a crash; a replacement that waits for the very slot of the node is not waited for.
"""

from collections import Counter
from typing import Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions, orders
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.orders import Order
from holdfast.api.pods import Pod
from holdfast.controllers import claim_writing
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.controllers.disruption.marks import Marks
from holdfast.controllers.doors import Doors
from holdfast.core.disruption.commands import Command, Replacement
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.core.scheduling import admission
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state import times
from holdfast.state.live import Live

FAILURES: Final = "karpenter_voluntary_disruption_queue_failures_total"
METRICS: Final = (
    Metric(FAILURES, "counter", "Orders that were taken back.", ("reason", "consolidation_type")),
)
_TIMEOUT_S: Final = 600
_CHECK_S: Final = 10.0
_SUFFIX: Final = 8


class Queue:
    name: Final = "disruption.queue"

    def __init__(self, *, live: Live, caches: Caches, doors: Doors) -> None:
        self._live = live
        self._claims = caches.of(NodeClaim)
        self._by_order = self._claims.index(_order_id)
        self._by_replacement = self._claims.index(_replacements)
        self._pods = caches.of(Pod).index(indexes.by_uid)
        self._pools = caches.of(NodePool)
        self._marks = Marks(caches=caches, doors=doors)
        self._end = ClaimEnd(kube=doors.kube, clock=doors.clock, recorder=doors.recorder)
        self._kube = doors.kube
        self._labels = doors.cloud.labels
        self._clock = doors.clock
        self._ids = doors.ids
        self._recorder = doors.recorder
        self._starting: set[str] = set()

    def watch(self, controller: Controller) -> None:
        self._controller = controller
        controller.watch(self._claims, self._concerned)

    def _concerned(self, claim: NodeClaim) -> list[Key]:
        about = (claim, *self._by_replacement.get(claim.metadata.name))
        return [("", id_) for one in about for id_ in _order_id(one)]

    # --- The beginning --------------------------------------------------------------------------------

    async def start(self, command: Command, candidates: tuple[NodeClaim, ...]) -> Order:
        """Marks the nodes, writes what replaces them, and lets go of those that wait for nothing. NotReady where a
        replacement has no place any more: its NodePool is gone or full, or its slot was taken since it was decided."""
        named = [self._named(one) for one in command.replacements]
        slots = Counter(
            one.claim.reservation_id
            for one in command.replacements
            if one.claim.reservation_id and not one.waits_for_instance
        )
        with self._live.holding(slots) as held:
            taken = slots - held
            if taken:
                raise errors.NotReady(f"a slot of {', '.join(sorted(taken))} was taken meanwhile")
            return await self._carry_out(command, candidates, named)

    async def _carry_out(
        self, command: Command, candidates: tuple[NodeClaim, ...], named: list[NodeClaim]
    ) -> Order:
        order = Order(
            id=self._ids.token(),
            reason=command.reason.value,
            method=command.method.value,
            why=command.why,
            at=self._clock.now_s(),
            replacements=tuple(claim.metadata.name for claim in named),
            drain_bound=command.drain_bound_s,
        )
        self._starting.add(order.id)
        try:
            if command.reason is DisruptionReason.UNDERUTILIZED:
                await self._remember(candidates)
            marked = []
            for claim in candidates:
                try:
                    await self._marks.put(claim, order)
                except (errors.NotFound, errors.Conflict):
                    if named:
                        raise
                    continue
                marked.append(claim)
            for claim in named:
                await self._kube.create(claim)
                claim_writing.count(self._recorder, claim, order.reason.lower())
            if not named:
                await self._let_go(order, marked)
        finally:
            self._starting.discard(order.id)
            self._controller.add(("", order.id))
        return order

    async def _remember(self, candidates: tuple[NodeClaim, ...]) -> None:
        """Before pods are moved it is on their NodePools, so that the next program leaves them in peace as well."""
        now = times.text(self._clock.now_s())
        for name in sorted({one.metadata.labels.get(names.NODEPOOL, "") for one in candidates}):
            pool = self._pools.get(("", name))
            if pool is not None:
                await self._kube.patch(pool, {"metadata": {"annotations": {names.CONSOLIDATED: now}}})

    def _named(self, one: Replacement) -> NodeClaim:
        """The claim to write. NotReady when its pool is gone, or has no room for it any more."""
        name = one.claim.node_pool
        pool, seen = self._pools.get(("", name)), self._live.pool(name)
        if pool is None or seen is None:
            raise errors.NotReady(f"NodePool {name} is gone")
        refused = admission.why_refused(seen)
        if refused is not None:
            raise errors.NotReady(f"NodePool {name}: {refused.text}")
        pods = (pod for uid in one.claim.pods for pod in self._pods.get(uid))
        held = claim_writing.hold_annotations(one, pods)
        token = self._ids.token()[:_SUFFIX]
        return claim_writing.node_claim(
            one.claim, pool, f"{name}-{token}", self._labels.well_known, annotations=held
        )

    # --- Until its end --------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        id_ = key[1]
        marked = [one for one in self._by_order.get(id_) if one.metadata.deletion_timestamp is None]
        order = orders.of(marked[0]) if marked else None
        if order is None or id_ in self._starting:
            return Done()
        found = [self._claims.get(("", name)) for name in order.replacements]
        there = [one for one in found if one is not None and one.metadata.deletion_timestamp is None]
        late = self._clock.now_s() >= order.at + _TIMEOUT_S
        starting = [one for one in there if not _is_up(one)]
        if not order.replacements:
            return await self._take_back(order, marked, "it was left behind")
        if len(there) < len(found):
            return await self._take_back(order, marked, "a replacement is not there, or did not come up")
        if starting and late:
            return await self._take_back(order, marked, f"a replacement was not up in {_TIMEOUT_S} s")
        if starting:
            self._tell(starting, order)
            return RequeueAfter(_CHECK_S, f"{len(starting)} replacements are not up yet")
        await self._let_go(order, marked)
        return Done(f"deleted {', '.join(claim.metadata.name for claim in marked)}: {order.why}")

    async def _let_go(self, order: Order, marked: list[NodeClaim]) -> None:
        until_s = self._clock.now_s() + order.drain_bound if order.drain_bound is not None else None
        for claim in marked:
            self._tell_both(claim, "DisruptionTerminating", f"{order.reason}: {order.why}")
            await self._end.end(claim, order.reason.lower(), until_s=until_s)

    async def _take_back(self, order: Order, marked: list[NodeClaim], why: str) -> Done:
        """Machines that were launched stay, and go when they stay empty (D-47)."""
        for name in order.replacements:
            claim = await self._found(name)
            if claim is not None and not claim.status.provider_id:
                await self._end.end(claim, order.reason.lower())
        for claim in marked:
            self._tell_both(claim, "DisruptionFailed", f"{order.reason}: {why}; it stays", warning=True)
            await self._marks.take_off(claim)
        about = {"reason": order.reason.lower(), "consolidation_type": consolidation_type(order.method)}
        self._recorder.count(FAILURES, about)
        return Done(f"took back {order.id}: {why}")

    async def _found(self, name: str) -> NodeClaim | None:
        """The caches may not have it yet, where the answer to its creation was lost."""
        claim = self._claims.get(("", name))
        if claim is not None:
            return claim
        try:
            return await self._kube.get(NodeClaim, name)
        except errors.NotFound:
            return None

    def _tell(self, starting: list[NodeClaim], order: Order) -> None:
        for claim in starting:
            reason = "DisruptionWaitingReadiness" if claim.status.provider_id else "DisruptionLaunching"
            self._recorder.event(claim, reason, f"it replaces nodes that are {order.reason}")

    def _tell_both(self, claim: NodeClaim, reason: str, said: str, *, warning: bool = False) -> None:
        for obj in (claim, self._marks.node_of(claim)):
            if obj is not None:
                self._recorder.event(obj, reason, said, warning=warning)


def consolidation_type(method: str) -> str:
    """As Karpenter's metrics call it."""
    kind, _, rest = method.partition("-node")
    return kind if rest else ""


def _is_up(claim: NodeClaim) -> bool:
    if names.WAITS_FOR_INSTANCE in claim.metadata.annotations:
        return True
    return conditions.holds(claim.status.conditions, claim_conditions.INITIALIZED)


def _order_id(claim: NodeClaim) -> tuple[str, ...]:
    order = orders.of(claim)
    return (order.id,) if order is not None else ()


def _replacements(claim: NodeClaim) -> tuple[str, ...]:
    order = orders.of(claim)
    return order.replacements if order is not None else ()
