"""The seam between the client and whatever carries its requests: one call.

Callers: `client`. `http` carries requests over a socket; the embedded API server answers them in process. Nothing
but this differs between the two worlds: requests are built, answers decoded, errors mapped and retries made by the
same code.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol


class Answer(Protocol):
    """One answer. Names of headers are lower case.

    A body that is bytes is complete. One that is a generator is a watch: chunks as they arrive, whole lines or not,
    which whoever stops reading closes with `aclose`.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def body(self) -> bytes | AsyncGenerator[bytes, None]: ...


class Transport(Protocol):
    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """The answer to one request, whatever its status. Names of headers are lower case.

        A connection that cannot be made, breaks or takes too long is an OSError (so is TimeoutError), here and from
        the generator of a watch; the call may have taken effect. Credentials that cannot be had are an error of
        `holdfast.errors`.
        """
