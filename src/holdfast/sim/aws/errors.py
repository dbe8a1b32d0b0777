"""The one error a simulated AWS service answers with.

Services raise it, the fronts write it as the protocol of the service asks. The rule: `code` is a code that
AWS really sends, since that is what clients decide by.
"""


class ApiError(Exception):
    """An answer with an error code, an HTTP status and a message for people."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


class LostResponse(Exception):
    """The call took effect and its answer never arrived: a front must drop the connection."""
