"""The drift of NodeClaims from their NodePool. A claim is compared again only if something changed.

Called by `drift_checks` for each claim every few minutes; most often with the same values as before.
"""

from collections.abc import Collection, Mapping
from typing import Any

from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.core.disruption import drift
from holdfast.core.disruption.drift import Hash, Subject
from holdfast.model.offerings import InstanceType
from holdfast.model.snapshot import CloudLabels
from holdfast.state.conversion import nodepools


class PoolDrift:
    def __init__(self, cloud: CloudLabels) -> None:
        self._cloud = cloud
        self._compared: dict[str, tuple[tuple[Any, ...], str | None]] = {}  # by uid: inputs and reason
        self._types: dict[str, tuple[tuple[InstanceType, ...], Mapping[str, InstanceType]]] = {}
        self._offered: dict[tuple[str, str], tuple[InstanceType, tuple[Any, ...]]] = {}  # by class and type
        self._of_pool: dict[str, tuple[NodePool, tuple[Any, ...]]] = {}  # by name

    def reason(
        self, claim: NodeClaim, pool: NodePool, types: tuple[InstanceType, ...], age_s: int
    ) -> str | None:
        """The reason of `core.disruption.drift`. `types`: the instance types of the class of the claim. Raises InvalidInput
        if the NodePool cannot be parsed."""
        own = self._own(claim, types)
        offered = self._offerings(claim, own)
        inputs = (*self.fields(claim, pool), offered, drift.is_old(age_s))
        before = self._compared.get(claim.metadata.uid)
        if before is None or before[0] != inputs:
            before = inputs, drift.reason(_subject(claim, pool, own, age_s, self._cloud))
            self._compared[claim.metadata.uid] = before
        return before[1]

    def fields(self, claim: NodeClaim, pool: NodePool) -> tuple[Any, ...]:
        """Everything of a claim and its NodePool that drift depends on. What did not change is the same object, which is
        compared faster."""
        known, found = self._of_pool.get(pool.metadata.name, (None, ()))
        if known is not pool:
            new = of_pool(pool)
            found = found if found == new else new
            self._of_pool[pool.metadata.name] = pool, found
        return claim.metadata.labels, claim.metadata.annotations, found

    def keep(self, uids: Collection[str]) -> None:
        """Forgets the other claims."""
        self._compared = {uid: one for uid, one in self._compared.items() if uid in uids}

    def _own(self, claim: NodeClaim, types: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """The instance type of the claim; empty: it is not in the catalog. The cloud returns the same tuple while nothing
        changed."""
        class_name = claim.spec.node_class_ref.name
        known, by_name = self._types.get(class_name, ((), {}))
        if known is not types:
            by_name = {one.name: one for one in types}
            self._types[class_name] = types, by_name
        found = by_name.get(claim.metadata.labels.get(names.INSTANCE_TYPE, ""))
        return () if found is None else (found,)

    def _offerings(self, claim: NodeClaim, own: tuple[InstanceType, ...]) -> tuple[Any, ...]:
        """What drift depends on of the offerings of a type. Their prices and counts change often, and are left out."""
        for type_ in own:
            key = claim.spec.node_class_ref.name, type_.name
            known, offered = self._offered.get(key, (None, ()))
            if known is not type_:
                found = tuple((one.capacity_type, one.requirements) for one in type_.offerings)
                offered = offered if found == offered else found  # the same tuple is compared faster
                self._offered[key] = type_, offered
            return offered
        return ()


def of_pool(pool: NodePool) -> tuple[Any, ...]:
    """Everything of a NodePool that its claims depend on. Its status changes with each claim, and its other annotations
    with each consolidation."""
    return pool.metadata.uid, pool.metadata.generation, _hash(pool)


def _subject(
    claim: NodeClaim, pool: NodePool, own: tuple[InstanceType, ...], age_s: int, cloud: CloudLabels
) -> Subject:
    labels = claim.metadata.labels
    reserved = labels.get(names.CAPACITY_TYPE) == names.RESERVED
    return Subject(
        launched=True,
        age_s=age_s,
        labels=labels,
        claim_hash=_hash(claim),
        pool_hash=_hash(pool),
        wanted=nodepools.template_requirements(pool),
        instance_types=own,
        cloud=cloud,
        # In direct mode a node that is not `reserved` may still have reservation labels.
        ignored=frozenset() if reserved else cloud.reserved & labels.keys(),
    )


def _hash(obj: Object) -> Hash:
    stamped = obj.metadata.annotations
    return Hash(stamped.get(names.NODEPOOL_HASH), stamped.get(names.NODEPOOL_HASH_VERSION))
