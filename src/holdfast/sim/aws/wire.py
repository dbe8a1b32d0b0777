"""One request and one answer as they are on the wire, for every transport.

The rule: header names are lower case inside.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs

_CREDENTIAL: Final = re.compile(r"(?P<key>[^/=\s]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/aws4_request")


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str  # as sent, with its escapes
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False  # the connection ends in the middle of the body

    @property
    def arriving(self) -> bytes:
        """What the client gets of the body."""
        return self.body[: len(self.body) // 2] if self.cut else self.body


@dataclass(frozen=True, slots=True)
class Scope:
    """What a signature states of a request: the access key that signed it, and the service. The signature itself
    is not checked, since the simulator has no secret keys."""

    access_key: str
    region: str
    service: str


def scope(request: Request) -> Scope | None:
    """The scope of the header, or of the query of a presigned address; None when it is not signed."""
    signed = request.headers.get("authorization") or "".join(
        parse_qs(request.query).get("X-Amz-Credential", ())
    )
    found = _CREDENTIAL.search(signed)
    return Scope(found["key"], found["region"], found["service"]) if found else None
