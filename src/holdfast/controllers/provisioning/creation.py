"""Creates the NodeClaims of a plan.

A failure does not affect other NodeClaims (P-7), except those of the same gang: they are written with the number of
NodeClaims that are launched all or none, and deleted if one of them could not be created.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from typing import Final

import structlog

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.controllers import claim_writing
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.core.scheduling.output import report
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.model import wording
from holdfast.model.decisions import DecisionType
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import claim_explanations
from holdfast.state.conversion.gang_launches import GangLaunch

_NAMES_TRIED: Final = 3
_SUFFIX: Final = 8
_AT_ONCE: Final = 100
_CAUSE: Final = "Pods were pending, and no node had capacity for them."


class ClaimCreation:
    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._pools = caches.of(NodePool)
        self._claims = caches.of(NodeClaim)
        self._pods = caches.of(Pod).index(indexes.by_uid)
        self._kube = ports.kube
        self._labels = ports.cloud.labels
        self._clock = ports.clock
        self._ids = ports.ids
        self._recorder = ports.recorder
        self._claim_end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._log = structlog.get_logger().bind(controller="provisioner")
        self.unsure: set[str] = set()  # NodeClaims whose creation got no answer

    async def create(
        self, claims: Sequence[PlannedClaim], together: Iterable[Sequence[PlannedClaim]]
    ) -> list[PlannedClaim]:
        """Returns those that were created. `together`: groups that are launched all or none."""
        groups = [(GangLaunch(self._ids.token(), len(group)), group) for group in together]
        launches = {id(one): launch for launch, group in groups for one in group}
        with self._cluster_state.gang_launches.writing(launches.values()):
            found = await asyncio.gather(*(self._write(one, launches.get(id(one))) for one in claims))
        written = {id(one): claim for one, claim in zip(claims, found, strict=True) if claim is not None}
        for _, group in groups:
            if not all(id(one) in written for one in group):
                await self._delete([written.pop(id(one)) for one in group if id(one) in written])
        return [one for one in claims if id(one) in written]

    async def settle(self) -> None:
        """Raises NotReady while a NodeClaim whose creation got no answer exists and is not in the cache: the next plan
        would plan its pods and its slot twice."""
        for name in sorted(self.unsure):
            if self._claims.get(("", name)) is None and await self._exists(name):
                raise errors.NotReady(f"NodeClaim {name} is written, and not in the cache yet")
            self.unsure.discard(name)

    async def _write(self, planned: PlannedClaim, gang: GangLaunch | None) -> NodeClaim | None:
        pool = self._pools.get(("", planned.node_pool))
        if pool is None:
            return None
        async with self._at_once:
            written = await self._create(planned, pool, gang)
        if written is None:
            return None
        self._cluster_state.nominations.nominate(
            planned.pods, written.metadata.name, ready=False, written=True
        )
        claim_writing.count(self._recorder, written, "provisioned")
        self._recorder.decision(
            DecisionType.LAUNCH,
            written,
            claim_writing.created_text(planned, written),
            [*(reason.sentence for reason in planned.not_reserved)],
        )
        for pod in self._pods_of(planned):
            self._recorder.event(
                pod, report.NOMINATED, f"Pod should schedule on: nodeclaim/{written.metadata.name}"
            )
        return written

    async def _create(
        self, planned: PlannedClaim, pool: NodePool, gang: GangLaunch | None
    ) -> NodeClaim | None:
        """The created NodeClaim; None: it could not be created, or the answer was lost."""
        requests = self._cluster_state.requests.names_of(planned.pods)
        cause = f"{wording.listed(requests)} had no capacity." if requests else _CAUSE
        explanation = claim_explanations.annotation(
            planned, self._pods_of(planned), cause=cause, now_s=self._clock.now_s()
        )
        for _ in range(_NAMES_TRIED):
            name = f"{pool.metadata.name}-{self._ids.token()[:_SUFFIX]}"
            claim = claim_writing.node_claim(
                planned, pool, name, self._labels.well_known, annotations=explanation, gang=gang
            )
            try:
                return await self._kube.create(claim)
            except errors.AlreadyExists:
                continue
            except errors.Unreachable as error:
                self._log.warning("claim perhaps not written", nodeclaim=name, error=str(error))
                self.unsure.add(name)
                return None
            except errors.HoldfastError as error:
                self._log.error("claim not written", nodepool=pool.metadata.name, error=str(error))
                return None
        return None

    async def _delete(self, claims: Iterable[NodeClaim]) -> None:
        """None of them is launched, because one of their gang is missing. Those that remain delete themselves."""
        for claim in claims:
            with contextlib.suppress(errors.HoldfastError):
                why = "another NodeClaim of its gang could not be created"
                await self._claim_end.end(claim, "gang_incomplete", why=why)

    async def _exists(self, name: str) -> bool:
        try:
            await self._kube.get(NodeClaim, name)
        except errors.NotFound:
            return False
        return True

    def _pods_of(self, planned: PlannedClaim) -> list[Pod]:
        return [pod for uid in planned.pods for pod in self._pods.get(uid)]
