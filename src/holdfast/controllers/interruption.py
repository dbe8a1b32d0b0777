"""interruption: deletes the NodeClaims of instances for which the cloud sent a notice.

One key for each notice; `listen` receives notices while this replica is the leader. A notice is acknowledged after the
API server accepted the deletion of its NodeClaims, so that a crash loses no notice. A repeated notice has no further
effect. An instance without a NodeClaim is ignored. If the notice has a time, the drain ends by then, despite
PodDisruptionBudgets.
"""

from collections.abc import Callable, Iterator
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.model.decisions import DecisionType
from holdfast.model.notices import Notice
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import times

_AT_ONCE_MAX: Final = 1000  # pending notices; the others stay in the queue of the cloud
_STANDBY_S: Final = 1.0
_BACKOFF: Final = Backoff(base_s=1, cap_s=60)


class Interruption:
    name: Final = "interruption"

    def __init__(
        self, *, cluster_state: ClusterState, caches: Caches, ports: Ports, leads: Callable[[], bool]
    ) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim).index(indexes.by_instance_id)
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._cloud = ports.cloud
        self._clock = ports.clock
        self._ids = ports.ids
        self._recorder = ports.recorder
        self._claim_end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)
        self._leads = leads
        self._notices: dict[Key, Notice] = {}
        self._wake: Callable[[Key], None] = lambda _: None

    def watch(self, controller: Controller) -> None:
        self._wake = controller.add

    async def listen(self) -> None:
        """Runs until it is cancelled."""
        failures, trouble = 0, ""
        while True:
            if not self._leads() or len(self._notices) >= _AT_ONCE_MAX:
                await self._clock.sleep(_STANDBY_S)
                continue
            try:
                notices = await self._cloud.notices()
            except errors.HoldfastError as error:
                failures += 1
                if str(error) != trouble:
                    trouble = str(error)
                    level = "debug" if isinstance(error, errors.Unreachable) else "error"
                    getattr(structlog.get_logger(), level)("notices cannot be read", error=trouble)
                await self._clock.sleep(_BACKOFF.delay_s(failures, self._ids))
                continue
            failures, trouble = 0, ""
            for notice in notices:
                key = ("", notice.receipt)
                self._notices[key] = notice
                self._wake(key)

    async def reconcile(self, key: Key) -> Done:
        notice = self._notices.get(key)
        if notice is None:
            return Done()
        ended = 0
        for claim in tuple(self._about(notice)):
            ended += await self._handle(notice, claim)
        await self._cloud.acknowledge(notice)
        del self._notices[key]
        return Done(f"{notice.reason}: {ended} claims deleted" if ended else "")

    def _about(self, notice: Notice) -> Iterator[NodeClaim]:
        for instance in notice.instance_ids:
            for claim in self._claims.get(instance):
                if self._cluster_state.is_ours(claim.spec.node_class_ref):
                    yield claim

    async def _handle(self, notice: Notice, claim: NodeClaim) -> bool:
        """Returns whether it deleted the claim."""
        objects = (claim, *self._nodes.get(claim.status.provider_id or ""))
        by = f", at {times.text(notice.ends_s)}" if notice.ends_s is not None else ""
        for obj in objects:
            self._recorder.event(obj, notice.event, f"{notice.message}{by}", warning=True)
        if not notice.terminates_instances:
            return False
        ended = await self._claim_end.end(claim, notice.reason, until_s=notice.ends_s, why=notice.message)
        if ended:  # not if Holdfast itself terminates the instance
            self._recorder.decision(DecisionType.INTERRUPTION, claim, f"{notice.message}{by}")
        for obj in objects:
            message = f"Interruption triggered termination for the {obj.kind}"
            self._recorder.event(obj, "TerminatingOnInterruption", message, warning=True)
        return ended
