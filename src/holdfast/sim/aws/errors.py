"""The one error a simulated AWS service answers with, and the ways in which there is no answer.

Services raise them. The fronts write an ApiError as the protocol of the service asks, and turn the others
into what happens on a wire. The rule: `code` is a code that AWS really sends, since that is what clients
decide by.
"""

import asyncio
import math
from typing import Any


class ApiError(Exception):
    """An answer with an error code, an HTTP status and a message for people."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class NoSuchOperation(Exception):
    """The service does not simulate this operation: a front answers as to an action that AWS does not know."""


class LostResponse(Exception):
    """The call took effect and its answer never arrived: a front must drop the connection."""


class HalfResponse(LostResponse):
    """The call took effect and the connection ends in the middle of its answer."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__("the connection ended in the middle of the answer")
        self.result = result


class Unreached(Exception):
    """The connection ended before the service saw the request."""


class NotYet(Exception):
    """There is nothing to answer yet, and the caller asked to wait: a long poll.

    It is worth asking again when `arrived` is set and after `again_s`; after `seconds` the answer is
    `otherwise`.
    """

    def __init__(
        self, seconds: float, otherwise: dict[str, Any], arrived: asyncio.Event, again_s: float = math.inf
    ) -> None:
        super().__init__(f"nothing yet; ask again within {seconds} s")
        self.seconds = seconds
        self.otherwise = otherwise
        self.arrived = arrived
        self.again_s = again_s
