"""Custom kinds: reads a CRD, and prunes, defaults and validates objects by its schema and CEL rules.

The validation of an update ignores problems that existed before and did not change.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import jsonschema_rs
import msgspec

from holdfast.api import cel, structure, validation
from holdfast.api.findings import Path
from holdfast.sim.api.schema import jsonpath, shapes
from holdfast.sim.api.schema.shapes import Shape
from holdfast.sim.api.schema.status import Cause

Json = dict[str, Any]

_MAX_CAUSES: Final = 100
_MAX_SHOWN: Final = 200
_MOST_REPLICAS: Final = 2**31 - 1
_NOTHING: Final = object()
# Problems of the schema after which the CEL rules are not evaluated.
_BLOCKING: Final = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_NOT_CHECKED: Final = Cause(
    "FieldValueInvalid",
    "<nil>",
    "null: some validation rules were not checked because the object was invalid; correct the existing errors to"
    " complete validation",
)


class CustomKind:
    """One served version of a CRD."""

    def __init__(self, crd: Json, version: Json) -> None:
        spec, names = crd["spec"], crd["spec"]["names"]
        self.name: str = crd["metadata"]["name"]
        self.group: str = spec["group"]
        self.version: str = version["name"]
        self.storage_version: str = next(v["name"] for v in spec["versions"] if v.get("storage"))
        self.kind: str = names["kind"]
        self.plural: str = names["plural"]
        self.singular: str = names.get("singular") or names["kind"].lower()
        self.list_kind: str = names.get("listKind") or f"{names['kind']}List"
        self.short_names: tuple[str, ...] = tuple(names.get("shortNames") or ())
        self.categories: tuple[str, ...] = tuple(names.get("categories") or ())
        self.namespaced: bool = spec["scope"] == "Namespaced"
        self.columns: list[Json] = version.get("additionalPrinterColumns") or []
        self.schema: Json = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self.shape: Shape = shapes.of_custom(self.schema)
        subresources = version.get("subresources") or {}
        self.has_status: bool = "status" in subresources
        self.scale: Json | None = subresources.get("scale")
        self.fields: tuple[str, ...] = tuple(
            field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()
        )

    @cached_property
    def _validator(self) -> jsonschema_rs.Draft4Validator:
        return jsonschema_rs.Draft4Validator(
            validation.json_schema({**self.schema, "properties": self._own_properties}),
            validate_formats=True,
            formats={"date-time": validation.is_time},
        )

    @property
    def _own_properties(self) -> Json:
        """Metadata, kind and apiVersion are validated as in every object."""
        every: Json = {"metadata": {}, "apiVersion": {}, "kind": {}}
        return {**self.schema.get("properties", {}), **every}

    def compile(self) -> Iterator[tuple[str, str]]:
        """The parts of the schema that cannot be compiled: path and reason."""
        try:
            _ = self._validator
        except (ValueError, jsonschema_rs.ValidationError) as error:
            yield "schema.openAPIV3Schema", str(error)[:_MAX_SHOWN]
        for path, rule in _rules(self.schema, "schema.openAPIV3Schema"):
            try:
                cel.program(rule.get("rule", ""))
            except ValueError as error:
                yield f"{path}.x-kubernetes-validations.rule", str(error)[:_MAX_SHOWN]

    def completed(self, value: Json, old: Json | None) -> Json:
        """The object with the CRD's defaults; parts that are the same objects as in the older one have them."""
        complete = _shared(value, old)
        others: Json = {**value, **{name: {} for name in complete}}
        filled: Json = validation.with_defaults(others, self.schema)
        return {**filled, **complete}

    def causes(self, value: Json, old: Json | None) -> list[Cause]:
        """The problems of an object, or of the change from an older one."""
        found = sorted(self._schema_causes(value, old), key=lambda cause: cause.field)[:_MAX_CAUSES]
        found += self._scale_causes(value)
        if any(cause.reason in _BLOCKING for cause in found):
            return [*found, _NOT_CHECKED]
        return [*found, *_rule_causes(value, old, self.schema, ())][:_MAX_CAUSES]

    def _schema_causes(self, value: Json, old: Json | None) -> Iterator[Cause]:
        for error in self._validator.iter_errors(value):
            path: Path = tuple(error.instance_path)
            if old is None or not _same(value, old, path):
                yield _schema_cause(error, path)
        unchanged = _shared(value, old)
        changed = {name: child for name, child in value.items() if name not in unchanged}
        for finding in structure.findings(changed, self.schema):
            if old is None or not _same(value, old, finding.path[:-1]):
                reason = "FieldValueDuplicate" if "twice" in finding.message else "FieldValueInvalid"
                yield Cause(reason, _dotted(finding.path), finding.message)

    def _scale_causes(self, value: Json) -> Iterator[Cause]:
        """The fields of the scale subresource must be counts, independent of the schema."""
        for name in ("specReplicasPath", "statusReplicasPath") if self.scale else ():
            path = (self.scale or {})[name]
            for count in jsonpath.find(path, value):
                if type(count) is not int:
                    yield Cause("FieldValueInvalid", path, f"{_shown(count)}: is not a count")
                elif not 0 <= count <= _MOST_REPLICAS:
                    yield Cause("FieldValueInvalid", path, f"{count}: should be from 0 to {_MOST_REPLICAS}")


