"""What a request found, kept while pages are still to be cut from it.

`service` keeps one `Listings` and gives it to every request; `pages` reads and fills it. The rule: a list is of one
moment of the region. When anything has changed since, it is forgotten, and the next page is cut from a new one.
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
    usual: int | None = None  # where none is asked for: None is everything


@dataclass(frozen=True, slots=True)
class Listing:
    """Everything a request found, sorted."""

    answers: list[dict[str, Any]]
    member: str
    key: Key
    sizes: Sizes
    shape: Shape  # makes of a page's answers what stands under `member`


class Listings:
    def __init__(self, page_size: int = 0) -> None:
        self.page_size = page_size  # the most that any page has; 0: no such bound
        self._moment: object = None
        self._pages: dict[tuple[str, int], tuple[Listing, int]] = {}

    def at(self, moment: object) -> "Listings":
        """Forgets what was kept at another moment."""
        if moment != self._moment:
            self._moment = moment
            self._pages.clear()
        return self

    def get(self, key: tuple[str, int]) -> tuple[Listing, int] | None:
        """What a token, read with a certain staleness, is of, and where its page begins."""
        return self._pages.get(key)

    def keep(self, key: tuple[str, int], listing: Listing, begin: int) -> None:
        self._pages[key] = (listing, begin)
        if len(self._pages) > _PAGES_MAX:
            del self._pages[next(iter(self._pages))]
