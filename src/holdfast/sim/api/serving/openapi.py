"""OpenAPI v3: an index and a document per group version, enough for `kubectl apply`, `edit` and `explain`.

Called by `server`. A document has the schemas of the kinds, and the patch operation of each resource, by which kubectl
detects server-side field validation. There is no v2: clients do not request it if v3 exists.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, Final

from holdfast.sim.api.schema import kubernetes
from holdfast.sim.api.schema.resources import Resource, Resources
from holdfast.sim.api.schema.status import UnknownPathError
from holdfast.sim.api.serving import answers
from holdfast.sim.api.serving.front import Response
from holdfast.sim.api.storage.store import encode

Json = dict[str, Any]

_REF: Final = "#/components/schemas/"
_GVK: Final = "x-kubernetes-group-version-kind"
_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")
]


class Documents:
    """The OpenAPI documents, cached until a CRD changes."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._generation = resources.generation
        self._written: dict[str, bytes] = {}

    def answer(self, parts: list[str]) -> Response:
        """/openapi/v3 and the documents below it."""
        group_versions = {_group_version_path(resource) for resource in self._resources.all()}
        match parts:
            case ["openapi", "v3"]:
                links = {
                    group_version: _link(group_version, self._document(group_version))
                    for group_version in sorted(group_versions)
                }
                return answers.plain({"paths": links})
            case ["openapi", "v3", *rest] if "/".join(rest) in group_versions:
                return answers.raw(self._document("/".join(rest)))
        raise UnknownPathError

    def _document(self, group_version: str) -> bytes:
        if self._generation != self._resources.generation:
            self._written, self._generation = {}, self._resources.generation
        if group_version not in self._written:
            self._written[group_version] = _document(group_version, self._resources)
        return self._written[group_version]


def _link(group_version: str, body: bytes) -> Json:
    digest = hashlib.sha256(body).hexdigest().upper()
    return {"serverRelativeURL": f"/openapi/v3/{group_version}?hash={digest}"}


def _group_version_path(resource: Resource) -> str:
    return f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"


def _document(group_version: str, resources: Resources) -> bytes:
    served = [resource for resource in resources.all() if _group_version_path(resource) == group_version]
    schemas: dict[str, Json] = {}
    for resource in served:
        for name, schema in _schemas(resource):
            schemas.setdefault(name, schema)
    paths = {path: item for resource in served for path, item in _paths(group_version, resource)}
    return encode(
        {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": f"v{kubernetes.published().release}"},
            "paths": paths,
            "components": {"schemas": schemas},
        }
    )


def _paths(group_version: str, resource: Resource) -> Iterator[tuple[str, Json]]:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    base = f"/{group_version}/namespaces/{{namespace}}" if resource.namespaced else f"/{group_version}"
    if "patch" in resource.verbs:
        operation = {_GVK: kind, "x-kubernetes-action": "patch", "parameters": _PARAMETERS, "responses": {}}
        yield f"{base}/{resource.plural}/{{name}}", {"patch": operation}
    if "list" in resource.verbs:
        listing = {_GVK: kind, "x-kubernetes-action": "list", "responses": {}}
        yield f"{base}/{resource.plural}", {"get": listing}


def _schemas(resource: Resource) -> Iterator[tuple[str, Json]]:
    """The schema of a kind, and all schemas that it refers to."""
    if resource.custom is None:
        wanted = [resource.shape.name]
    else:
        name = ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])
        yield name, _custom_schema(resource)
        wanted = [kubernetes.OBJECT_META]
    published, seen = kubernetes.published().schemas, set()
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            found: list[str] = []
            yield name, _open(published[name], found)
            wanted += found


def _custom_schema(resource: Resource) -> Json:
    assert resource.custom is not None
    schema = resource.custom.schema
    properties = {
        **schema.get("properties", {}),
        "apiVersion": {"type": "string", "description": "The version of this representation of an object."},
        "kind": {"type": "string", "description": "The kind of the object."},
        "metadata": {
            "description": "Name, namespace, labels and what the server keeps of an object.",
            "allOf": [{"$ref": f"{_REF}{kubernetes.OBJECT_META}"}],
        },
    }
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {**schema, "properties": properties, _GVK: [kind]}


def _open(schema: Json, found: list[str]) -> Json:
    """A published schema as OpenAPI; referenced schemas are added to `found`."""
    opened = {key: value for key, value in schema.items() if key not in ("ref", "oneOf")}
    if "ref" in schema:
        found.append(schema["ref"])
        opened["allOf"] = [{"$ref": f"{_REF}{schema['ref']}"}]
    if "oneOf" in schema:
        opened["oneOf"] = [{"type": type_} for type_ in schema["oneOf"]]
    if "properties" in schema:
        opened["properties"] = {name: _open(child, found) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            opened[key] = _open(schema[key], found)
    return opened
