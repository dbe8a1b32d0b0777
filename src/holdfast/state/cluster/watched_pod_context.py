"""The objects that the conversion of a pod depends on: namespaces, storage and, if the cluster has default spread
constraints, Services and the controllers of pods.

Called by `cluster_state`. After a change of a PersistentVolumeClaim or its volume, only its pods are converted again.
After any other change, all pods that depend on one of these objects are.
"""

from collections.abc import Sequence
from typing import Any, Final

from holdfast.api.cluster import Namespace, Service
from holdfast.api.meta import Object
from holdfast.api.scheduler_config import DefaultConstraint
from holdfast.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import Deployment, ReplicaSet, ReplicationController, StatefulSet
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.results import Key
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.conversion import default_spreads, pod_shapes, volumes
from holdfast.state.conversion.default_spreads import Defaults
from holdfast.state.conversion.pod_shapes import PodContext

MAKERS: Final[tuple[type[Object], ...]] = (  # needed for default spread constraints only (S-85)
    Service,
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)


class WatchedPodContext:
    def __init__(self, caches: Caches, pods: WatchedPods, spreads: Sequence[DefaultConstraint]) -> None:
        self._caches = caches
        self._pods = pods
        self._spreads = tuple(map(pod_shapes.spread, spreads))
        self._claims = caches.of(PersistentVolumeClaim)
        self._claims_by_volume = self._claims.index(_volume)
        self._changed_claims: dict[Key, None] = {}
        self._changed = True  # an object of another kind changed
        kinds: tuple[type[Object], ...] = (Namespace, StorageClass, *(MAKERS if spreads else ()))
        for kind in kinds:
            caches.of(kind).subscribe(self._on_any)
        self._claims.subscribe(self._on_claim)
        caches.of(PersistentVolume).subscribe(self._on_volume)

    def read(self) -> None:
        """Converts pods with the current objects from now on."""
        if not self._changed and not self._changed_claims:
            return
        context = PodContext(
            {n.metadata.name: n.metadata.labels for n in self._caches.of(Namespace)},
            volumes.storage(self._claims, self._caches.of(PersistentVolume), self._caches.of(StorageClass)),
            self._defaults(),
        )
        self._pods.use(context, None if self._changed else tuple(self._changed_claims))
        self._changed, self._changed_claims = False, {}

    def _defaults(self) -> Defaults:
        if not self._spreads:
            return Defaults()
        of = self._caches.of
        makers = (*of(Deployment), *of(ReplicaSet), *of(ReplicationController), *of(StatefulSet))
        return default_spreads.defaults(self._spreads, of(Service), makers)

    def _on_any(self, _before: Any, _after: Any) -> None:
        self._changed = True

    def _on_claim(self, before: PersistentVolumeClaim | None, after: PersistentVolumeClaim | None) -> None:
        self._changed_claims |= {key_of(claim): None for claim in (before, after) if claim is not None}

    def _on_volume(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        for volume in (before, after):
            if volume is not None:
                self._changed_claims |= dict.fromkeys(
                    map(key_of, self._claims_by_volume.get(volume.metadata.name))
                )


def _volume(claim: PersistentVolumeClaim) -> tuple[str, ...]:
    return (claim.spec.volume_name,) if claim.spec.volume_name else ()
