"""A JSON object of a wire type in which every field has a value, so that tests can damage any field."""

from typing import Any

import msgspec
from msgspec import inspect

from holdfast.api.meta import Object

MOMENT = "2026-11-15T10:00:00Z"


def filled(kind: type[Object], name: str = "a") -> dict[str, Any]:
    fields = _value(inspect.type_info(kind))
    assert isinstance(fields, dict)
    fields["metadata"] |= {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
    if not kind.namespaced:
        del fields["metadata"]["namespace"]
    document = {"apiVersion": kind.api_version, "kind": kind.kind, **fields}
    msgspec.convert(document, kind)  # fails if the document does not match the wire type
    return document


def _value(info: inspect.Type) -> Any:
    match info:
        case inspect.Metadata(type=inner) | inspect.CustomType(cls=inner) if isinstance(inner, inspect.Type):
            return _value(inner)
        case inspect.StructType():
            return {field.encode_name: _value(field.type) for field in info.fields}
        case inspect.ListType() | inspect.VarTupleType():
            return [_value(info.item_type)]
        case inspect.DictType():
            return {"a": _value(info.value_type)}
        case inspect.UnionType():
            return _value(next(one for one in info.types if not isinstance(one, inspect.NoneType)))
        case inspect.DateTimeType():
            return MOMENT
    scalars = {inspect.StrType: "1", inspect.IntType: 1, inspect.FloatType: 1.5, inspect.BoolType: True}
    return scalars.get(type(info), {})
