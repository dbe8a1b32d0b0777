"""The interface between the client and the connection: one call.

`http` sends requests over a socket; the embedded API server of simulations responds in process. Everything else is the
same code in both.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol


class Answer(Protocol):
    """One response. Header names are lower case.

    A body of bytes is complete. A generator is a watch: it yields chunks as they arrive, not split at lines. The reader
    must close it with `aclose`.
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
        """The response to one request, of any status. Header names are lower case.

        A connection that fails, breaks or times out raises OSError (TimeoutError is one), here and in the generator of a
        watch; the call may have taken effect. Missing credentials raise an error of `holdfast.errors`.
        """
