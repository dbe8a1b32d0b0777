"""A planned claim as the NodeClaim that is written; pure.

Called by `provisioner`. The rule: the claim says exactly what the plan decided. With a slot it asks for `reserved` and
the reservations that would do, and names the slot it holds; without one it does not list `reserved`.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from holdfast import names
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeSelectorRequirement, ResourceRequirements
from holdfast.api.nodepool import NodePool
from holdfast.core.scheduling.plan import PlannedClaim
from holdfast.model import label_rules, resources
from holdfast.model.requirements import Requirements
from holdfast.state import nodepools


def node_claim(planned: PlannedClaim, pool: NodePool, name: str, well_known: AbstractSet[str]) -> NodeClaim:
    template = pool.spec.template
    hashes = {
        key: value
        for key, value in pool.metadata.annotations.items()
        if key in (names.NODEPOOL_HASH, names.NODEPOOL_HASH_VERSION)
    }
    requests: dict[str, str | int] = {
        name: resources.text(name, amount) for name, amount in planned.requests.amounts
    }
    return NodeClaim(
        metadata=ObjectMeta(
            name=name,
            labels=nodepools.template_labels(pool)
            | label_rules.custom_labels(planned.requirements, well_known),
            annotations=template.metadata.annotations | hashes | planned.annotations,
            finalizers=(names.TERMINATION_FINALIZER,),
            owner_references=(
                OwnerReference(
                    api_version=pool.api_version,
                    kind=pool.kind,
                    name=pool.metadata.name,
                    uid=pool.metadata.uid,
                    block_owner_deletion=True,
                ),
            ),
        ),
        spec=NodeClaimSpec(
            node_class_ref=template.spec.node_class_ref,
            requirements=tuple(_expressions(planned.requirements)),
            taints=template.spec.taints,
            startup_taints=template.spec.startup_taints,
            resources=ResourceRequirements(requests=requests),
            termination_grace_period=template.spec.termination_grace_period,
            expire_after=template.spec.expire_after,
        ),
    )


def _expressions(wanted: Requirements) -> Iterator[NodeSelectorRequirement]:
    for one in wanted.expressions():
        if one.key not in label_rules.SIMULATION_ONLY:
            yield NodeSelectorRequirement(
                key=one.key, operator=str(one.operator), values=one.values, min_values=one.min_values
            )
