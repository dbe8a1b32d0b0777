"""Rule: `model`, `core` and `controllers` name no cloud (Q-45).

Called by `test_tidy`. Reserved capacity is a cloud-neutral notion; what is special to one cloud is passed in as
a value. Code, strings and comments all count: a cloud in a comment shows that the code depends on it.
Identifiers are split into their words, so `EC2NodeClass` and `ami_id` are found as well.
"""

import re
from itertools import pairwise
from typing import Final

PACKAGES: Final = ("src/holdfast/model/", "src/holdfast/core/", "src/holdfast/controllers/")

# As words, in any case; a plural s is cut first. `karpenter.k8s.aws` is found by its last word.
_WORDS: Final = frozenset(
    [
        "aws",
        "ec2",
        "amazon",
        "amazonaws",
        "odcr",
        "eks",
        "ami",
        "arn",
        "boto",
        "boto3",
        "botocore",
        "sqs",
        "ssm",
        "capacityblock",
        "ultraserver",
    ]
)
_PAIRS: Final = frozenset({("capacity", "block"), ("ultra", "server")})
# AMIs | HTTP of HTTPServer | Server, server, ec2 | EC2
_WORD: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*")


def findings(source: str, path: str) -> list[str]:
    if not path.startswith(PACKAGES):
        return []
    words = [
        (number, _singular(match[0].lower()))
        for number, line in enumerate(source.splitlines(), start=1)
        for match in _WORD.finditer(line)
    ]
    found = [(number, word) for number, word in words if word in _WORDS]
    found += [(number, f"{a} {b}") for (number, a), (_, b) in pairwise(words) if (a, b) in _PAIRS]
    return [
        f"{path}:{number}: names a cloud ({word}); let it come in as a value"
        for number, word in sorted(found)
    ]


def _singular(word: str) -> str:
    return word if word in _WORDS else word.removesuffix("s")
