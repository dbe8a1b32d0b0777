"""How the Python process has to be set up before anything runs.

Callers: `app`. A hundred thousand objects that live for days must not be looked at by the garbage collector again and
again: its first threshold is raised, and what the first sync brought in is put out of its sight.
"""

import gc
from typing import Final

from holdfast import errors

_NEW_OBJECTS: Final = (
    10_000  # between two collections of the young, which take 6 ms then; Python's own is 700 or 2,000
)
_YOUNG_COLLECTIONS: Final = 100
_MIDDLE_COLLECTIONS: Final = 100


def refuse_without_asserts() -> None:
    """We assert what must be true and never act on a decision that broke one: without asserts we would."""
    if not __debug__:
        raise errors.InvalidInput("started with python -O, which switches asserts off; start it without -O")


def raise_gc_threshold() -> None:
    gc.set_threshold(_NEW_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)


def freeze() -> None:
    """What is there now is there to stay. What is garbage now is collected first, or it would stay too."""
    gc.collect()
    gc.freeze()
