"""Reads whose failure is a value, for `holdfast doctor`: one failed read must not stop the others."""

from collections.abc import Awaitable
from typing import TypeVar

from holdfast import errors
from holdfast.model.check_results import Read

T = TypeVar("T")


async def value_or_error(reading: Awaitable[T]) -> Read[T]:
    """The value of a read, or its error."""
    try:
        return await reading
    except errors.HoldfastError as error:
        return error
