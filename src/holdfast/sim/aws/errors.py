"""The error response of a simulated AWS service, and the ways in which there is no response.

Services raise them. Fronts encode an ApiError in the protocol of the service, and break the connection for the others.
Each `code` is one that AWS returns, because clients depend on it.
"""

import asyncio
import math
from typing import Any


class ApiError(Exception):
    """An error response with code, HTTP status and message."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class NoSuchOperation(Exception):
    """The service does not simulate this operation: a front responds as to an unknown action."""


class LostResponse(Exception):
    """The call took effect and the response is lost: a front must close the connection."""


class HalfResponse(LostResponse):
    """The call took effect and the connection breaks in the middle of the response."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("the connection ended in the middle of the answer")
        self.result = result


class Unreached(Exception):
    """The connection broke before the service received the request."""


class NotYet(Exception):
    """A long poll has nothing to return yet.

    Retry when `arrived` is set and after `again_s`; after `seconds` the response is `otherwise`.
    """

    def __init__(
        self, seconds: float, otherwise: dict[str, Any], arrived: asyncio.Event, again_s: float = math.inf
    ) -> None:
        super().__init__(f"nothing yet; ask again within {seconds} s")
        self.seconds = seconds
        self.otherwise = otherwise
        self.arrived = arrived
        self.again_s = again_s
