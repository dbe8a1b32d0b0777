"""Lists in pages.

A token continues after the last returned key, so items that are added or removed meanwhile neither repeat nor hide
others.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from typing import TypeVar

from holdfast.sim.aws.errors import ApiError

T = TypeVar("T")


def page(
    items: Iterable[T], key: Callable[[T], str], size: int, token: str | None, invalid: ApiError
) -> tuple[list[T], str | None]:
    """One page of the items sorted by key, and the token of the next page; `invalid` is raised for an unknown token."""
    after = _read(token, invalid) if token else ""
    rest = sorted((item for item in items if key(item) > after), key=key)
    if len(rest) <= size:
        return rest, None
    return rest[:size], base64.urlsafe_b64encode(key(rest[size - 1]).encode()).decode()


def _read(token: str, invalid: ApiError) -> str:
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise invalid from None
