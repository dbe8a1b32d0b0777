"""Answers in pages.

Called by every Describe call that pages. The rules, as EC2's: no page size together with ids; a size outside
the bounds is an error, not cut; a token continues after the last key that was given, so what is added or goes
meanwhile neither repeats nor hides the rest; a token of another request is refused.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.requests import Request, clash, invalid

Key = Callable[[dict[str, Any]], str]


@dataclass(frozen=True, slots=True)
class Sizes:
    least: int = 5
    most: int = 1000
    usual: int | None = None  # where none is asked for: None is everything


def page(
    answers: list[dict[str, Any]],
    request: Request,
    member: str,
    key: Key,
    *,
    sizes: Sizes = Sizes(),  # noqa: B008 (it is frozen)
    ids: str = "",
) -> dict[str, Any]:
    """One page under `member`, sorted by key. `ids` is the parameter that a page size cannot go with."""
    size = request.get("MaxResults")
    if size is not None:
        if ids and request.get(ids):
            raise clash(f"The parameter {ids} cannot be used with the parameter MaxResults")
        if not sizes.least <= size <= sizes.most:
            raise invalid(
                f"Value ( {size} ) for parameter maxResults is invalid. Expecting {sizes.least} to {sizes.most}."
            )
    size = size or sizes.usual
    after = _read(request)
    rest = [answer for answer in sorted(answers, key=key) if after is None or key(answer) > after]
    if size is None or len(rest) <= size:
        return {member: rest}
    return {member: rest[:size], "NextToken": _write(request, key(rest[size - 1]))}


def _write(request: Request, last: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([_print(request), last]).encode()).decode()


def _read(request: Request) -> str | None:
    token = request.get("NextToken")
    if not token:
        return None
    try:
        of_request, last = json.loads(base64.urlsafe_b64decode(token))
    except (binascii.Error, ValueError) as error:
        raise ApiError("InvalidNextToken", "The token is malformed.") from error
    if of_request != _print(request):
        raise ApiError("InvalidNextToken", "The token is of another request.")
    return str(last)


def _print(request: Request) -> str:
    asked = {k: v for k, v in request.params.items() if k not in {"NextToken", "MaxResults"}}
    text = json.dumps([request.operation, request.account, asked], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
