"""Errors of the API server, with their Status body.

Any module of this package raises them; `server` converts them to responses. Messages are those of a real kube-apiserver
where clients depend on them; docs/fidelity-kube.md lists differences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_CODES: Final = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "NotAcceptable": 406,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Expired": 410,
    "RequestEntityTooLarge": 413,
    "UnsupportedMediaType": 415,
    "Invalid": 422,
    "TooManyRequests": 429,
    "InternalError": 500,
    "Timeout": 504,
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One problem of an object. `detail` follows the text of the reason."""

    reason: str
    field: str
    detail: str = ""

    @property
    def message(self) -> str:
        words = _CAUSE_WORDS.get(self.reason)
        if words is None:
            return self.detail
        return f"{words}: {self.detail}" if self.detail else words


_CAUSE_WORDS: Final = {
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueInvalid": "Invalid value",
    "FieldValueNotSupported": "Unsupported value",
    "FieldValueRequired": "Required value",
    "FieldValueTooLong": "Too long",
    "FieldValueTooMany": "Too many",
    "FieldValueTypeInvalid": "Invalid value",
}


class Refused(Exception):
    """The request fails with a Status."""

    def __init__(
        self, reason: str, message: str, *, details: dict[str, Any] | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.code = _CODES[reason]
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s

    def body(self) -> dict[str, Any]:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        details = dict(self.details or {})
        if self.retry_after_s:
            details["retryAfterSeconds"] = self.retry_after_s
        if details or self.details is not None:
            status["details"] = details
        return {**status, "code": self.code}


def bad_request(message: str) -> Refused:
    return Refused("BadRequest", message)


class UnknownPathError(Exception):
    """No resource is served at the path."""


def unknown_path() -> Refused:
    return Refused("NotFound", "the server could not find the requested resource", details={})


def not_allowed() -> Refused:
    return Refused(
        "MethodNotAllowed", "the server does not allow this method on the requested resource", details={}
    )


def not_found(group: str, plural: str, name: str) -> Refused:
    return Refused(
        "NotFound", f'{_qualified(plural, group)} "{name}" not found', details=_details(group, plural, name)
    )


def already_exists(group: str, plural: str, name: str) -> Refused:
    return Refused(
        "AlreadyExists",
        f'{_qualified(plural, group)} "{name}" already exists',
        details=_details(group, plural, name),
    )


def modified(group: str, plural: str, name: str) -> Refused:
    """Another client changed the object after the version of the request."""
    return conflict(
        group,
        plural,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def conflict(group: str, plural: str, name: str, why: str) -> Refused:
    return Refused(
        "Conflict",
        f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}',
        details=_details(group, plural, name),
    )


def forbidden(group: str, plural: str, name: str, why: str, causes: Sequence[Cause] = ()) -> Refused:
    details = _details(group, plural, name)
    if causes:
        details["causes"] = [_cause(cause) for cause in causes]
    return Refused("Forbidden", f'{_qualified(plural, group)} "{name}" is forbidden: {why}', details=details)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> Refused:
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Refused(
        "Invalid",
        f'{_qualified(kind, group)} "{name}" is invalid: {message}',
        details=_details(group, kind, name) | {"causes": [_cause(cause) for cause in causes]},
    )


def expired(message: str) -> Refused:
    return Refused("Expired", message)


def success(details: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Status of a request without another result."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {})


def _cause(cause: Cause) -> dict[str, str]:
    return {"reason": cause.reason, "message": cause.message, "field": cause.field}


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def _details(group: str, kind: str, name: str) -> dict[str, Any]:
    details = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in details.items() if value}
