"""Lists that are answered in pages.

The rule: a token continues after the last key that was given, so what is added or goes meanwhile neither repeats nor
hides the rest.
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
    """Some of the items in the order of their keys, and what to ask for the next ones with; `invalid` is raised for
    a token of no page."""
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
