"""Maps responses of an API server to the errors of `holdfast.errors`.

A known reason of the Status decides; otherwise the HTTP code does, because proxies respond without a Status.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast import errors
from holdfast.api.answers import Status

_BY_REASON: Final[Mapping[str, type[errors.HoldfastError]]] = {
    "AlreadyExists": errors.AlreadyExists,
    "Conflict": errors.Conflict,
    "Expired": errors.ResourceExpired,
    "Gone": errors.ResourceExpired,
    "NotFound": errors.NotFound,
    "Unauthorized": errors.Unauthorized,
    "Forbidden": errors.Unauthorized,
    "TooManyRequests": errors.Throttled,
    "Invalid": errors.Rejected,
    "BadRequest": errors.Rejected,
    "ServerTimeout": errors.Unreachable,
    "Timeout": errors.Unreachable,
    "ServiceUnavailable": errors.Unreachable,
    "InternalError": errors.Unreachable,
}
_BY_CODE: Final[Mapping[int, type[errors.HoldfastError]]] = {
    401: errors.Unauthorized,
    403: errors.Unauthorized,
    404: errors.NotFound,
    409: errors.Conflict,
    410: errors.ResourceExpired,
    429: errors.Throttled,
}
_LONGEST_MESSAGE: Final = 2000
_DIGITS: Final = 9  # of the number of seconds in Retry-After


def error_of(status: int, headers: Mapping[str, str], body: bytes, doing: str) -> errors.HoldfastError:
    """The error for a failed request; `doing` names the request in the message."""
    answer = _status(body)
    kind = _BY_REASON.get(answer.reason) or _by_code(answer.code or status)
    if kind is errors.NotFound and answer.reason != "NotFound":
        # Only a 404 with a Status means that an object does not exist: one of a proxy must not count.
        kind = errors.NotServed
    message = f"{doing}: {(answer.message or f'HTTP {status}')[:_LONGEST_MESSAGE]}"
    if kind is errors.NotServed:
        message += " (is the CRD installed?)"
    if issubclass(kind, errors.Retryable):
        return kind(message, retry_after_s=_retry_after_s(headers, answer))
    return kind(message)


def _by_code(code: int) -> type[errors.HoldfastError]:
    known = _BY_CODE.get(code)
    if known is not None:
        return known
    return errors.Rejected if 400 <= code < 500 else errors.Unreachable  # noqa: PLR2004 - as HTTP divides them


def _status(body: bytes) -> Status:
    try:
        return msgspec.json.decode(body, type=Status)
    except (ValueError, RecursionError):  # the body of a proxy
        text = body.decode(errors="replace").strip()
        return Status(message=text)


def _retry_after_s(headers: Mapping[str, str], answer: Status) -> float | None:
    header = headers.get("retry-after", "")
    if header.isdecimal():
        return float(header[:_DIGITS])
    if answer.details is not None and answer.details.retry_after_seconds:
        return float(min(answer.details.retry_after_seconds, errors.RETRY_AFTER_MAX_S))
    return None
