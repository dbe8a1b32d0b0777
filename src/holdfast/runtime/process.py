"""Sets up the Python process: asserts must be on, and the garbage collector is tuned.

The watch caches hold a hundred thousand objects for days. The collector must not visit them again and again: its first
threshold is raised, and the objects of the first sync are frozen.
"""

import gc
from typing import Final

from holdfast import errors

_NEW_OBJECTS: Final = 10_000  # per young collection, which then takes 6 ms; Python's default is 700 or 2,000
_YOUNG_COLLECTIONS: Final = 100
_MIDDLE_COLLECTIONS: Final = 100


def refuse_without_asserts() -> None:
    """Asserts stop wrong decisions before they are carried out, so the program must not run without them."""
    if not __debug__:
        raise errors.InvalidInput("started with python -O, which switches asserts off; start it without -O")


def raise_gc_threshold() -> None:
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)


def freeze() -> None:
    """Exempts all current objects from collection. Collects first: frozen garbage would never be freed."""
    gc.collect()
    gc.freeze()
