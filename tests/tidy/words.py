"""Rule: names, comments, docstrings and texts use the words of Kubernetes, Karpenter and EC2.

Each entry is a word that this codebase once had, with what to write instead. Identifiers are split into their words, so
`told_s` and `MachineList` are found as well.
"""

import io
import re
import tokenize
from collections.abc import Mapping
from typing import Final

INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("machine", "machines"), "instance (EC2) or node (Kubernetes)"),
    **dict.fromkeys(("room", "rooms"), "capacity, or package"),
    **dict.fromkeys(("door", "doors"), "port"),
    **dict.fromkeys(("whoever", "nobody", "somebody"), "the actual noun"),
    **dict.fromkeys(("wish", "wishes"), "preference"),
    **dict.fromkeys(("bought", "buys"), "launched on demand, or on spot"),
    "told": "reported, logged, emitted or set",
    **dict.fromkeys(("hurry", "hurried"), "trigger, or stop early"),
    "truth": "the actual state",
    "marks": "taints, conditions or annotations",
    **dict.fromkeys(("lives", "dies"), "runs, exits"),
    "homes": "node",
    "said": "reported, answered or set",
    "leaving": "terminating, or draining",
    **dict.fromkeys(("seat", "seats", "guest", "guests"), "NodeInfo, PodInfo"),
    **dict.fromkeys(("storm", "storms", "weather"), "fault simulation, fault schedule"),
    **dict.fromkeys(
        ("survey", "memo", "purse", "hopes", "telling", "referee", "homeless"), "what the thing is"
    ),
}
# Names on the wire, and of other programs.
ALLOWED: Final = frozenset({"machineID", '"machine"', "HOME", "Dies"})

# From Python 3.12 on the text of an f-string has a token of its own.
_TOKENS: Final = (
    tokenize.NAME,
    tokenize.COMMENT,
    tokenize.STRING,
    getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING),
)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def findings(source: str, path: str) -> list[str]:
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _TOKENS:
            text = token.string
            for allowed in ALLOWED:
                text = text.replace(allowed, "")
            words = {word.lower() for word in _WORD.findall(text)}
            found += [
                f"{path}:{token.start[0]}: {word!r}; write: {INSTEAD[word]}"
                for word in sorted(words & INSTEAD.keys())
            ]
    return found
