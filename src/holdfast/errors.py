"""All errors, grouped by what must happen next.

Each adapter maps its error codes to these in one table and raises `from` the original. A pod that fits nowhere is not an
error: the plan lists it with its reason. A failed `assert` is a defect: the controller retries its key.
"""

from typing import Final

RETRY_AFTER_MAX_S: Final = 300.0  # limit for a server's Retry-After
MESSAGE_MAX: Final = (
    2000  # characters: a library may quote a whole response, and conditions repeat the message
)


class HoldfastError(Exception):
    """Base class of all expected errors. The message is shown to users."""

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]} ... (cut)")


# --- Retry later ------------------------------------------------------------------------------------


class Retryable(HoldfastError):
    """The same call may succeed later, unchanged."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        # The server's Retry-After, limited: a wrong number must not stop a controller for years.
        self.retry_after_s = (
            None if retry_after_s is None else max(0.0, min(retry_after_s, RETRY_AFTER_MAX_S))
        )


class Throttled(Retryable):
    """The server rejected the request because of its rate limit."""


class Unreachable(Retryable):
    """No response, or an incomplete one: the call may have taken effect."""


class NotServed(Unreachable):
    """The path is unknown (HTTP 404 without a Status): the CRD is missing, or a proxy responded."""


class Conflict(Retryable):
    """The object changed since it was read: read it and decide again."""


class ResourceExpired(Retryable):
    """The resourceVersion to continue from is too old (HTTP 410): list again."""


class NotReady(Retryable):
    """A dependency is not resolved yet, for example a node class without a status."""


# --- The user must change something -----------------------------------------------------------------


class Terminal(HoldfastError):
    """A retry without a change cannot succeed."""


class InvalidInput(Terminal):
    """A file, an object or a setting is wrong. The message has the location and what to do."""


class Rejected(Terminal):
    """The API server or the cloud rejected the request as invalid."""


class Unauthorized(Terminal):
    """The credentials are missing, invalid or lack the permission."""


class NoCredentials(Unauthorized):
    """There are no credentials, or the server does not accept them."""


class AlreadyExists(Terminal):
    """An object of this name exists."""


# --- Plan again without this capacity ---------------------------------------------------------------


class InsufficientCapacity(HoldfastError):
    """The cloud has no capacity of the requested offerings: plan the pods again without them."""


class ReservationExhausted(InsufficientCapacity):
    """All slots of these reservations are in use, whatever the last count was."""

    def __init__(self, message: str, *, reservation_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.reservation_ids = reservation_ids


# --- Often the desired state ------------------------------------------------------------------------


class NotFound(HoldfastError):
    """The object or instance does not exist."""
