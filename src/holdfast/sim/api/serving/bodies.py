"""Decodes request bodies: JSON, YAML and protobuf.

Unknown fields are dropped, and reported as `fieldValidation` requires.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from holdfast.api import documents
from holdfast.sim.api.schema import kubernetes, reading, shapes, status
from holdfast.sim.api.schema.resources import Resource
from holdfast.sim.api.schema.shapes import Shape
from holdfast.sim.api.schema.status import Refused, bad_request
from holdfast.sim.api.serving import protobuf
from holdfast.sim.api.serving.front import Request

Json = dict[str, Any]

MAX_BYTES: Final = 3 * 1024 * 1024

_JSON: Final = frozenset({"", "application/json"})
_YAML: Final = "application/yaml"
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_LEVELS: Final = ("", "Ignore", "Warn", "Strict")
_MAX_NAMED: Final = 32
_UNRECOGNIZED: Final = (
    "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: "
)


@dataclass(frozen=True, slots=True)
class Reader:
    """Decodes the body of one request, and collects its warnings."""

    request: Request
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.request.body) > MAX_BYTES:
            raise Refused("RequestEntityTooLarge", f"Request entity too large: limit is {MAX_BYTES}")
        if self.level not in _LEVELS:
            cause = status.Cause(
                "FieldValueNotSupported",
                "fieldValidation",
                f'"{self.level[:100]}": supported values: "", "Ignore", "Strict", "Warn"',
            )
            raise status.invalid("meta.k8s.io", "CreateOptions", "", [cause])

    @property
    def level(self) -> str:
        return self.request.query.get("fieldValidation", "")

    @property
    def media_type(self) -> str:
        return self.request.headers.get("content-type", "").partition(";")[0].strip().lower()

    def object(self, resource: Resource) -> Json:
        """The object in the body, without unknown fields; raises Refused."""
        return self.of_kind(self.plain(), (resource.group, resource.version, resource.kind), resource)

    def of_kind(self, value: Any, kind: tuple[str, str, str], resource: Resource | None = None) -> Json:
        """A decoded value as an object of that group, version and kind."""
        _check_kind(value, kind)
        shape = resource.shape if resource else shapes.named(kubernetes.schema_names()[kind])
        return self.checked(value, kind, shape, custom=bool(resource and resource.custom))

    def checked(self, value: Json, kind: tuple[str, str, str], shape: Shape, *, custom: bool) -> Json:
        """The value without unknown fields, which are reported as the request's fieldValidation requires."""
        _, version, name = kind
        about = f'{name} in version "{version}" cannot be handled as a {name}'
        try:
            return self.patched(value, kind, shape, custom=custom)
        except reading.WrongType as error:
            raise bad_request(f"{about}: {error}") from error

    def patched(
        self,
        value: Json,
        kind: tuple[str, str, str],
        shape: Shape,
        *,
        custom: bool,
        stored: Json | None = None,
    ) -> Json:
        """Like `checked`, but raises WrongType, which is reported differently for patches. Parts of the stored object
        are not checked again."""
        group, version, name = kind
        unknown: list[str] = []
        if custom:
            read = reading.custom(value, shape, unknown, stored)
        else:
            read = reading.built_in(value, shape, unknown, stored)
        self._warn_of_unknown(unknown)
        api_version = f"{group}/{version}" if group else version
        ordered: Json = {"apiVersion": api_version, "kind": name, **read}
        return ordered | {"apiVersion": api_version, "kind": name}

    def _warn_of_unknown(self, unknown: list[str]) -> None:
        named = [f'unknown field "{path[:200]}"' for path in unknown[:_MAX_NAMED]]
        if named and self.level == "Strict":
            raise reading.WrongType(f"strict decoding error: {', '.join(named)}")
        if self.level in ("", "Warn"):
            self.warnings.extend(named)

    def plain(self) -> Any:
        """The body as plain JSON values, in any of the formats."""
        body = self.request.body
        match self.media_type:
            case media if media in _JSON:
                self._check_twice(body)
                return json_value(body)
            case "application/yaml":
                return yaml_value(body)
            case "application/vnd.kubernetes.protobuf":
                return _protobuf_value(body)
        raise Refused(
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: application/json,"
            f" {_YAML}, {_PROTOBUF}",
        )

    def _check_twice(self, body: bytes) -> None:
        """With strict validation, rejects duplicate fields."""
        if self.level != "Strict":
            return
        twice: list[str] = []

        def pairs(items: list[tuple[str, Any]]) -> Json:
            names = [name for name, _ in items]
            twice.extend(name for n, name in enumerate(names) if name in names[:n])
            return dict(items)

        try:
            json.loads(body, object_pairs_hook=pairs)
        except (ValueError, RecursionError):
            return  # the decoder reports a better error
        if twice:
            raise bad_request(f'strict decoding error: duplicate field "{twice[0][:200]}"')


def json_value(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {str(error)[:200]}") from error


def yaml_value(body: bytes) -> Any:
    """One document of YAML or JSON."""
    found = list(documents.read(body))
    if len(found) != 1 or isinstance(found[0], documents.Broken):
        why = found[0].message if found and isinstance(found[0], documents.Broken) else "not one document"
        raise bad_request(f"error decoding YAML: {why}")
    return found[0].value


def _protobuf_value(body: bytes) -> Json:
    try:
        return protobuf.decode(body)
    except protobuf.Malformed as error:
        raise bad_request(str(error)) from error
    except protobuf.UnknownKind as error:
        raise bad_request(str(error)[:300]) from error


def _check_kind(value: Any, kind: tuple[str, str, str]) -> None:
    group, version, name = kind
    api_version = f"{group}/{version}" if group else version
    if not isinstance(value, dict):
        raise bad_request(f"{_UNRECOGNIZED.format(name)}json: cannot unmarshal it into an object")
    given_version, given = value.get("apiVersion"), value.get("kind")
    if given not in (None, "", name):
        raise bad_request(
            f'{str(given)[:100]} in version "{str(given_version)[:100]}" cannot be handled as a {name}: '
            f"converting ({version}.{str(given)[:100]}) to (core.{name}): unknown conversion"
        )
    if given_version not in (None, "", api_version):
        raise bad_request(
            f'{name} in version "{str(given_version)[:100]}" cannot be handled as a {name}: no kind "{name}" is'
            f' registered for version "{str(given_version)[:100]}"'
        )
