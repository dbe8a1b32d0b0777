"""The in-process front as a transport of the Kubernetes client: it replaces only the socket.

The client's package and this one do not import each other, so the class matches the client's Protocol by structure.
"""

from collections.abc import Mapping
from dataclasses import replace

from holdfast.sim.api.serving.front import Front, Request, Response


class InProcess:
    def __init__(self, front: Front, *, token: str = "") -> None:
        """The token is for a server that requires one."""
        self._front = front
        self._identity = {"authorization": f"Bearer {token}"} if token else {}

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Response:
        answer = await self._front.handle(Request(method, path, query, {**headers, **self._identity}, body))
        if isinstance(answer.body, bytes) or query.get("watch") == "true":
            return answer
        # A truncated response breaks while it is read.
        return replace(answer, body=b"".join([chunk async for chunk in answer.body]))
