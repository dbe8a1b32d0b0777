"""Holds the slots of deleting nodes for their replacements.

Disruption creates the replacement of a node in a full reservation before it deletes the node. A node that expires, that
a user deletes, or that is deleted because its instance is unhealthy has no such replacement. So before the first pod of
such a node is evicted, the planner decides whether the pods need the slot. If they do, a NodeClaim is created that
waits for the instance, and nothing is launched on demand for these pods. Each deletion is decided once, and the hold is
the NodeClaim itself (docs/adr/0027).
"""

import asyncio
import functools
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.controllers import claim_writing
from holdfast.core.disruption.candidates import CandidateSet
from holdfast.core.disruption.commands import Replacement
from holdfast.core.disruption.inputs import DisruptionInput, Settings
from holdfast.core.disruption.rolling import Rolling
from holdfast.core.disruption.simulation import Simulator
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import claim_explanations, disruption_commands, disruption_input, nodes
from holdfast.state.conversion.disruption_input import Objects

_SUFFIX: Final = 8
_DELETING: Final = "deleting"
_CAUSE: Final = "A node in a slot is being deleted; its slot is held for its pods."


class SlotHolds:
    def __init__(
        self, *, cluster_state: ClusterState, caches: Caches, ports: Ports, settings: Settings
    ) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim)
        self._waiting = self._claims.index(_waits_for)
        self._deleting = self._claims.index(_is_deleting)
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._pods = caches.of(Pod).index(indexes.by_uid)
        self._pools = caches.of(NodePool)
        self._kube = ports.kube
        self._compute = ports.compute
        self._clock = ports.clock
        self._ids = ports.ids
        self._recorder = ports.recorder
        self._labels = ports.cloud.labels
        self._settings = settings
        self._decided: set[str] = set()  # uids of deleting NodeClaims
        self._lock = asyncio.Lock()
        self._log = structlog.get_logger().bind(controller="slot_holds")

    async def ensure(self) -> tuple[str, ...]:
        """Decides about every deleting node in a slot whose drain has not started. Returns the created NodeClaims."""
        async with self._lock:
            found = tuple(self._undecided())
            if not found:
                return ()
            cluster = await self._input(found)
            wanted = {claim.status.provider_id for claim in found}
            decide = functools.partial(replacements_for, settings=self._settings, provider_ids=wanted)
            written = [await self._write(one) for one in await self._compute.run(decide, cluster)]
            there = {claim.metadata.uid for claim in self._claims}
            self._decided = (self._decided & there) | {claim.metadata.uid for claim in found}
            return tuple(name for name in written if name)

    def _undecided(self) -> Iterator[NodeClaim]:
        """NodeClaims to decide about. A node that disruption deletes has its replacement or needs none; a node whose
        drain has started was decided."""
        for claim in self._deleting.get(_DELETING):
            meta, provider_id = claim.metadata, claim.status.provider_id
            if (
                meta.uid not in self._decided
                and meta.labels.get(names.CAPACITY_TYPE) == names.RESERVED
                and provider_id
                and disruption_commands.of(claim) is None
                and conditions.find(claim.status.conditions, claim_conditions.DRAINED) is None
                and not any(True for _ in self._waiting.get(provider_id))
                and self._cluster_state.is_ours(claim.spec.node_class_ref)
            ):
                yield claim

    async def _input(self, claims: Sequence[NodeClaim]) -> DisruptionInput:
        result = await self._cluster_state.snapshot()
        found = (node for claim in claims for node in self._nodes.get(claim.status.provider_id or ""))
        pairs = {pair.name: pair for pair in nodes.pairs(filter(nodes.is_known, found), claims)}
        return disruption_input.disruption_input(result.snapshot, Objects((), pairs), 0)

    async def _write(self, one: Replacement) -> str | None:
        pool = self._pools.get(("", one.claim.node_pool))
        if pool is None:
            return None
        pods = [pod for uid in one.claim.pods for pod in self._pods.get(uid)]
        name = f"{pool.metadata.name}-{self._ids.token()[:_SUFFIX]}"
        explanation = claim_explanations.annotation(one.claim, pods, cause=_CAUSE, now_s=self._clock.now_s())
        held = explanation | claim_writing.hold_annotations(one, pods)
        claim = claim_writing.node_claim(one.claim, pool, name, self._labels.well_known, annotations=held)
        try:
            await self._kube.create(claim)
        except errors.Unreachable as error:
            self._log.warning("claim perhaps not written", nodeclaim=name, error=str(error))
        except errors.HoldfastError as error:
            self._log.error("claim not written", nodeclaim=name, error=str(error))
            return None
        claim_writing.count(self._recorder, claim, "held")
        return name


def replacements_for(
    cluster: DisruptionInput, *, settings: Settings, provider_ids: set[str | None]
) -> list[Replacement]:
    candidate_set = CandidateSet(cluster)
    rolling = Rolling(candidate_set, Simulator(cluster, settings), settings)
    deleting = [node for node in cluster.snapshot.nodes if node.deleting and node.provider_id in provider_ids]
    found = (rolling.held(candidate_set.candidate(node)) for node in deleting)
    return [one for one in found if one is not None]


def _is_deleting(claim: NodeClaim) -> tuple[str, ...]:
    return (_DELETING,) if claim.metadata.deletion_timestamp is not None else ()


def _waits_for(claim: NodeClaim) -> tuple[str, ...]:
    waits = claim.metadata.annotations.get(names.WAITS_FOR_INSTANCE)
    return (waits,) if waits else ()
