"""Caches the results of a request while further pages may be read from them.

`service` passes one `Listings` to every request; `pages` reads and fills it. A list is of one state of the region.
After any change it is discarded, and the next page is read from a new one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Key = Callable[[dict[str, Any]], str]
Shape = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]

_PAGES_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Sizes:
    least: int = 5
    most: int = 1000
    usual: int | None = None  # without MaxResults; None: everything


@dataclass(frozen=True, slots=True)
class Listing:
    """All results of a request, sorted."""

    answers: list[dict[str, Any]]
    member: str
    key: Key
    sizes: Sizes
    shape: Shape  # converts the items of a page to the value of `member`


class Listings:
    def __init__(self, page_size: int = 0) -> None:
        self.page_size = page_size  # the maximum of any page; 0: none
        self._moment: object = None
        self._pages: dict[tuple[str, int], tuple[Listing, int]] = {}

    def at(self, moment: object) -> "Listings":
        """Discards lists of other states."""
        if moment != self._moment:
            self._moment = moment
            self._pages.clear()
        return self

    def get(self, key: tuple[str, int]) -> tuple[Listing, int] | None:
        """The list of a token and a staleness, and the start of its page."""
        return self._pages.get(key)

    def keep(self, key: tuple[str, int], listing: Listing, begin: int) -> None:
        self._pages[key] = (listing, begin)
        if len(self._pages) > _PAGES_MAX:
            del self._pages[next(iter(self._pages))]
