"""Where volumes are: claims, volumes, storage classes and the limits of nodes, read from their manifests."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checker import labels
from checker.labels import Term


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim that exists. A node will do when it satisfies any of the terms; no terms: any node will do."""

    name: str  # namespace/name of the claim
    driver: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Storage:
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # by node, then by driver


def read(documents: Iterable[Mapping[str, Any]]) -> Storage:
    listed = list(documents)
    by_kind: dict[str, dict[str, Mapping[str, Any]]] = {}
    for one in listed:
        by_kind.setdefault(one["kind"], {})[one["metadata"]["name"]] = one
    claims = [one for one in listed if one["kind"] == "PersistentVolumeClaim"]
    volumes = [_volume(claim, by_kind) for claim in claims]
    limits = {name: dict(_limits(one)) for name, one in by_kind.get("CSINode", {}).items()}
    return Storage({volume.name: volume for volume in volumes}, limits)


def _volume(claim: Mapping[str, Any], by_kind: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> Volume:
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"{metadata.get('namespace', 'default')}/{metadata['name']}"
    bound = by_kind.get("PersistentVolume", {}).get(spec.get("volumeName", ""))
    if bound is not None:
        return Volume(name, bound["spec"].get("csi", {}).get("driver", ""), _bound_terms(bound["spec"]))
    storage = by_kind.get("StorageClass", {}).get(spec.get("storageClassName", ""), {})
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


def _limits(node: Mapping[str, Any]) -> Iterable[tuple[str, int]]:
    for driver in node["spec"].get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None:
            yield driver["name"], count
