"""Volumes and their zones: PersistentVolumeClaims, PersistentVolumes, StorageClasses and the volume limits of nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from checker import labels
from checker.labels import Term

_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolumeClaim that can be bound. A node must satisfy one of the terms; without terms any node fits."""

    name: str  # namespace/name of the claim
    driver: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Storage:
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    # Limits that drivers report, by node and driver; None: without a count.
    limits: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)


def read(documents: Iterable[Mapping[str, Any]]) -> Storage:
    listed = list(documents)
    by_kind: dict[str, dict[str, Mapping[str, Any]]] = {}
    for one in listed:
        by_kind.setdefault(one["kind"], {})[one["metadata"]["name"]] = one
    claims = [one for one in listed if one["kind"] == "PersistentVolumeClaim"]
    volumes = [_volume(claim, by_kind) for claim in claims if _can_be_served(claim, by_kind)]
    limits = {name: dict(_limits(one)) for name, one in by_kind.get("CSINode", {}).items()}
    return Storage({volume.name: volume for volume in volumes}, limits)


def _can_be_served(claim: Mapping[str, Any], by_kind: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> bool:
    """Whether a pod with this claim can start (S-100). A claim without a status gets the default StorageClass."""
    metadata, spec = claim["metadata"], claim["spec"]
    phase = (claim.get("status") or {}).get("phase")
    if metadata.get("deletionTimestamp") or phase == "Lost":
        return False
    if spec.get("volumeName"):
        bound = by_kind.get("PersistentVolume", {}).get(spec["volumeName"])
        complete = not phase or _BIND_COMPLETED in (metadata.get("annotations") or {})
        return complete and bound is not None and not bound["metadata"].get("deletionTimestamp")
    storage = _class_of(claim, by_kind)
    return (
        storage is not None
        and storage.get("provisioner") != "kubernetes.io/no-provisioner"
        and storage.get("volumeBindingMode") != "Immediate"
    )


def _class_of(
    claim: Mapping[str, Any], by_kind: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> Mapping[str, Any] | None:
    """The StorageClass that the claim names; without a name, the default one."""
    classes, name = by_kind.get("StorageClass", {}), claim["spec"].get("storageClassName")
    if name is None and not (claim.get("status") or {}).get("phase"):
        name = min((k for k, v in classes.items() if _is_default(v)), default=None)
    return classes.get(name or "")


def _is_default(storage: Mapping[str, Any]) -> bool:
    annotations = storage["metadata"].get("annotations") or {}
    return bool(annotations.get("storageclass.kubernetes.io/is-default-class") == "true")


def _volume(claim: Mapping[str, Any], by_kind: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Volume:
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
    bound = by_kind.get("PersistentVolume", {}).get(spec.get("volumeName", ""))
    if bound is not None:
        return Volume(name, bound["spec"].get("csi", {}).get("driver", ""), _bound_terms(bound["spec"]))
    storage = _class_of(claim, by_kind) or {}
    return Volume(name, storage.get("provisioner", ""), _class_terms(storage))


def _bound_terms(spec: Mapping[str, Any]) -> tuple[Term, ...]:
    required = (spec.get("nodeAffinity") or {}).get("required") or {}
    terms = required.get("nodeSelectorTerms") or ()
    return tuple(labels.expressions(term.get("matchExpressions")) for term in terms)


def _class_terms(storage: Mapping[str, Any]) -> tuple[Term, ...]:
    found = storage.get("allowedTopologies") or ()
    return tuple(
        labels.expressions({**one, "operator": "In"} for one in term.get("matchLabelExpressions") or ())
        for term in found
    )


def _limits(node: Mapping[str, Any]) -> Iterable[tuple[str, int | None]]:
    for driver in node["spec"].get("drivers") or ():
        yield driver["name"], (driver.get("allocatable") or {}).get("count")
