"""Responses in pages.

As in EC2: a page size together with ids is an error; so is a size outside the limits. A token continues after the last
returned key, so items that are added or removed meanwhile neither repeat nor hide others. A token of another request is
rejected. A page may be shorter than requested although there are more. While nothing changes, further pages are read
from the list of the first one.
"""

import base64
import binascii
import hashlib
import json
from typing import Any

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.listings import Key, Listing, Shape, Sizes
from holdfast.sim.ec2.requests import Request, clash, invalid


def page(
    answers: list[dict[str, Any]],
    request: Request,
    member: str,
    key: Key,
    *,
    sizes: Sizes = Sizes(),  # noqa: B008 (it is frozen)
    ids: str = "",
    shape: Shape | None = None,
) -> dict[str, Any]:
    """One page under `member`, sorted by key. `ids` is the parameter that excludes a page size; `shape` converts the
    items of a page to the value of `member`."""
    if ids and request.get(ids) and request.get("MaxResults") is not None:
        raise clash(f"The parameter {ids} cannot be used with the parameter MaxResults")
    after = _read(request)
    rest = [answer for answer in sorted(answers, key=key) if after is None or key(answer) > after]
    return _cut(request, Listing(rest, member, key, sizes, shape or list), 0)


def next_page(request: Request) -> dict[str, Any] | None:
    """The page of a token from a cached list; None if the list must be computed again."""
    listing = request.listings.get((request.get("NextToken"), request.stale_s))
    if listing is None:
        return None
    _read(request)
    return _cut(request, *listing)


def _cut(request: Request, listing: Listing, begin: int) -> dict[str, Any]:
    size, least, most = request.get("MaxResults"), listing.sizes.least, listing.sizes.most
    if size is not None and not least <= size <= most:
        raise invalid(f"Value ( {size} ) for parameter maxResults is invalid. Expecting {least} to {most}.")
    size = size or listing.sizes.usual
    if size is not None and request.listings.page_size:
        size = min(size, request.listings.page_size)
    if size is None or len(listing.answers) - begin <= size:
        return {listing.member: listing.shape(listing.answers[begin:])}
    end = begin + size
    token = _write(request, listing.key(listing.answers[end - 1]))
    request.listings.keep((token, request.stale_s), listing, end)
    return {listing.member: listing.shape(listing.answers[begin:end]), "NextToken": token}


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
    parameters = {k: v for k, v in request.params.items() if k not in {"NextToken", "MaxResults"}}
    text = json.dumps([request.operation, request.account, parameters], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
