"""Converts wire types to the structural schemas of their CRDs.

`about(...)` annotates a field for the CRD; `structural(...)` converts types and annotations to OpenAPI v3 for
Kubernetes. Bounds and rules are only in the schema: the API server validated the objects that we decode, and a wire
type that validates again could reject an existing object.

Conventions: a field without a default is required; a string, number or boolean default is the CRD's default too;
`X | None` is an optional X.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import inspect

_KEYWORDS: Final = {
    "default": "default",
    "enum": "enum",
    "format": "format",
    "list_map_keys": "x-kubernetes-list-map-keys",
    "list_type": "x-kubernetes-list-type",
    "map_type": "x-kubernetes-map-type",
    "max_items": "maxItems",
    "max_length": "maxLength",
    "max_properties": "maxProperties",
    "maximum": "maximum",
    "min_items": "minItems",
    "min_length": "minLength",
    "minimum": "minimum",
    "pattern": "pattern",
    "preserve_unknown": "x-kubernetes-preserve-unknown-fields",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL rule. A rule with `oldSelf` is evaluated on updates only."""

    rule: str
    message: str


def about(description: str, *, rules: Sequence[Rule] = (), **keywords: Any) -> msgspec.Meta:
    """The description of a field for `kubectl explain`, its bounds, and CEL rules."""
    fragment: dict[str, Any] = {"description": description} if description else {}
    fragment |= {_KEYWORDS[name]: _plain(value) for name, value in keywords.items()}
    if rules:
        fragment["x-kubernetes-validations"] = [{"rule": r.rule, "message": r.message} for r in rules]
    return msgspec.Meta(extra_json_schema=fragment)


def structural(wire_type: Any) -> dict[str, Any]:
    """The structural schema of a wire type."""
    return _schema(inspect.type_info(wire_type))


def _schema(node: inspect.Type) -> dict[str, Any]:
    match node:
        case inspect.Metadata(type=inner, extra_json_schema=fragment):
            return {**_schema(inner), **(fragment or {})}
        case inspect.StructType(fields=fields):
            return _object(fields)
        case inspect.VarTupleType(item_type=item):
            return {"type": "array", "items": _schema(item)}
        case inspect.DictType(value_type=inspect.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case inspect.DictType(value_type=value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case inspect.UnionType(types=types):
            return _union(types)
        case inspect.StrType():
            return {"type": "string"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return {"type": "integer"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
    raise TypeError(f"no structural schema for {node}")


def _object(fields: tuple[inspect.Field, ...]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    if fields:
        schema["properties"] = {field.encode_name: _property(field) for field in fields}
    required = sorted(field.encode_name for field in fields if field.required)
    if required:
        schema["required"] = required
    return schema


def _property(field: inspect.Field) -> dict[str, Any]:
    schema = _schema(field.type)
    if isinstance(field.default, str | int):
        schema.setdefault("default", field.default)
    return schema


def _union(types: tuple[inspect.Type, ...]) -> dict[str, Any]:
    members = [t for t in types if not isinstance(t, inspect.NoneType)]
    if len(members) == 1:
        return _schema(members[0])
    if {type(t) for t in members} == {inspect.StrType, inspect.IntType}:
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    raise TypeError(f"no structural schema for a union of {members}")


def _plain(value: Any) -> Any:
    """Converts tuples to lists, for YAML and JSON."""
    return list(value) if isinstance(value, tuple) else value
