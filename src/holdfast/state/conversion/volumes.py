"""Requirements of a pod's volumes on a node: attachments, and the topologies in which the volumes can be attached.

A pod with a volume that can never be attached is rejected with a reason (S-100). A volume with several topologies gives
alternatives; a node must match one of them (S-96). These requirements are never part of the pod's own requirements
(S-98).
"""

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec import structs

from holdfast import names
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Pod, Volume
from holdfast.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
)
from holdfast.model import label_rules, requirement, requirements
from holdfast.model.pods import Volumes
from holdfast.model.reasons import CLAIM, Reason, ReasonCode
from holdfast.model.requirement import Operator
from holdfast.model.requirements import Requirements
from holdfast.state.conversion import node_terms, times
from holdfast.state.conversion.node_terms import LabelRules

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
IMMEDIATE: Final = "Immediate"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
ALTERNATIVES_MAX: Final = 256  # a plan with fewer alternatives is still correct; users write fewer

# In-tree storage plugins of Kubernetes, and the CSI drivers that replaced them.
DRIVERS: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}


@dataclass(frozen=True, slots=True)
class Storage:
    """The PersistentVolumeClaims, PersistentVolumes and StorageClasses of a cluster, by name."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)  # namespace, name
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)


def storage(
    claims: Iterable[PersistentVolumeClaim],
    volumes: Iterable[PersistentVolume],
    classes: Iterable[StorageClass],
) -> Storage:
    return Storage(
        {(c.metadata.namespace or "default", c.metadata.name): c for c in claims},
        {v.metadata.name: v for v in volumes},
        {c.metadata.name: c for c in classes},
    )


def claim_names(pod: str, wires: Sequence[Volume]) -> tuple[str, ...]:
    """The claims of a pod's volumes; the claim of an ephemeral volume is named after pod and volume (S-99)."""
    return tuple(
        wire.persistent_volume_claim.claim_name if wire.persistent_volume_claim else f"{pod}-{wire.name}"
        for wire in wires
        if wire.persistent_volume_claim or wire.ephemeral
    )


def ephemeral_claims(pod: Pod) -> Iterator[PersistentVolumeClaim]:
    """The claims that are created for a pod's ephemeral volumes (S-99)."""
    for volume in pod.spec.volumes:
        template = volume.ephemeral and volume.ephemeral.volume_claim_template
        if template:
            (name,) = claim_names(pod.metadata.name, [volume])
            spec = PersistentVolumeClaimSpec(storage_class_name=template.spec.storage_class_name)
            yield PersistentVolumeClaim(
                metadata=ObjectMeta(name=name, namespace=pod.metadata.namespace), spec=spec
            )


def with_default_class(
    claim: PersistentVolumeClaim, classes: Iterable[StorageClass]
) -> PersistentVolumeClaim:
    """The claim with the storage class that the API server gives it. Of several default classes the newest counts."""
    if claim.spec.storage_class_name is not None:
        return claim
    defaults = sorted(
        (-(times.epoch_s_or_none(one.metadata.creation_timestamp) or 0), one.metadata.name)
        for one in classes
        if one.metadata.annotations.get(_DEFAULT_CLASS) == "true"
    )
    if not defaults:
        return claim
    return structs.replace(claim, spec=structs.replace(claim.spec, storage_class_name=defaults[0][1]))


def created_with(pod: Pod, known: Storage) -> Storage:
    """The storage once a pod that does not exist yet is created, with the claims of its ephemeral volumes. The same object
    if it has none."""
    own = {
        (one.metadata.namespace or "default", one.metadata.name): with_default_class(
            one, known.classes.values()
        )
        for one in ephemeral_claims(pod)
    }
    return replace(known, claims=ChainMap(own, dict(known.claims))) if own else known


def needs(
    namespace: str, claims: Iterable[str], known: Storage, rules: LabelRules
) -> tuple[Volumes, tuple[Reason, ...]]:
    """The requirements of these claims on a node, and why a claim cannot be bound or attached."""
    attachments: set[tuple[str, str]] = set()
    alternatives: tuple[Requirements, ...] = ()
    reasons = []
    for name in claims:
        claim = known.claims.get((namespace, name))
        problem = _problem(claim, known, rules)
        if problem:
            reasons.append(Reason(ReasonCode.VOLUMES, problem, (name,), CLAIM))
        if claim is None:
            continue
        driver = _driver(claim, known)
        if driver:
            attachments.add((driver, f"{namespace}/{name}"))
        if not problem:
            alternatives = _combined(alternatives, _topologies(claim, known, rules))
    return Volumes(tuple(sorted(attachments)), alternatives), tuple(reasons)


