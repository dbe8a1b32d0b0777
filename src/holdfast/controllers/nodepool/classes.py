"""NodePools with their node classes. A change of either triggers a reconcile of the NodePool.

A NodePool whose class has another kind is ignored.
"""

from typing import NamedTuple

from holdfast.api.meta import Object
from holdfast.api.nodepool import NodePool
from holdfast.api.reservation_slots import differ_only_in_counts
from holdfast.ports import Cloud
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key


class Found(NamedTuple):
    pool: NodePool
    class_name: str
    node_class: Object | None


class PoolClasses:
    def __init__(self, cloud: Cloud, caches: Caches) -> None:
        self._terms = terms = cloud.node_classes
        self._classes = caches.of(terms.kind)
        self._pools = caches.of(NodePool)
        self._of_class = self._pools.index(lambda pool: terms.names(pool.spec.template.spec.node_class_ref))

    def watch(self, controller: Controller) -> None:
        controller.watch(self._pools, lambda pool: (key_of(pool),))
        controller.watch(
            self._classes,
            lambda c: map(key_of, self._of_class.get(c.metadata.name)),
            unless=differ_only_in_counts,
        )

    def find(self, key: Key) -> Found | None:
        """None: the NodePool is deleted, or its class has another kind."""
        pool = self._pools.get(key)
        class_names = self._terms.names(pool.spec.template.spec.node_class_ref) if pool is not None else ()
        if pool is None or not class_names:
            return None
        return Found(pool, class_names[0], self._classes.get(("", class_names[0])))
