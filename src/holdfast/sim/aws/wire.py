"""One request and one response on the wire, for every transport.

Header names are lower case.
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
    path: str  # percent-encoded
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False  # the connection breaks in the middle of the body

    @property
    def arriving(self) -> bytes:
        """The bytes of the body that the client receives."""
        return self.body[: len(self.body) // 2] if self.cut else self.body


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a signature: the access key and the service. The signature is not verified, because the simulator
    has no secret keys."""

    access_key: str
    region: str
    service: str


def scope(request: Request) -> Scope | None:
    """The scope in the header, or in the query of a presigned URL; None if the request is not signed."""
    signed = request.headers.get("authorization") or "".join(
        parse_qs(request.query).get("X-Amz-Credential", ())
    )
    found = _CREDENTIAL.search(signed)
    return Scope(found["key"], found["region"], found["service"]) if found else None
