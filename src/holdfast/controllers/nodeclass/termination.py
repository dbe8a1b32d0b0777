"""Finalizes a deleting node class: waits for its NodeClaims, releases its resources, removes the finalizer.

Called by `status`. The finalizer is removed last, so after a crash at any point all steps are repeated.
"""

from typing import Final

from holdfast import errors
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.ports import Cloud, Kube, Recorder
from holdfast.runtime.cache import Cache
from holdfast.runtime.results import Done, RequeueAfter

WAITING: Final = "WaitingOnNodeClaimTermination"
_PERIOD_S: Final = 600.0  # repeats the event; the deletion of a NodeClaim triggers a reconcile
_UNREADABLE_S: Final = 60.0
_NAMED: Final = 5


class Termination:
    def __init__(self, *, kube: Kube, cloud: Cloud, claims: Cache[NodeClaim], recorder: Recorder) -> None:
        self._kube = kube
        self._cloud = cloud
        self._recorder = recorder
        terms = cloud.node_classes
        self._finalizer = terms.finalizer
        self._claims = claims
        self._of_class = claims.index(lambda claim: terms.names(claim.spec.node_class_ref))

    async def end(self, node_class: Object) -> Done | RequeueAfter:
        if self._finalizer not in node_class.metadata.finalizers:
            return Done()
        users = sorted(claim.metadata.name for claim in self._of_class.get(node_class.metadata.name))
        if users:
            shown = ", ".join(users[:_NAMED]) + (f" and {len(users) - _NAMED} more" if users[_NAMED:] else "")
            self._recorder.event(node_class, WAITING, f"Waiting on NodeClaim termination for {shown}")
            return RequeueAfter(_PERIOD_S, f"{len(users)} NodeClaims use the class")
        if self._claims.unreadable:
            return RequeueAfter(_UNREADABLE_S, "a NodeClaim that may use the class cannot be read")
        await self._cloud.release(node_class)
        left = [name for name in node_class.metadata.finalizers if name != self._finalizer]
        try:
            await self._kube.patch(node_class, {"metadata": {"finalizers": left}}, only_if_unchanged=True)
        except errors.NotFound:
            return Done()
        return Done("deleted the launch templates and instance profile of the class")
