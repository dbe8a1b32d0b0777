"""The front with the wire protocol and without a socket: botocore's `before-send` hook.

Tests install it into a session or a client, to use botocore's serialization, signing, retries and parsing. A request
arrives as the bytes that botocore would send.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.hooks import BaseEventHooks

from holdfast.sim.aws import dispatch
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import LostResponse, Unreached
from holdfast.sim.aws.wire import Request


def install(events: BaseEventHooks, endpoint: Endpoint) -> None:
    """Installs it into `session.get_component("event_emitter")` before clients are created, or into
    `client.meta.events`."""
    front = BeforeSend(endpoint)
    events.register("before-send", front.answer)


class BeforeSend:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def answer(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        address = urlsplit(request.url)
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        body = request.body or b""
        received = Request(
            request.method,
            address.path,
            address.query,
            headers,
            body.encode() if isinstance(body, str) else body,
        )
        try:
            response = dispatch.answer(self._endpoint, received)
        except (LostResponse, Unreached) as broken:
            raise ConnectionClosedError(endpoint_url=request.url) from broken
        return AWSResponse(request.url, response.status, response.headers, _Body(response.arriving))


class _Body:
    """The body that botocore reads."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        yield self._content


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
