"""Validates objects of our kinds like the API server: the CRD's schema, then its CEL rules.

Everything comes from the CRDs; no field is named here.
"""

import copy
import difflib
import operator
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

import jsonschema_rs
import msgspec

from holdfast.api import cel, crds, metadata, patterns, structure
from holdfast.api.findings import Finding, Path, shown, text_of

Schema = dict[str, Any]

_THIS: Final = "\N{BALLOT BOX}"  # a placeholder for the value in messages of the schema library
_WHY_CHARACTERS: Final = 200
_TYPES: Final = {
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}


class Validator:
    """Validates objects of one CRD."""

    def __init__(self, crd: dict[str, Any]) -> None:
        self._root: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        self._namespaced = crd["spec"]["scope"] == "Namespaced"
        self._schema = jsonschema_rs.Draft4Validator(
            json_schema(self._root), validate_formats=True, formats={"date-time": is_time}, mask=_THIS
        )
        self._field_paths = tuple(_field_paths(self._root))

    def findings(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[Finding]:
        """Mistakes in an object, or in the change from an older version. Defaults are applied first."""
        unknown = list(self._unknown(obj, self._root, ()))
        value = with_defaults(obj, self._root)
        schema = [_schema_finding(error) for error in self._schema.iter_errors(value)]
        schema += structure.findings(value, self._root)
        refused = {f.path[:n] for f in schema for n in range(len(f.path) + 1)}
        rules = _rule_findings(value, old and with_defaults(old, self._root), self._root, (), refused)
        meta = metadata.findings(obj, namespaced=self._namespaced)
        schema = [f for f in schema if f.path != ("metadata",)]  # the findings of `metadata` are clearer
        return sorted({*unknown, *meta, *schema, *rules}, key=lambda f: (text_of(f.path), f.message))

    def _unknown(self, value: Any, schema: Schema, path: Path) -> Iterator[Finding]:
        """Fields that the CRD does not have: the API server drops them, kubectl rejects them."""
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._unknown(item, schema.get("items", {}), (*path, index))
        properties = schema.get("properties")
        if not isinstance(value, dict) or properties is None:  # a map, metadata, or open by declaration
            return
        for name, child in value.items():
            if name in properties:
                yield from self._unknown(child, properties[name], (*path, name))
            else:
                yield Finding((*path, name), f"unknown field{self._where_it_belongs(name, path, properties)}")

    def _where_it_belongs(self, name: str, path: Path, properties: Schema) -> str:
        paths = [
            field_path
            for field_path in self._field_paths
            if field_path[-1] == name and field_path[:1] == path[:1]
        ]
        if paths:
            return f"; it belongs at {text_of(min(paths, key=len))}"
        close = difflib.get_close_matches(name, properties, n=1)
        if close:
            return f"; did you mean {close[0]}?"
        return f"; known here: {', '.join(sorted(properties))}"


@cache
def validators() -> dict[tuple[str, str], Validator]:
    """The validator of each of our kinds, by apiVersion and kind."""
    return {
        (f"{spec['group']}/{spec['versions'][0]['name']}", spec["names"]["kind"]): Validator(crd)
        for crd in crds.all_crds()
        for spec in (crd["spec"],)
    }


def with_defaults(value: Any, schema: Schema) -> Any:
    """The value with the API server's defaults: nulls of known fields are dropped first. A part that has them already
    is the same object."""
    if isinstance(value, list) and "items" in schema:
        items = [with_defaults(item, schema["items"]) for item in value]
        return value if all(map(operator.is_, items, value)) else items
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties", {})
    fallback = schema.get("additionalProperties")
    filled = {
        name: with_defaults(child, properties.get(name, fallback or {}))
        for name, child in value.items()
        if child is not None or (name not in properties and fallback is None)
    }
    for name, child_schema in properties.items():
        if name not in filled and "default" in child_schema:
            filled[name] = with_defaults(copy.deepcopy(child_schema["default"]), child_schema)
    if filled.keys() == value.keys() and all(filled[name] is child for name, child in value.items()):
        return value
    return filled


def _rule_findings(value: Any, old: Any, schema: Schema, path: Path, refused: set[Path]) -> Iterator[Finding]:
    """Findings of every CEL rule at and below this value, for values that match the schema."""
    if path not in refused:
        for rule in schema.get("x-kubernetes-validations", ()):
            yield from _evaluate(rule, value, old, path)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        fallback = schema.get("additionalProperties", {})
        for name, child in value.items():
            old_child = old.get(name) if isinstance(old, dict) else None
            yield from _rule_findings(
                child, old_child, properties.get(name, fallback), (*path, name), refused
            )
    elif isinstance(value, list):
        # Items of atomic lists have no old value: they cannot be matched with items of the old list.
        for index, item in enumerate(value):
            yield from _rule_findings(item, None, schema.get("items", {}), (*path, index), refused)


def _evaluate(rule: dict[str, str], value: Any, old: Any, path: Path) -> Iterator[Finding]:
    if "oldSelf" in rule["rule"] and old is None:
        return
    match cel.program(rule["rule"]).evaluate(value, old):
        case True:
            return
        case False:
            yield Finding(path, rule["message"])
        case cel.Failed(why):
            yield Finding(
                path, f"{rule['message']} (the rule could not be evaluated: {why[:_WHY_CHARACTERS]})"
            )


def _schema_finding(error: jsonschema_rs.ValidationError) -> Finding:
    path: Path = tuple(error.instance_path)
    kind = jsonschema_rs.ValidationErrorKind
    match error.kind:
        case kind.Required(property=name):
            return Finding((*path, str(name)), "Required value")
        case kind.Type(types=types):
            wanted = _one_of([_TYPES[t] for t in types])
            quotes = "string" in types and not isinstance(error.instance, dict | list)
            hint = "; write it in quotes" if quotes else ""
            return Finding(path, f"must be {wanted}, not {shown(error.instance)}{hint}")
        case kind.AnyOf():
            return Finding(path, f"must be text or a whole number, not {shown(error.instance)}")
        case kind.Enum(options=options):
            return Finding(path, f"must be {_one_of([str(o) for o in options])}, not {shown(error.instance)}")
        case kind.Format():
            return Finding(path, f"{shown(error.instance)} is not a time such as 2026-03-01T08:00:00Z")
        case kind.Pattern(pattern=pattern):
            return Finding(path, f"{shown(error.instance)} is not {patterns.WORDS[pattern]}")
    return Finding(path, error.message.replace(_THIS, shown(error.instance)))


def is_time(text: str) -> bool:
    """Whether a text is an RFC 3339 time that the wire types can decode: no leap second, and not the year 0."""
    try:
        msgspec.convert(text, datetime)
    except msgspec.ValidationError:
        return False
    return "t" in text.lower()


def _one_of(options: Sequence[str]) -> str:
    return options[0] if len(options) == 1 else f"{', '.join(options[:-1])} or {options[-1]}"


def json_schema(schema: Schema) -> Schema:
    """The schema without extensions of Kubernetes."""
    plain: Schema = {}
    for key, value in schema.items():
        if key.startswith("x-kubernetes-") or key in ("description", "default", "nullable"):
            continue
        if key == "properties":
            plain[key] = {name: json_schema(child) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            plain[key] = json_schema(value)
        else:
            plain[key] = value
    if schema.get("nullable") and "type" in plain:
        plain["type"] = [plain["type"], "null"]
    return plain


def _field_paths(schema: Schema, path: Path = ()) -> Iterator[Path]:
    """The path of every field of the schema. A finding about a misplaced field names the right path."""
    for name, child in schema.get("properties", {}).items():
        yield (*path, name)
        yield from _field_paths(child, (*path, name))
    if "items" in schema:
        yield from _field_paths(schema["items"], (*path, 0))
