"""Multipart user data for cloud-init and nodeadm.

Called by `al2` and `al2023`. Boundary and headers are Karpenter's, because scripts of users may search for them.
"""

import email
import email.policy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

SHELL: Final = "text/x-shellscript"
NODE_CONFIG: Final = "application/node.eks.aws"

_BOUNDARY: Final = "//"
_OPENINGS: Final = ("mime-version:", "content-type:")


@dataclass(frozen=True, slots=True)
class Part:
    content_type: str  # the header, with its parameters
    body: str


def shell(script: str) -> Part:
    return Part(f'{SHELL}; charset="us-ascii"', script)


def is_mime(text: str) -> bool:
    return text.lstrip().lower().startswith(_OPENINGS)


def parts(text: str) -> tuple[Part, ...]:
    """The parts of the class's own multipart user data, in order."""
    message = email.message_from_string(text.lstrip(), policy=email.policy.default)
    return tuple(
        Part(part.get("Content-Type", SHELL), str(part.get_payload(decode=False)))
        for part in message.walk()
        if not part.is_multipart()
    )


def text(pieces: Iterable[Part]) -> str:
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for part in pieces:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {part.content_type}", "", part.body]
    return "\n".join([*lines, f"--{_BOUNDARY}--", ""])
