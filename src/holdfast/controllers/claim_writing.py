"""Converts a planned claim to the NodeClaim that is created.

The NodeClaim has exactly the requirements of the plan. With a slot it requires `reserved` and lists the reservations
that it can use, and an annotation names the reservation that it holds. Without a slot it does not list `reserved`.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final

from holdfast import names
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.api.nodeclaim import (
    NodeClaim,
    NodeClaimSpec,
    NodeSelectorRequirement,
    ResourceRequirements,
    Taint,
)
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.core.disruption.commands import Replacement
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.model import label_rules, prices, resources, wording
from holdfast.model.requirements import Requirements
from holdfast.ports import Recorder
from holdfast.runtime.metrics import Metric
from holdfast.state.conversion import nodepools, pod_states
from holdfast.state.conversion.gang_launches import GangLaunch

CREATED: Final = "karpenter_nodeclaims_created_total"
_FORMING: Final = (Taint(key=names.FORMING_TAINT, effect="NoSchedule"),)
METRICS: Final = (
    Metric(CREATED, "counter", "NodeClaims written.", ("reason", "nodepool", "min_values_relaxed")),
)


def node_claim(
    planned: PlannedClaim,
    pool: NodePool,
    name: str,
    well_known: AbstractSet[str],
    annotations: Mapping[str, str] = MappingProxyType({}),
    gang: GangLaunch | None = None,
) -> NodeClaim:
    """`gang`: the launch of all NodeClaims that are launched all or none with this one."""
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
            annotations=template.metadata.annotations
            | hashes
            | planned.annotations
            | (gang.annotations if gang is not None else {})
            | dict(annotations),
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
            startup_taints=template.spec.startup_taints + (_FORMING if gang is not None else ()),
            resources=ResourceRequirements(requests=requests),
            termination_grace_period=template.spec.termination_grace_period,
            expire_after=template.spec.expire_after,
        ),
    )


def hold_annotations(one: Replacement, pods: Iterable[Pod]) -> dict[str, str]:
    """Annotations of a NodeClaim that waits for its slot: the instance in the slot, and the owners of its pods."""
    if one.waits_for_instance is None:
        return {}
    return {names.WAITS_FOR_INSTANCE: one.waits_for_instance, names.HELD_FOR: pod_states.makers(pods)}


def created_text(planned: PlannedClaim, claim: NodeClaim) -> str:
    """One sentence: the NodeClaim, its pods and the offering that the plan counts on."""
    paid = (
        f"reserved in {planned.reservation_id}"
        if planned.reservation_id
        else f"{planned.capacity_type}, {_usd(planned.price_nano_usd_per_hour)}"
    )
    return (
        f"Created NodeClaim {claim.metadata.name} for {wording.count(len(planned.pods), 'pod')}: "
        f"{planned.instance_type} in {planned.zone}, {paid}"
    )


def _usd(price_nano: int | None) -> str:
    return "price unknown" if price_nano is None else f"${prices.text(price_nano)} an hour"


def count(recorder: Recorder, claim: NodeClaim, reason: str) -> None:
    """Counts a created NodeClaim."""
    meta = claim.metadata
    about = {"reason": reason, "nodepool": meta.labels[names.NODEPOOL]}
    recorder.count(CREATED, about | {"min_values_relaxed": meta.annotations[names.MIN_VALUES_RELAXED]})


def _expressions(wanted: Requirements) -> Iterator[NodeSelectorRequirement]:
    for one in wanted.expressions():
        if one.key not in label_rules.SIMULATION_ONLY:
            yield NodeSelectorRequirement(
                key=one.key, operator=str(one.operator), values=one.values, min_values=one.min_values
            )
