"""The shape of an object: its fields, their types, and how its lists are merged.

Built from the published schemas of built-in kinds and from the schemas of CRDs.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, Final

from holdfast.sim.api.schema import kubernetes

_BY_NAME: Final = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
}
_PLAIN: Final[dict[str, type]] = {"string": str, "boolean": bool}
_OF_THE_PLACE: Final = frozenset({"description", "default"})


class Shape:
    """The shape of one value. Shapes are created on demand, because schemas can be recursive."""

    def __init__(self, schema: Mapping[str, Any], name: str = "") -> None:
        self._schema = schema
        self.name = name  # of the published schema
        self.type: str = _BY_NAME.get(name) or _type(schema)
        # The type of values that need no check but that of their type.
        self.plain: type | None = _PLAIN.get(self.type)
        self.open = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or self._is_unconstrained()
        self.list_type: str = schema.get("x-kubernetes-list-type", "atomic")
        self.list_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys", ()))
        self.atomic_map: bool = schema.get("x-kubernetes-map-type") == "atomic"
        self.merge_key: str = schema.get("x-kubernetes-patch-merge-key", "")
        self.strategies: tuple[str, ...] = tuple(schema.get("x-kubernetes-patch-strategy", "").split(","))
        self.format: str = schema.get("format", "")
        # A Go struct that is always present, even empty; no manager owns its presence.
        self.always_there: bool = schema.get("default") == {}
        self.required: tuple[str, ...] = tuple(schema.get("required", ())) if name else ()

    @cached_property
    def properties(self) -> dict[str, "Shape"]:
        return {name: of_schema(child) for name, child in self._schema.get("properties", {}).items()}

    @cached_property
    def items(self) -> "Shape":
        return of_schema(self._schema.get("items") or {})

    @cached_property
    def values(self) -> "Shape | None":
        """The shape of a map's values; None for an object with named fields."""
        values = self._schema.get("additionalProperties")
        return of_schema(values) if isinstance(values, dict) else None

    @cached_property
    def key_defaults(self) -> dict[str, Any]:
        """Defaults of fields that can be keys of a list: a port without a protocol is TCP."""
        properties = self._schema.get("properties", {})
        return {name: child["default"] for name, child in properties.items() if child.get("default")}

    def child(self, name: str) -> "Shape":
        """The shape of a field, known or not."""
        return self.properties.get(name) or self.values or ANYTHING

    def _is_unconstrained(self) -> bool:
        known = self._schema.keys() & {"properties", "additionalProperties"}
        return self.type in ("any", "object") and not known


def of_schema(schema: Mapping[str, Any]) -> Shape:
    name = schema.get("ref", "")
    if not name:
        return Shape(schema)
    if schema.keys() - _OF_THE_PLACE == {"ref"} and schema.get("default") != {}:
        return named(name)
    return Shape({**kubernetes.published().schemas[name], **schema}, name)


@cache
def named(name: str) -> Shape:
    """The shape of a published schema."""
    return Shape(kubernetes.published().schemas[name], name)


def of_custom(schema: Mapping[str, Any]) -> Shape:
    """The shape of a custom resource: the schema of its CRD, and the metadata of every object."""
    every = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"ref": kubernetes.OBJECT_META, "default": {}},
    }
    return Shape({**schema, "properties": {**schema.get("properties", {}), **every}})


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    given = schema.get("type")
    if isinstance(given, str):
        return given
    return "object" if "properties" in schema or "additionalProperties" in schema else "any"


ANYTHING: Final = Shape({"x-kubernetes-preserve-unknown-fields": True})
NOTHING: Final = Shape({"properties": {}})
