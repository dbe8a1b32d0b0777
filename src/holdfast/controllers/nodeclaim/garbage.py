"""Garbage collection: terminates instances without a NodeClaim, and deletes NodeClaims without an instance.

Runs every two minutes under one key, from one list of all instances. It keeps an instance that a NodeClaim may still
adopt by its launch token, an instance that was launched recently, and a NodeClaim whose Node is Ready (NC-20). Before
an instance is terminated, the NodeClaims are listed from the API server: a stalled cache lacks claims that another
leader created. While a NodeClaim cannot be decoded, no instance is terminated.
"""

import contextlib
from collections.abc import Sequence
from typing import Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.model.instances import Instance, InstanceState
from holdfast.ports import Ports
from holdfast.runtime.cache import Caches, Index, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.conversion import nodes as node_states

KEY: Final[Key] = ("", "garbage")
_EVERY_S: Final = 120.0
_MAX_AGE_S: Final = 90.0  # of the list of instances: another controller lists each minute
_YOUNG_S: Final = 30
_UNCLAIMED_S: Final = 900  # how long an instance of Karpenter is kept for a NodeClaim that may adopt it


class Garbage:
    name: Final = "nodeclaim.garbagecollection"

    def __init__(self, *, caches: Caches, nodes: Index[Node], ports: Ports) -> None:
        self._claims = caches.of(NodeClaim)
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._cloud = ports.cloud
        self._terms = ports.cloud.node_classes
        self._clock = ports.clock
        self._end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        claims = tuple(self._claims)  # read before the instances
        instances = await self._cloud.instances(max_age_s=_MAX_AGE_S)
        lost = self._without_claim(instances, claims)
        if lost:
            lost = self._without_claim(lost, (await self._kube.list(NodeClaim)).items)
        for instance in lost:
            with contextlib.suppress(errors.NotFound):
                await self._cloud.terminate(instance.provider_id)
            for node in tuple(self._nodes.get(instance.provider_id)):
                with contextlib.suppress(errors.NotFound):
                    await self._kube.delete(node)
        to_delete = [one for one in self._without_instance(claims, instances) if await self._is_gone(one)]
        for claim in to_delete:
            await self._end.end(claim, "garbage_collected")
        did = f"{len(lost)} instances ended, {len(to_delete)} claims deleted" if lost or to_delete else ""
        return RequeueAfter(_EVERY_S, "next comparison of NodeClaims and instances", did)

    def _without_claim(self, instances: Sequence[Instance], claims: Sequence[NodeClaim]) -> list[Instance]:
        if self._claims.unreadable:
            return []  # any instance may belong to the NodeClaim that cannot be decoded
        return without_claim(instances, claims, self._clock.now_s())

    def _without_instance(
        self, claims: Sequence[NodeClaim], instances: Sequence[Instance]
    ) -> list[NodeClaim]:
        return [
            claim
            for claim in without_instance(claims, instances)
            if self._terms.names(claim.spec.node_class_ref)
            and not any(
                node_states.is_ready(node) for node in self._nodes.get(claim.status.provider_id or "")
            )
            and key_of(claim) not in self._claims.unreadable
        ]

    async def _is_gone(self, claim: NodeClaim) -> bool:
        """Reads this instance: the list may be older than its launch."""
        try:
            await self._cloud.instance(claim.status.provider_id or "")
        except (errors.NotFound, errors.NotReady) as error:
            return isinstance(error, errors.NotFound)
        return False


def without_claim(instances: Sequence[Instance], claims: Sequence[NodeClaim], now_s: int) -> list[Instance]:
    """The instances without a NodeClaim that no NodeClaim may adopt. A NodeClaim that is not launched adopts an
    instance with its launch token or its name, or one that Karpenter launched for its NodePool without a token."""
    owned = {claim.status.provider_id for claim in claims}
    unlaunched = [claim for claim in claims if not claim.status.provider_id]
    tokens = {claim.metadata.annotations.get(names.LAUNCH_TOKEN) for claim in unlaunched}
    unlaunched_names = {claim.metadata.name for claim in unlaunched}
    unlaunched_pools = {claim.metadata.labels.get(names.NODEPOOL) for claim in unlaunched}

    def may_be_adopted(instance: Instance) -> bool:
        if instance.claim is not None or instance.launch_token is not None:
            return instance.claim in unlaunched_names or instance.launch_token in tokens - {None}
        is_of_pool = dict(instance.labels).get(names.NODEPOOL) in unlaunched_pools
        return is_of_pool and now_s - instance.launched_s <= _UNCLAIMED_S

    return [
        instance
        for instance in instances
        if instance.state in (InstanceState.STARTING, InstanceState.RUNNING)
        and instance.provider_id not in owned
        and not may_be_adopted(instance)
        and now_s - instance.launched_s > _YOUNG_S
    ]


def without_instance(claims: Sequence[NodeClaim], instances: Sequence[Instance]) -> list[NodeClaim]:
    """The registered NodeClaims whose instance is not listed."""
    there = {instance.provider_id for instance in instances if instance.state is not InstanceState.GONE}
    return [
        claim
        for claim in claims
        if claim.status.provider_id not in there
        and claim.metadata.deletion_timestamp is None
        and conditions.holds(claim.status.conditions, claim_conditions.REGISTERED)
    ]
