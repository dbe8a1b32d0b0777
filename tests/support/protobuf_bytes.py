"""Protobuf bodies as Go programs send them to an API server, for tests: fields written by number."""

from typing import Final

MAGIC: Final = b"k8s\x00"


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: bytes | str | int) -> bytes:
    """One field: a number as a varint, a string or a message with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, bytes | str | int]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def envelope(api_version: str, kind: str, content: bytes) -> bytes:
    """The envelope in which client-go sends every object."""
    return MAGIC + message((1, message((1, api_version), (2, kind))), (2, content), (3, ""), (4, ""))


def meta(name: str, *more: tuple[int, bytes | str | int]) -> bytes:
    """ObjectMeta as client-go writes it: with every string, even empty ones, and an empty time."""
    return message((1, name), (2, ""), (3, ""), (4, ""), (5, ""), (6, ""), (7, 0), (8, b""), *more)
