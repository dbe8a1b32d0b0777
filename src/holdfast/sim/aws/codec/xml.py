"""Responses of the query protocols (EC2, IAM, STS): results as XML, by the output's shape."""

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from xml.sax.saxutils import escape

from botocore.model import Shape

from holdfast.sim.aws.codec import shapes

Write = Callable[[Any, list[str]], None]  # a value, and the parts of the document so far

_NOT_XML: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def writer(shape: Shape) -> Write:
    """Writes the content of an element of this shape."""
    match shape.type_name:
        case "structure":
            return _structure(shape)
        case "list":
            return _items(str(shape.member.serialization.get("name", "member")), shape.member)
        case "map":
            return _map(shape, "entry")
        case kind:
            text = _TEXTS.get(kind, str)
            return lambda value, out: out.append(text(value))


def _structure(shape: Shape) -> Write:
    members = shapes.Members(shape, _member)

    def write(value: Mapping[str, Any], out: list[str]) -> None:
        for name, item in value.items():
            members[name](item, out)

    return write


def _member(name: str, shape: Shape) -> Write:
    tag = str(shape.serialization.get("name", name))
    if shape.serialization.get("flattened") and shape.type_name == "list":
        return _items(str(shape.member.serialization.get("name", tag)), shape.member)
    if shape.serialization.get("flattened") and shape.type_name == "map":
        return _map(shape, tag)
    return _element(tag, writer(shape))


def _items(tag: str, shape: Shape) -> Write:
    write_item = _element(tag, writer(shape))

    def write(value: list[Any], out: list[str]) -> None:
        for item in value:
            write_item(item, out)

    return write


def _map(shape: Shape, tag: str) -> Write:
    write_key = _element(str(shape.key.serialization.get("name", "key")), writer(shape.key))
    write_value = _element(str(shape.value.serialization.get("name", "value")), writer(shape.value))

    def write(value: Mapping[str, Any], out: list[str]) -> None:
        for key, item in value.items():
            out.append(f"<{tag}>")
            write_key(key, out)
            write_value(item, out)
            out.append(f"</{tag}>")

    return write


def _element(tag: str, write_inside: Write) -> Write:
    opening, closing = f"<{tag}>", f"</{tag}>"

    def write(value: Any, out: list[str]) -> None:
        out.append(opening)
        write_inside(value, out)
        out.append(closing)

    return write


def text(value: str) -> str:
    """A string as XML; some characters cannot be in an XML document."""
    if _NOT_XML.search(value):
        raise shapes.WrongShape(f"{value!r} has a character that XML cannot hold")
    return escape(value)


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "string": text,
    "character": text,
    "boolean": lambda value: "true" if value else "false",
    "float": repr,
    "double": repr,
    "timestamp": lambda value: f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z",
    "blob": lambda value: base64.b64encode(value).decode(),
}