def _problem(claim: PersistentVolumeClaim | None, known: Storage, rules: LabelRules) -> str | None:
    """Why a pod with this claim cannot start on any node (S-100)."""
    if claim is None:
        return "it does not exist"
    if claim.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if claim.status.phase == "Lost":
        return "it has lost its volume"
    if claim.spec.volume_name:
        return _volume_problem(claim, known.volumes.get(claim.spec.volume_name))
    if not claim.spec.storage_class_name:
        return "it is not bound and names no storage class"
    storage_class = known.classes.get(claim.spec.storage_class_name)
    if storage_class is None:
        return f"its storage class {claim.spec.storage_class_name} does not exist"
    return _class_problem(storage_class, rules)


def _volume_problem(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> str | None:
    if volume is None:
        return f"its volume {claim.spec.volume_name} does not exist"
    if volume.metadata.deletion_timestamp is not None:
        return f"its volume {claim.spec.volume_name} is being deleted"
    if BIND_COMPLETED not in claim.metadata.annotations:
        return f"its binding to the volume {claim.spec.volume_name} is not complete"
    return None


def _class_problem(storage_class: StorageClass, rules: LabelRules) -> str | None:
    name = storage_class.metadata.name
    if storage_class.provisioner == NO_PROVISIONER:
        return f"its storage class {name} makes no volumes ({NO_PROVISIONER})"
    if storage_class.volume_binding_mode == IMMEDIATE:
        return f"its storage class {name} binds at once, and it is not bound yet"
    for term in storage_class.allowed_topologies:
        for wanted in term.match_label_expressions:
            key = rules.key_aliases.get(wanted.key, wanted.key)
            restricted = label_rules.why_restricted(key, rules.well_known)
            if restricted:
                return f"the topology of its storage class {name} cannot be used: {restricted}"
    return None


def _driver(claim: PersistentVolumeClaim, known: Storage) -> str | None:
    """The CSI driver that attaches the claim's volume (S-95); None: the volume does not count for a limit."""
    volume = known.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        spec = volume.spec
        if spec.csi is not None:
            return spec.csi.driver
        in_tree = (
            ("kubernetes.io/aws-ebs", spec.aws_elastic_block_store),
            ("kubernetes.io/gce-pd", spec.gce_persistent_disk),
            ("kubernetes.io/azure-disk", spec.azure_disk),
        )
        found = next((plugin for plugin, source in in_tree if source is not None), None)
        if found is not None:
            return DRIVERS[found]
    storage_class = known.classes.get(claim.spec.storage_class_name or "")
    if storage_class is None or storage_class.provisioner == NO_PROVISIONER:
        return None
    return DRIVERS.get(storage_class.provisioner, storage_class.provisioner) or None


def _topologies(claim: PersistentVolumeClaim, known: Storage, rules: LabelRules) -> tuple[Requirements, ...]:
    """The topologies in which the claim's volume is or can be created; empty: all."""
    if claim.spec.volume_name:
        return _volume_topologies(known.volumes[claim.spec.volume_name], rules)
    terms = known.classes[claim.spec.storage_class_name or ""].allowed_topologies
    return tuple(
        requirements.of(
            *(
                requirement.of(rules.key_aliases.get(r.key, r.key), Operator.IN, r.values)
                for r in term.match_label_expressions
            )
        )
        for term in terms
        if term.match_label_expressions
    )


def _volume_topologies(volume: PersistentVolume, rules: LabelRules) -> tuple[Requirements, ...]:
    affinity = volume.spec.node_affinity and volume.spec.node_affinity.required
    terms = [term.match_expressions for term in affinity.node_selector_terms] if affinity else []
    if volume.spec.local is not None or volume.spec.host_path is not None:
        # The pod must be planned onto another node, so the hostname is ignored. Other labels are still required (S-97).
        terms = [tuple(e for e in expressions if e.key != names.HOSTNAME) for expressions in terms]
        if not all(terms):
            return ()
    return tuple(node_terms.all_of(expressions, rules) for expressions in terms if expressions)


def _combined(some: Sequence[Requirements], others: Sequence[Requirements]) -> tuple[Requirements, ...]:
    """Every pair that one node can match. If there is none, all pairs, so that the planner reports why (S-96)."""
    if not some or not others:
        return tuple(some or others)
    pairs = [(a, b) for a in some for b in others]
    fitting = [(a, b) for a, b in pairs if a.intersects(b)]
    return tuple(dict.fromkeys(a.union(b) for a, b in fitting or pairs))[:ALTERNATIVES_MAX]
