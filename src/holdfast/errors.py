"""The whole error tree, sorted by who must act.

Every adapter maps its vendor's codes to one of these in one table and raises `from` the original. "Does
not fit" is not here: it is an answer, carried in a plan with its reason. A broken `assert` is not here
either: it is our bug, and the work loop tries the key it happened on again.
"""

from typing import Final

RETRY_AFTER_MAX_S: Final = 300.0  # whatever the other side asks for
MESSAGE_MAX: Final = (
    2000  # characters: a library may quote a whole answer, and conditions and log lines quote the message
)


class HoldfastError(Exception):
    """Root of everything we raise on purpose. The message is written for the person who will read it."""

    def __init__(self, message: str) -> None:
        super().__init__(message if len(message) <= MESSAGE_MAX else f"{message[:MESSAGE_MAX]} ... (cut)")


# --- We must act, later -----------------------------------------------------------------------------


class Retryable(HoldfastError):
    """The same call may succeed later, unchanged."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        # What the other side asked for, if it did. A wrong number must not stop a controller for years.
        self.retry_after_s = (
            None if retry_after_s is None else max(0.0, min(retry_after_s, RETRY_AFTER_MAX_S))
        )


class Throttled(Retryable):
    """The other side answered that we ask too often."""


class Unreachable(Retryable):
    """No answer, or half of one: the call may or may not have taken effect."""


class Conflict(Retryable):
    """The object changed since it was read: read it again and decide again."""


class ResourceExpired(Retryable):
    """The resourceVersion to continue from is too old (HTTP 410): list again."""


class NotReady(Retryable):
    """Something this depends on is not resolved yet, e.g. a node class without its status."""


# --- The user must act, by editing ------------------------------------------------------------------


class Terminal(HoldfastError):
    """Trying again without a change is pointless."""


class InvalidInput(Terminal):
    """A file, an object or a setting is wrong. The message says where and what to do."""


class Rejected(Terminal):
    """The API server or the cloud refused the request as invalid."""


class Unauthorized(Terminal):
    """Our credentials are missing, wrong or not allowed to do this."""


class NoCredentials(Unauthorized):
    """There are no credentials, or the other side does not accept them."""


class AlreadyExists(Terminal):
    """The name is taken: whoever created it first owns it."""


# --- The planner must act, elsewhere ----------------------------------------------------------------


class InsufficientCapacity(HoldfastError):
    """The cloud has none of what was asked for: plan these pods again without it."""


class ReservationExhausted(InsufficientCapacity):
    """Every slot of these reservations is taken, whatever our last count said."""

    def __init__(self, message: str, *, reservation_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.reservation_ids = reservation_ids


# --- Nobody must act --------------------------------------------------------------------------------


class NotFound(HoldfastError):
    """It is gone, which is often what was wanted."""
