"""nodeclass.hash: writes the hash of a node class on the class, and its version on the NodeClaims of the class.

NodeClaims of another autoscaler get our hash when Holdfast takes over, so they are not replaced.
"""

from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.reservation_slots import differ_only_in_counts
from holdfast.controllers import hash_annotations
from holdfast.controllers.hash_annotations import HashAnnotations
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
        controller.watch(
            self._classes, lambda node_class: (key_of(node_class),), unless=differ_only_in_counts
        )

    async def reconcile(self, key: Key) -> Done:
        node_class = self._classes.get(key)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return Done()
        hashes = HashAnnotations(
            hash_key=self._terms.hash_key,
            version_key=self._terms.hash_version_key,
            hash=self._cloud.fingerprint(node_class),
            version=self._terms.hash_version,
        )
        claims = self._of_class.get(node_class.metadata.name)
        return Done(await hash_annotations.write(self._kube, node_class, claims, hashes))
