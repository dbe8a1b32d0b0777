"""Requests of the query protocols (EC2, IAM, STS): converts form fields to parameters, by the input's shape.

A list is `Name.1`, `Name.2`, in IAM `Name.member.1`; the model has the spelling of each name. A field that the model
does not have is rejected with its full name, never ignored.
"""

import base64
import binascii
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl

from botocore.model import Shape

from holdfast.sim.aws.codec import shapes
from holdfast.sim.aws.errors import ApiError

Tree = dict[str, Any]  # of strings and trees
Decode = Callable[[Any, str], Any]  # the value, and its path

_FIELDS_MAX: Final = 20_000  # EC2 accepts 1,000 tags or overrides with a few fields each


class Dialect:
    """The differences between EC2 and other services of the query protocol."""

    unknown = "ValidationError"
    malformed = "ValidationError"

    def name(self, shape: Shape, member: str) -> str:
        if shape.type_name == "list" and shape.serialization.get("flattened"):
            return str(shape.member.serialization.get("name") or shape.serialization.get("name", member))
        return str(shape.serialization.get("name", member))

    def items(self, shape: Shape, tree: Tree) -> Tree:
        """The part of a list's subtree whose keys are 1, 2, 3."""
        if shape.serialization.get("flattened"):
            return tree
        return self.only(tree, str(shape.member.serialization.get("name", "member")))

    def only(self, tree: Any, name: str) -> Tree:
        if not isinstance(tree, dict) or set(tree) != {name} or not isinstance(tree[name], dict):
            raise ApiError(self.malformed, f"Expected a numbered list of {name}.")
        return dict(tree[name])


class Ec2Dialect(Dialect):
    """EC2 has its own capitalization, and lists without `member`."""

    unknown = "UnknownParameter"
    malformed = "InvalidParameterValue"

    def name(self, shape: Shape, member: str) -> str:
        name = str(shape.serialization.get("queryName") or shape.serialization.get("name", member))
        return name[0].upper() + name[1:]

    def items(self, shape: Shape, tree: Tree) -> Tree:  # noqa: ARG002 - all lists of EC2 are flat
        return tree


def fields(body: bytes) -> Tree:
    """The form as a tree: `A.1.B=x` is {"A": {"1": {"B": "x"}}}."""
    root: Tree = {}
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except ValueError as error:
        raise ApiError("MalformedQueryString", str(error)) from None
    for key, value in pairs:
        *parents, leaf = key.split(".")
        node = root
        for part in parents:
            node = node.setdefault(part, {})
            if not isinstance(node, dict):
                raise ApiError("MalformedQueryString", f"{key} has a value and parts")
        node[leaf] = value
    return root


def decoder(shape: Shape, dialect: Dialect) -> Decode:
    match shape.type_name:
        case "structure":
            return _structure(shape, dialect)
        case "list":
            return _list(shape, dialect)
        case "map":
            return _map(shape, dialect)
        case kind:
            return _scalar(_SCALARS[kind], kind, dialect)


def _structure(shape: Shape, dialect: Dialect) -> Decode:
    compiled: dict[str, tuple[str, Decode]] = {}

    def decode(tree: Any, path: str) -> dict[str, Any]:
        if not compiled:  # compiled at the first use, because shapes can be recursive
            compiled.update(
                (dialect.name(member, name), (name, decoder(member, dialect)))
                for name, member in shape.members.items()
            )
        if not isinstance(tree, dict):
            raise ApiError(dialect.malformed, f"Value ({tree}) for parameter {path} is not a structure")
        found = {}
        for key, value in tree.items():
            full = f"{path}.{key}" if path else key
            if key not in compiled:
                raise ApiError(dialect.unknown, f"The parameter {full} is not recognized")
            name, decode_member = compiled[key]
            found[name] = decode_member(value, full)
        return found

    return decode


def _list(shape: Shape, dialect: Dialect) -> Decode:
    decode_item = decoder(shape.member, dialect)

    def decode(tree: Any, path: str) -> list[Any]:
        if tree == "":  # an empty list
            return []
        if not isinstance(tree, dict):
            raise ApiError(dialect.malformed, f"Value ({tree}) for parameter {path} is not a list")
        items = dialect.items(shape, tree)
        return [decode_item(items[index], f"{path}.{index}") for index in _numbered(items, path, dialect)]

    return decode


def _map(shape: Shape, dialect: Dialect) -> Decode:
    key_name = str(shape.key.serialization.get("name", "key"))
    value_name = str(shape.value.serialization.get("name", "value"))
    decode_value = decoder(shape.value, dialect)

    def decode(tree: Any, path: str) -> dict[str, Any]:
        entries = tree if shape.serialization.get("flattened") else dialect.only(tree, "entry")
        found = {}
        for index in _numbered(entries, path, dialect):
            entry = entries[index]
            if not isinstance(entry, dict) or set(entry) != {key_name, value_name}:
                raise ApiError(dialect.malformed, f"{path}.{index} is not a {key_name} and a {value_name}")
            found[entry[key_name]] = decode_value(entry[value_name], f"{path}.{index}")
        return found

    return decode


def _numbered(tree: Any, path: str, dialect: Dialect) -> list[str]:
    if not isinstance(tree, dict) or not all(index.isdecimal() for index in tree):
        raise ApiError(dialect.malformed, f"The items of {path} are not numbered")
    return sorted(tree, key=int)


def _scalar(convert: Callable[[str], Any], kind: str, dialect: Dialect) -> Decode:
    def decode(text: Any, path: str) -> Any:
        try:
            return convert(text)
        except (AttributeError, KeyError, TypeError, ValueError, binascii.Error):
            raise ApiError(
                dialect.malformed, f"Value ({text}) for parameter {path} is invalid. It is not a {kind}."
            ) from None

    return decode


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _time(text: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    return shapes.utc_millis(value if value.tzinfo else value.replace(tzinfo=dt.UTC))


_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    "string": _text,
    "character": _text,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "timestamp": _time,
    "blob": lambda text: base64.b64decode(text, validate=True),
}
