"""CustomResourceDefinitions: validates them when written, and serves them at once.

Called by `registry` before and after a CRD is written. There is no controller: the same write accepts the names and
sets Established.
"""

from collections.abc import Iterator
from typing import Any, Final

from holdfast.sim.api.schema import resources as table
from holdfast.sim.api.schema.custom import CustomKind
from holdfast.sim.api.schema.resources import Resources
from holdfast.sim.api.schema.status import Cause
from holdfast.sim.api.storage.deletion import CLEANUP

Json = dict[str, Any]

_SCOPES: Final = ("Cluster", "Namespaced")


def causes(definition: Json) -> Iterator[Cause]:
    """The problems of a CRD, except missing fields."""
    spec = definition["spec"]
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if definition["metadata"].get("name") != wanted:
        yield Cause(
            "FieldValueInvalid",
            "metadata.name",
            f'"{definition["metadata"].get("name", "")[:100]}": must be spec.names.plural+"."+spec.group',
        )
    if spec.get("scope") not in _SCOPES:
        yield Cause(
            "FieldValueNotSupported",
            "spec.scope",
            f'"{spec.get("scope")}": supported values: "Cluster", "Namespaced"',
        )
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield Cause(
            "FieldValueInvalid", "spec.versions", "must have exactly one version marked as storage version"
        )
        return
    for n, version in enumerate(versions):
        missing = list(_missing(version, f"spec.versions[{n}]"))
        yield from missing
        if missing:
            continue
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            yield Cause(
                "FieldValueRequired", f"spec.versions[{n}].schema.openAPIV3Schema", "schemas are required"
            )
        elif schema.get("type") != "object":
            at = f"spec.versions[{n}].schema.openAPIV3Schema.type"
            yield Cause("FieldValueInvalid", at, f'"{schema.get("type", "")}": must be object at the root')
        else:
            yield from _of_schema(definition, version, n)


def _missing(version: Json, at: str) -> Iterator[Cause]:
    """Missing fields without which a version cannot be served."""
    columns, selected = version.get("additionalPrinterColumns") or (), version.get("selectableFields") or ()
    scale = (version.get("subresources") or {}).get("scale")
    parts: list[tuple[str, Json, tuple[str, ...]]] = [
        ("", version, ("name",)),
        *(
            (f".additionalPrinterColumns[{i}]", c, ("name", "type", "jsonPath"))
            for i, c in enumerate(columns)
        ),
        *((f".selectableFields[{i}]", field, ("jsonPath",)) for i, field in enumerate(selected)),
    ]
    if scale is not None:
        parts.append((".subresources.scale", scale, ("specReplicasPath", "statusReplicasPath")))
    for field_path, part, fields in parts:
        yield from (
            Cause("FieldValueRequired", f"{at}{field_path}.{field}")
            for field in fields
            if not part.get(field)
        )


def _of_schema(definition: Json, version: Json, n: int) -> Iterator[Cause]:
    at = f"spec.versions[{n}].schema.openAPIV3Schema"
    odd = list(_non_schemas(version["schema"]["openAPIV3Schema"], at))
    if odd:
        yield from (Cause("FieldValueInvalid", field_path, "must be an object") for field_path in odd)
        return
    for path, why in CustomKind(definition, version).compile():
        yield Cause("FieldValueInvalid", f"spec.versions[{n}].{path}", why)


def _non_schemas(schema: Any, at: str) -> Iterator[str]:
    """The paths of values that are not schemas."""
    if not isinstance(schema, dict):
        yield at
        return
    properties = schema.get("properties")
    for name, child in (properties or {}).items() if isinstance(properties, dict | None) else ():
        yield from _non_schemas(child, f"{at}.properties[{name}]")
    if "items" in schema:
        yield from _non_schemas(schema["items"], f"{at}.items")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _non_schemas(schema["additionalProperties"], f"{at}.additionalProperties")


def complete(definition: Json, now: str) -> None:
    """Sets the finalizer and the status of a CRD before it is stored."""
    metadata, spec = definition["metadata"], definition["spec"]
    if not metadata.get("deletionTimestamp"):
        finalizers = metadata.get("finalizers") or []
        metadata["finalizers"] = finalizers if CLEANUP in finalizers else [*finalizers, CLEANUP]
    status = definition["status"] = dict(definition.get("status") or {})
    status["acceptedNames"] = dict(spec["names"])
    storage = next(version["name"] for version in spec["versions"] if version.get("storage"))
    stored = status.get("storedVersions") or []
    status["storedVersions"] = stored if storage in stored else [*stored, storage]
    if not status.get("conditions"):
        status["conditions"] = [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
            _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
        ]


def serve(definition: Json, resources: Resources) -> None:
    """Serves the resources of a stored CRD."""
    served = [version for version in definition["spec"]["versions"] if version.get("served")]
    kinds = [CustomKind(definition, version) for version in served]
    resources.define(definition["metadata"]["name"], [table.of_custom(kind) for kind in kinds])


def _condition(type_: str, reason: str, message: str, now: str) -> Json:
    return {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
