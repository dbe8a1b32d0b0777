"""Hashes of the template of a NodePool and of the spec of a node class, to detect changes.

Values with the same meaning have the same hash: the order of a list does not count, and an empty field equals an absent
one. Karpenter computes its hashes with a Go library. These hashes have their own version and are never compared with
Karpenter's.
"""

import hashlib
import json
from typing import Any, Final

_DIGITS: Final = 16


def of(*parts: Any) -> str:
    """The hash of JSON values."""
    content = [_canonical(part) for part in parts]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _canonical(value: Any) -> Any:
    """Sorts lists, since their order has no meaning, and removes empty fields."""
    if isinstance(value, dict):
        found = {key: _canonical(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in (None, "", [], {}, False)}
    if isinstance(value, list | tuple):
        return sorted((_canonical(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
