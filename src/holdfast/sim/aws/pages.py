"""Lists that are answered in pages."""

from collections.abc import Sequence
from typing import TypeVar

from holdfast.sim.aws.errors import ApiError

T = TypeVar("T")


def page(
    items: Sequence[T], size: int, token: str | None, invalid: ApiError
) -> tuple[Sequence[T], str | None]:
    """Some of the items, and what to ask for the next ones with; `invalid` is raised for a token of no page."""
    if token is not None and not token.isdecimal():
        raise invalid
    start = int(token or 0)
    end = start + size
    return items[start:end], str(end) if end < len(items) else None
