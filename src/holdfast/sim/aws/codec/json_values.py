"""Values of the JSON protocols (SSM, SQS, Pricing, EKS): converts JSON to parameters and results to JSON, by shape.

As in `query`, a request with a member that the model does not have is rejected with its name. `shapes` has checked
results before; here only names, times and blobs are converted.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from botocore.model import Shape

from holdfast.sim.aws.codec import shapes
from holdfast.sim.aws.errors import ApiError

Decode = Callable[[Any, str], Any]  # the value, and its path


def decoder(shape: Shape) -> Decode:
    match shape.type_name:
        case "structure":
            return _read_structure(shape)
        case "list":
            return _read_list(decoder(shape.member))
        case "map":
            return _read_map(decoder(shape.value))
        case kind:
            return _read_scalar(kind, *_READ[kind])


def encoder(shape: Shape) -> shapes.Convert:
    """Converts a result to JSON values."""
    match shape.type_name:
        case "structure":
            return _write_structure(shape)
        case "list":
            item = encoder(shape.member)
            return lambda value: [item(one) for one in value]
        case "map":
            inner = encoder(shape.value)
            return lambda value: {key: inner(one) for key, one in value.items()}
        case kind:
            return _WRITTEN.get(kind, _as_it_is)


def _read_structure(shape: Shape) -> Decode:
    compiled: dict[str, tuple[str, Decode]] = {}

    def decode(value: Any, path: str) -> dict[str, Any]:
        if not compiled:  # compiled at the first use, because shapes can be recursive
            compiled.update(
                (member.serialization.get("name", name), (name, decoder(member)))
                for name, member in shape.members.items()
            )
        _expect(value, dict, path)
        found = {}
        for key, item in value.items():
            full = f"{path}.{key}" if path else key
            if key not in compiled:
                raise ApiError("ValidationException", f"The parameter {full} is not recognized")
            name, decode_member = compiled[key]
            if item is not None:
                found[name] = decode_member(item, full)
        return found

    return decode


def _read_list(decode_item: Decode) -> Decode:
    def decode(value: Any, path: str) -> list[Any]:
        _expect(value, list, path)
        return [decode_item(item, f"{path}[{index}]") for index, item in enumerate(value)]

    return decode


def _read_map(decode_value: Decode) -> Decode:
    def decode(value: Any, path: str) -> dict[str, Any]:
        _expect(value, dict, path)
        return {key: decode_value(item, f"{path}.{key}") for key, item in value.items()}

    return decode


def _read_scalar(kind: str, types: tuple[type, ...], convert: Callable[[Any], Any]) -> Decode:
    def decode(value: Any, path: str) -> Any:
        try:
            if isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool)):
                return convert(value)
        except (ValueError, binascii.Error):
            pass  # the same error as for a wrong type
        raise ApiError("SerializationException", f"{path} is not a {kind}")

    return decode


def _expect(value: Any, kind: type, path: str) -> None:
    if not isinstance(value, kind):
        raise ApiError("SerializationException", f"{path or 'the body'} is not a {kind.__name__}")


def _write_structure(shape: Shape) -> shapes.Convert:
    members = shapes.Members(
        shape, lambda name, member: (member.serialization.get("name", name), encoder(member))
    )

    def write(value: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, item in value.items():
            wire_name, encode = members[name]
            found[wire_name] = encode(item)
        return found

    return write


def _as_it_is(value: Any) -> Any:
    return value


def _time(value: float | str) -> dt.datetime:
    if isinstance(value, str):
        return shapes.utc_millis(dt.datetime.fromisoformat(value))
    return shapes.utc_millis(dt.datetime.fromtimestamp(value, dt.UTC))


_READ: Final[Mapping[str, tuple[tuple[type, ...], Callable[[Any], Any]]]] = {
    "string": ((str,), _as_it_is),
    "character": ((str,), _as_it_is),
    "integer": ((int,), _as_it_is),
    "long": ((int,), _as_it_is),
    "float": ((int, float), float),
    "double": ((int, float), float),
    "boolean": ((bool,), _as_it_is),
    "timestamp": ((int, float, str), _time),
    "blob": ((str,), lambda value: base64.b64decode(value, validate=True)),
}
_WRITTEN: Final[Mapping[str, shapes.Convert]] = {
    "timestamp": lambda value: value.timestamp(),
    "blob": lambda value: base64.b64encode(value).decode(),
}
