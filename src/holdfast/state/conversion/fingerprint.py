"""Fingerprints of what objects say, to find out that it changed.

Called for the template of a NodePool and for the spec of a node class. The rule: what means the same has the same
fingerprint, so neither the order of a list counts nor whether something empty is written down. Karpenter's own are
made by a library of Go; ours carry versions of their own, and are never compared with others.
"""

import hashlib
import json
from typing import Any, Final

_DIGITS: Final = 16


def of(*parts: Any) -> str:
    """Of plain JSON values."""
    content = [_canonical(part) for part in parts]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def _canonical(value: Any) -> Any:
    """Lists are sets: their order says nothing. What is empty says as much as what is not there."""
    if isinstance(value, dict):
        found = {key: _canonical(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in (None, "", [], {}, False)}
    if isinstance(value, list | tuple):
        return sorted((_canonical(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
