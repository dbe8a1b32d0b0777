"""Walks through the schemas of the CRDs: every node and rule of them, and the values a node has in an object.

A node is named as `spec.requirements[].key`; `{}` stands for the values of a map.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from holdfast.api import crds, validation

Schema = dict[str, Any]
ValuePath = tuple[str | int, ...]


@dataclass(frozen=True)
class Named:
    """A rule with its kind and path."""

    kind: str
    path: str
    message: str
    rule: str

    @property
    def compares(self) -> bool:
        return "oldSelf" in self.rule


@cache
def of(kind: str) -> Schema:
    for crd in crds.all_crds():
        if crd["spec"]["names"]["kind"] == kind:
            root: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return root
    raise KeyError(kind)


def kinds() -> list[str]:
    """Each kind once: the schema of EC2NodeClass is the same in both groups."""
    return list(dict.fromkeys(crd["spec"]["names"]["kind"] for crd in crds.all_crds()))


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node of a schema with its name, the root first."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def node(kind: str, path: str) -> Schema:
    return dict(nodes(of(kind)))[path]


def rules() -> list[Named]:
    """Every CEL rule of every CRD."""
    return [
        Named(kind, path, rule["message"], rule["rule"])
        for kind in kinds()
        for path, schema in nodes(of(kind))
        for rule in schema.get("x-kubernetes-validations", ())
    ]


def defaulted(obj: dict[str, Any]) -> dict[str, Any]:
    filled = validation.with_defaults(obj, of(obj["kind"]))
    assert isinstance(filled, dict)
    return filled


def values(value: Any, path: str) -> dict[ValuePath, Any]:
    """The values that a node of the schema has in an object, each with its path."""
    found: dict[ValuePath, Any] = {(): value}
    for step in path.replace("[]", ".[]").replace("{}", ".{}").split("."):
        found = {
            (*value_path, key): child
            for value_path, parent in found.items()
            for key, child in _children(parent, step)
        }
    return found


def _children(parent: Any, step: str) -> Iterator[tuple[str | int, Any]]:
    if step == "[]" and isinstance(parent, list):
        yield from enumerate(parent)
    elif step == "{}" and isinstance(parent, dict):
        yield from parent.items()
    elif isinstance(parent, dict) and step in parent:
        yield step, parent[step]
