"""What a fault does to an answer: the list of faults, and the damaged bytes.

Used by `proxy`. Every choice comes from the random numbers of the injection, so a seed gives the same damage again.
A damaged value has a type that the API forbids. A value that is wrong but allowed, such as an empty list, is no fault
that a client can detect, so it is not in the list.
"""

import enum
import json
import random
import re
from dataclasses import replace
from email.utils import formatdate
from typing import Any, Final

from faults import wire
from faults.wire import Answer

HUGE_BYTES: Final = 32 * 2**20
HUGE_SECONDS: Final = "99999999"
_ABSURD: Final = (HUGE_SECONDS, "-1", "1e309", "Fri, 31 Dec 9999 23:59:59 GMT", "soon")
_XML_LEAF: Final = re.compile(rb"<([A-Za-z]\w*)>([^<>]+)</\1>")
_WRONG_TEXT: Final = (b"", b"null", b"-1", b"9" * 30, b"[]", b"<item>1</item>")
_NEVER_NULL: Final = ("metadata", "spec", "status", "object")  # lists and maps elsewhere may be null


class Kind(enum.StrEnum):
    CUT = "cut"  # the answer ends after some of its bytes
    WRONG_TYPES = "wrong-types"
    TEXT_500 = "500-text"
    HTML_503 = "503-html"
    TEXT_404 = "404-text"
    TEXT_409 = "409-text"
    ENDLESS_429 = "429-retry-after-99999999"
    REDIRECT_302 = "302"
    CONTENT_TYPE = "content-type"
    EMPTY = "empty"
    HUGE = "huge"
    DATE_HOURS = "date-hours-off"
    DATE_9999 = "date-year-9999"
    DATE_GARBAGE = "date-garbage"
    RETRY_AFTER = "retry-after-absurd"
    STALL = "stall"  # the connection is accepted, and no answer is sent
    DRIP = "slow-drip"
    RESET = "reset"
    LOST = "answer-lost"  # the request has its effect, and the answer is dropped
    SILENT = "watch-silent"  # the watch stays open and sends no events and no bookmarks
    REFUSED = "connection-refused"


# Faults of a watch that can begin while it is open. For the others, the proxy ends the watch, and the next one fails.
ON_AN_OPEN_WATCH: Final = frozenset(
    {Kind.CUT, Kind.WRONG_TYPES, Kind.EMPTY, Kind.HUGE, Kind.DRIP, Kind.RESET, Kind.LOST, Kind.SILENT}
)
# Faults that replace an answer. The server may have received the request or not.
REPLACING: Final = frozenset(
    {
        Kind.TEXT_500,
        Kind.HTML_503,
        Kind.TEXT_404,
        Kind.TEXT_409,
        Kind.ENDLESS_429,
        Kind.REDIRECT_302,
        Kind.RETRY_AFTER,
    }
)
# Faults after which it takes minutes until everything is settled: a silent watch is opened again after 150 seconds, a
# server may ask to wait for five minutes, and a request has a minute.
SLOW: Final = frozenset({Kind.SILENT, Kind.ENDLESS_429, Kind.RETRY_AFTER, Kind.STALL})
_TEXT: Final = [("Content-Type", "text/plain; charset=utf-8")]
_HTML: Final = [("Content-Type", "text/html")]
_PAGE: Final = b"<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>"


def applies(kind: Kind, *, to_watch: bool) -> bool:
    return to_watch or kind is not Kind.SILENT


def replacement(kind: Kind, dice: random.Random) -> Answer:
    """An answer that does not come from the server, such as one of a load balancer."""
    match kind:
        case Kind.TEXT_500:
            return Answer(500, "Internal Server Error", _TEXT, b"upstream connect error")
        case Kind.HTML_503:
            return Answer(503, "Service Unavailable", _HTML, _PAGE)
        case Kind.TEXT_404:
            return Answer(404, "Not Found", _TEXT, b"404 page not found\n")
        case Kind.TEXT_409:
            return Answer(409, "Conflict", _TEXT, b"conflict")
        case Kind.ENDLESS_429:
            return Answer(429, "Too Many Requests", [*_TEXT, ("Retry-After", HUGE_SECONDS)], b"slow down")
        case Kind.REDIRECT_302:
            return Answer(302, "Found", [*_HTML, ("Location", "http://127.0.0.1:9/login")], b"")
        case Kind.RETRY_AFTER:
            return Answer(503, "Service Unavailable", [*_HTML, ("Retry-After", dice.choice(_ABSURD))], _PAGE)
    raise AssertionError(kind)


def damaged(kind: Kind, answer: Answer, dice: random.Random, now_s: float) -> Answer:
    """The answer with one thing wrong; the rest is the server's own."""
    match kind:
        case Kind.WRONG_TYPES:
            return replace(answer, body=wrong_types(answer.body, dice))
        case Kind.CONTENT_TYPE:
            return _with(
                answer, "Content-Type", dice.choice(["text/html", "application/octet-stream", "image/png"])
            )
        case Kind.EMPTY:
            return replace(answer, body=b"")
        case Kind.HUGE:
            return replace(answer, body=huge(dice))
        case Kind.DATE_HOURS:
            return _with(answer, "Date", formatdate(now_s + dice.choice([-5, -1, 1, 7]) * 3600, usegmt=True))
        case Kind.DATE_9999:
            return _with(answer, "Date", "Fri, 31 Dec 9999 23:59:59 GMT")
        case Kind.DATE_GARBAGE:
            return _with(answer, "Date", dice.choice(["yesterday", "", "Mon, 99 Foo 2026 99:99:99 GMT", "0"]))
    return answer


def huge(dice: random.Random) -> bytes:
    """Tens of megabytes that begin like an answer."""
    start = dice.choice([b'{"kind":"List","items":["', b"<Response><item>", b"\x00"])
    return start + b"x" * HUGE_BYTES


def wrong_types(body: bytes, dice: random.Random) -> bytes:
    """The body with one value of another type, in JSON or XML; anything else becomes a number."""
    try:
        document = json.loads(body)
    except ValueError:
        return _wrong_xml(body, dice)
    return json.dumps(_wrong_json(document, dice)).encode()


def _wrong_json(document: Any, dice: random.Random) -> Any:
    places = list(_places(document))
    if not places:
        return 17
    parent, key = dice.choice(places)
    old = parent[key]
    choices: list[Any] = [c for c in (17, "text", ["text"], {"text": 1}) if not isinstance(c, type(old))]
    if key in _NEVER_NULL:
        choices.append(None)
    parent[key] = dice.choice(choices)
    return document


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every value that is not null, as its container and its key."""
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    else:
        return []
    found = [(value, key) for key, child in pairs if child is not None]
    return found + [place for _, child in pairs for place in _places(child)]


def _wrong_xml(body: bytes, dice: random.Random) -> bytes:
    leaves = list(_XML_LEAF.finditer(body))
    if not leaves:
        return b"17"
    leaf = dice.choice(leaves)
    return body[: leaf.start(2)] + dice.choice(_WRONG_TEXT) + body[leaf.end(2) :]


def _with(answer: Answer, name: str, value: str) -> Answer:
    return replace(answer, headers=wire.with_header(answer.headers, name, value))
