"""nodeclass.hash: the fingerprint of a class, on the class, and its version on the NodeClaims of the class.

Run by the engine, a key a class. A fleet that another autoscaler stamped is stamped anew when we take it over, instead
of being replaced.
"""

from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers import stamps
from holdfast.controllers.stamps import Stamp
from holdfast.ports import Cloud, Kube
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key


class Hash:
    name: Final = "nodeclass.hash"

    def __init__(self, *, kube: Kube, cloud: Cloud, caches: Caches) -> None:
        self._kube = kube
        self._cloud = cloud
        self._terms = terms = cloud.node_classes
        self._classes = caches.of(terms.kind)
        self._of_class = caches.of(NodeClaim).index(lambda claim: terms.names(claim.spec.node_class_ref))

    def watch(self, controller: Controller) -> None:
        controller.watch(self._classes, lambda node_class: (key_of(node_class),))

    async def reconcile(self, key: Key) -> Done:
        node_class = self._classes.get(key)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return Done()
        stamp = Stamp(
            hash_key=self._terms.hash_key,
            version_key=self._terms.hash_version_key,
            hash=self._cloud.fingerprint(node_class),
            version=self._terms.hash_version,
        )
        claims = tuple(self._of_class.get(node_class.metadata.name))
        return Done(await stamps.put(self._kube, node_class, claims, stamp))
