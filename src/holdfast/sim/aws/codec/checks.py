"""Checks parameters against the model before a service gets them: required members are present, and enum values are
valid.

botocore does not check enums, and it checks no requests of other SDKs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.model import Shape

from holdfast.sim.aws.codec import shapes
from holdfast.sim.aws.errors import ApiError

Check = Callable[[Any, str], None]  # the value, and its path


@dataclass(frozen=True, slots=True)
class Codes:
    """The error codes of a service for invalid parameters."""

    missing: str
    bad_value: str | None = None  # None: the service accepts values that its model does not list


def checker(shape: Shape, codes: Codes) -> Check:
    match shape.type_name:
        case "structure":
            return _structure(shape, codes)
        case "list":
            return _list(checker(shape.member, codes))
        case "string" if codes.bad_value and shape.enum and shape.name not in shapes.GROWING_ENUMS:
            return _enum(frozenset(shape.enum), codes.bad_value)
        case _:
            return _nothing


def _structure(shape: Shape, codes: Codes) -> Check:
    members = shapes.Members(shape, lambda _, member: checker(member, codes))
    required = tuple(shape.required_members)

    def check(value: Mapping[str, Any], path: str) -> None:
        for name in required:
            if name not in value:
                raise ApiError(codes.missing, f"The request must contain the parameter {_in(path, name)}")
        for name, item in value.items():
            check_member = members[name]
            if check_member is not _nothing:
                check_member(item, _in(path, name))

    return check


def _list(check_item: Check) -> Check:
    if check_item is _nothing:
        return _nothing

    def check(value: list[Any], path: str) -> None:
        for number, item in enumerate(value, start=1):
            check_item(item, f"{path}.{number}")

    return check


def _enum(allowed: frozenset[str], bad_value: str) -> Check:
    def check(value: str, path: str) -> None:
        if value not in allowed:
            raise ApiError(bad_value, f"Value ({value}) for parameter {path} is invalid.")

    return check


def _nothing(_: Any, __: str) -> None:
    """Checks nothing."""


def _in(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
