"""nodepool.hash: writes the hash of a NodePool's template on the pool, and its version on the NodeClaims of the pool.

A NodeClaim is created with its hash. Claims with another hash version get ours before the pool does, so after Karpenter
is replaced by Holdfast no node is drifted (P-14, P-15).
"""

from typing import Final

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers import hash_annotations
from holdfast.controllers.hash_annotations import HashAnnotations
from holdfast.ports import Cloud, Kube
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key
from holdfast.state.conversion import nodepools


class Hash:
    name: Final = "nodepool.hash"

    def __init__(self, *, kube: Kube, cloud: Cloud, caches: Caches) -> None:
        self._kube = kube
        self._terms = cloud.node_classes
        self._pools = caches.of(NodePool)
        self._of_pool = caches.of(NodeClaim).index(indexes.by_node_pool)

    def watch(self, controller: Controller) -> None:
        controller.watch(self._pools, lambda pool: (key_of(pool),))

    async def reconcile(self, key: Key) -> Done:
        pool = self._pools.get(key)
        if pool is None or not self._terms.names(pool.spec.template.spec.node_class_ref):
            return Done()
        hashes = HashAnnotations(
            hash_key=names.NODEPOOL_HASH,
            version_key=names.NODEPOOL_HASH_VERSION,
            hash=nodepools.template_hash(pool),
            version=nodepools.HASH_VERSION,
        )
        claims = (
            claim
            for claim in self._of_pool.get(pool.metadata.name)
            if self._terms.names(claim.spec.node_class_ref)
        )
        return Done(await hash_annotations.write(self._kube, pool, claims, hashes))
