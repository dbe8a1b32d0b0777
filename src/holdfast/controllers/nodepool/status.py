"""nodepool.status: writes the conditions of a NodePool in one patch.

One key for each NodePool. Ready depends on validation and on the class; registration health is only reported (P-16,
C-2). A mistake that the API server accepts sets a condition to False. So does a NodePool that can launch nothing: no
instance type of its class suits it, or it is static. The first of these stops no plan (state.conversion.nodepools).
"""

from collections.abc import Sequence
from typing import Any, Final

from holdfast import errors
from holdfast.api import conditions, findings
from holdfast.api.conditions import FALSE, TRUE, UNKNOWN, ConditionSet
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers import status_patch
from holdfast.controllers.nodepool.classes import PoolClasses
from holdfast.controllers.nodepool.registration import RegistrationHealth
from holdfast.core.scheduling.output import usable_types
from holdfast.ports import Clock, Cloud, Kube, Recorder
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.conversion import nodepools
from holdfast.state.conversion.nodepools import INSTANCE_TYPES, NODE_CLASS, VALIDATION

NEVER: Final = "NeverLaunches"  # NodePool and class exclude each other, whatever the cloud offers
READY_NEEDS: Final = (VALIDATION, NODE_CLASS)
STATIC: Final = "StaticNodePoolNotSupported"
_STATIC_MESSAGE: Final = (
    "spec.replicas is set, and static NodePools are not supported: nothing is launched, replaced or deleted for this "
    "NodePool; create a NodePool without spec.replicas"
)
_PROBLEMS_SHOWN: Final = 10
_AGAIN_S: Final = (
    60.0  # while no instance type suits: the catalog changes without a change of NodePool or class
)


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

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        known = self._classes.find(key)
        if known is None:
            self._registrations.discard(key)
            return Done()
        pool, class_name, node_class = known
        found = conditions.edit(pool, now_s=self._clock.now_s())
        valid = self._validate(found, pool)
        _set_class_condition(found, class_name, node_class)
        self._registrations.set_condition(found, pool, node_class)
        never = tuple(self._cloud.never(pool, node_class)) if valid and node_class is not None else ()
        if valid and node_class is not None and found.holds(NODE_CLASS):
            await self._set_types_condition(found, pool, node_class, never)
        else:
            found.drop(INSTANCE_TYPES)
        lacks_types = found.find(INSTANCE_TYPES) is not None
        found.summarize((*READY_NEEDS, INSTANCE_TYPES) if lacks_types else READY_NEEDS)
        did = await status_patch.write(
            self._kube, pool, found.changes | _observed_generation(pool, node_class)
        )
        status_patch.emit_events(self._recorder, pool, found.all)
        for why in never:
            self._recorder.event(pool, NEVER, why, warning=True)
        return RequeueAfter(_AGAIN_S, "no instance type suits", did) if lacks_types else Done(did)

    async def _set_types_condition(
        self, found: ConditionSet, pool: NodePool, node_class: Object, never: Sequence[str]
    ) -> None:
        """The condition exists only while it is False. A failed read changes nothing."""
        if never:
            found.put(INSTANCE_TYPES, FALSE, NEVER, "; ".join(never[:_PROBLEMS_SHOWN]))
            return
        try:
            types = await self._cloud.instance_types(node_class)
        except errors.HoldfastError:
            return
        wanted = nodepools.template_requirements(pool)
        why = usable_types.why_none(wanted, types, self._cloud.labels.well_known)
        if why is None:
            found.drop(INSTANCE_TYPES)
        else:
            found.put(INSTANCE_TYPES, FALSE, *why)

    def _validate(self, found: ConditionSet, pool: NodePool) -> bool:
        if pool.spec.replicas is not None:
            found.put(VALIDATION, FALSE, STATIC, _STATIC_MESSAGE)
            return False
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