def _rules(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Json]]:
    for rule in schema.get("x-kubernetes-validations") or ():
        yield path, rule
    for name, child in (schema.get("properties") or {}).items():
        yield from _rules(child, f"{path}.properties[{name}]")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _rules(schema[name], f"{path}.{name}")


def _rule_causes(value: Any, old: Any, schema: Json, path: Path) -> Iterator[Cause]:
    """The violated rules at and below a value, where something changed."""
    if old is not None and value == old:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        yield from _evaluate(rule, value, old, path)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        fallback = schema.get("additionalProperties")
        for name, child in value.items():
            below = properties.get(name, fallback if isinstance(fallback, dict) else {})
            before = old.get(name) if isinstance(old, dict) else None
            yield from _rule_causes(child, before, below, (*path, name))
    elif isinstance(value, list):
        items = schema.get("items") or {}
        for index, item in enumerate(value):
            before = _older_self(item, old, schema)
            yield from _rule_causes(item, before, items, (*path, index))


def _older_self(item: Any, old: Any, schema: Json) -> Any:
    """The item of the old list with the same keys; items of other lists than maps have none."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") != "map" or not keys or not isinstance(old, list):
        return None
    wanted = [item.get(key) for key in keys] if isinstance(item, dict) else None
    return next((o for o in old if isinstance(o, dict) and [o.get(key) for key in keys] == wanted), None)


def _evaluate(rule: Json, value: Any, old: Any, path: Path) -> Iterator[Cause]:
    if "oldSelf" in rule["rule"] and old is None:
        return
    verdict = cel.program(rule["rule"]).evaluate(value, old)
    if verdict is True:
        return
    message = rule.get("message") or f"failed rule: {rule['rule'].strip()}"
    if isinstance(verdict, cel.Failed):
        message = f"{message} (the rule could not be evaluated: {verdict.why[:_MAX_SHOWN]})"
    field = _dotted(path) + (rule.get("fieldPath") or "")
    yield Cause(rule.get("reason") or "FieldValueInvalid", field.lstrip(".") or "<nil>", message)


def _wanted_type(error: jsonschema_rs.ValidationError) -> str | None:
    """The type that the schema requires; None if the type is not the problem."""
    kind = jsonschema_rs.ValidationErrorKind
    match error.kind:
        case kind.Type(types=[wanted, *_]) | kind.Format(format=wanted):
            return str(wanted)
        case kind.AnyOf() if type(error.instance) not in (int, str):
            return "integer,string"
    return None


def _schema_cause(error: jsonschema_rs.ValidationError, path: Path) -> Cause:
    kind, at = jsonschema_rs.ValidationErrorKind, _dotted(path)
    value: Any = error.instance
    if (wanted := _wanted_type(error)) is not None:
        given = str(value)[:_MAX_SHOWN] if isinstance(error.kind, kind.Format) else _type_name(value)
        return Cause(
            "FieldValueTypeInvalid", at, f'"{given}": {at} in body must be of type {wanted}: "{given}"'
        )
    match error.kind:
        case kind.Required(property=name):
            return Cause("FieldValueRequired", _dotted((*path, str(name))))
        case kind.Enum(options=options):
            supported = ", ".join(f'"{option}"' for option in options)
            return Cause("FieldValueNotSupported", at, f"{_shown(value)}: supported values: {supported}")
        case kind.Pattern(pattern=pattern):
            return Cause("FieldValueInvalid", at, f"{_shown(value)}: {at} in body should match '{pattern}'")
        case kind.Maximum(limit=limit):
            return Cause(
                "FieldValueInvalid",
                at,
                f"{_shown(value)}: {at} in body should be less than or equal to {limit}",
            )
        case kind.Minimum(limit=limit):
            return Cause(
                "FieldValueInvalid",
                at,
                f"{_shown(value)}: {at} in body should be greater than or equal to {limit}",
            )
        case kind.MaxItems(limit=limit):
            return Cause("FieldValueTooMany", at, f"{len(value)}: must have at most {limit} items")
        case kind.MinItems(limit=limit):
            return Cause(
                "FieldValueInvalid", at, f"{len(value)}: {at} in body should have at least {limit} items"
            )
        case kind.MaxLength(limit=limit):
            return Cause("FieldValueTooLong", at, f"may not be more than {limit} bytes")
        case kind.MinLength(limit=limit):
            return Cause(
                "FieldValueInvalid",
                at,
                f"{_shown(value)}: {at} in body should be at least {limit} chars long",
            )
        case kind.MaxProperties(limit=limit):
            return Cause("FieldValueTooMany", at, f"{len(value)}: must have at most {limit} properties")
    return Cause("FieldValueInvalid", at, f"{_shown(value)}: {at} in body {error.message[:_MAX_SHOWN]}")


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def _shared(value: Json, old: Json | None) -> Json:
    """The metadata, and the fields that are the same objects as in the older object."""
    return {n: child for n, child in value.items() if n == "metadata" or (old and child is old.get(n))}


def _same(value: Any, old: Any, path: Path) -> bool:
    """Whether the value at a path did not change."""
    for step in path:
        value, old = _at(value, step), _at(old, step)
    return value is not _NOTHING and value == old


def _at(value: Any, step: str | int) -> Any:
    match value, step:
        case dict(), str():
            return value.get(step, _NOTHING)
        case list(), int() if step < len(value):
            return value[step]
    return _NOTHING


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _shown(value: Any) -> str:
    return msgspec.json.encode(value).decode()[:_MAX_SHOWN]
