"""nodepool.status: writes the conditions of a NodePool in one patch.

One key for each NodePool. Ready depends on validation and on the class; registration health is only reported (P-16,
C-2). A mistake that the API server accepts sets a condition to False.
"""

from typing import Any, Final

from holdfast.api import conditions, findings
from holdfast.api.conditions import FALSE, TRUE, UNKNOWN, ConditionSet
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers import status_patch
from holdfast.controllers.nodepool.classes import PoolClasses
from holdfast.controllers.nodepool.registration import RegistrationHealth
from holdfast.ports import Clock, Cloud, Kube, Recorder
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key
from holdfast.state.conversion import nodepools

VALIDATION: Final = "ValidationSucceeded"
NODE_CLASS: Final = "NodeClassReady"
NEVER: Final = "NeverLaunches"  # NodePool and class exclude each other, whatever the cloud offers
READY_NEEDS: Final = (VALIDATION, NODE_CLASS)
_PROBLEMS_SHOWN: Final = 10


class Status:
    name: Final = "nodepool.status"

    def __init__(self, *, kube: Kube, cloud: Cloud, caches: Caches, clock: Clock, recorder: Recorder) -> None:
        self._kube = kube
        self._cloud = cloud
        self._clock = clock
        self._recorder = recorder
        self._classes = PoolClasses(cloud, caches)
        self._registrations = RegistrationHealth(pools=caches.of(NodePool), claims=caches.of(NodeClaim))

    def watch(self, controller: Controller) -> None:
        self._classes.watch(controller)
        self._registrations.subscribe(controller.add)

    async def reconcile(self, key: Key) -> Done:
        known = self._classes.find(key)
        if known is None:
            self._registrations.discard(key)
            return Done()
        pool, class_name, node_class = known
        found = conditions.edit(pool, now_s=self._clock.now_s())
        valid = self._validate(found, pool)
        _set_class_condition(found, class_name, node_class)
        self._registrations.set_condition(found, pool, node_class)
        found.summarize(READY_NEEDS)
        did = await status_patch.write(
            self._kube, pool, found.changes | _observed_generation(pool, node_class)
        )
        status_patch.emit_events(self._recorder, pool, found.all)
        if valid and node_class is not None:
            for why in self._cloud.never(pool, node_class):
                self._recorder.event(pool, NEVER, why, warning=True)
        return Done(did)

    def _validate(self, found: ConditionSet, pool: NodePool) -> bool:
        wrong = [
            f"{findings.text_of(one.path)}: {one.message}"
            for one in nodepools.problems(pool, self._cloud.labels.well_known)
        ]
        if wrong:
            message = "; ".join(wrong[:_PROBLEMS_SHOWN])
            found.put(VALIDATION, FALSE, "NodePoolValidationFailed", message)
        else:
            found.put(VALIDATION, TRUE)
        return not wrong


def _set_class_condition(found: ConditionSet, name: str, node_class: Object | None) -> None:
    if node_class is None:
        found.put(NODE_CLASS, FALSE, "NodeClassNotFound", f"NodeClass not found on cluster: {name}")
        return
    if node_class.metadata.deletion_timestamp is not None:
        found.put(NODE_CLASS, FALSE, "NodeClassTerminating", f"NodeClass is Terminating: {name}")
        return
    ready = conditions.find(conditions.of(node_class), conditions.READY)
    current = ready is not None and ready.observed_generation == node_class.metadata.generation
    if ready is None or not current or ready.status == UNKNOWN:
        why = f"node class {name} has not been looked at yet, or could not be read"
        found.put(NODE_CLASS, FALSE, "NodeClassReadinessUnknown", why)
    elif ready.status == FALSE:
        found.put(NODE_CLASS, FALSE, ready.reason or "", f"node class {name}: {ready.message}")
    else:
        found.put(NODE_CLASS, TRUE)


def _observed_generation(pool: NodePool, node_class: Object | None) -> dict[str, Any]:
    """The generation of the class, if it changed."""
    if node_class is None or pool.status.node_class_observed_generation == node_class.metadata.generation:
        return {}
    return {"nodeClassObservedGeneration": node_class.metadata.generation}
