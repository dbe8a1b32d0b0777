"""The embedded API server: handles requests without a socket, a thread or its own clock.

A request is handled in one step of the event loop, so two writes never interleave. Only a watch continues.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from holdfast.ports import Clock, Ids
from holdfast.sim.api.schema import kubernetes, status
from holdfast.sim.api.schema.resources import REVIEWS
from holdfast.sim.api.schema.status import Refused, UnknownPathError
from holdfast.sim.api.serving import answers, discovery, reviews, routing
from holdfast.sim.api.serving.front import Request, Response
from holdfast.sim.api.serving.openapi import Documents
from holdfast.sim.api.serving.routing import User
from holdfast.sim.api.serving.subresources import Subresources
from holdfast.sim.api.serving.verbs import Verbs
from holdfast.sim.api.storage.registry import Registry
from holdfast.sim.api.storage.store import WINDOW

_HEALTH: Final = ("healthz", "livez", "readyz")
_TEXT: Final = {"content-type": "text/plain; charset=utf-8"}
_HEALTHY: Final = Response(200, _TEXT, b"ok")
_UNKNOWN_PATH: Final = Response(404, _TEXT, b"404 page not found\n")
_ANYBODY: Final = User("system:admin")
_WHOLE: Final = frozenset({"scale", "eviction", "binding", "token", "finalize"})


class ApiServer:
    """A Kubernetes API server. Without tokens every client is accepted; with tokens, only clients that send one."""

    def __init__(
        self,
        *,
        clock: Clock,
        ids: Ids,
        tokens: Mapping[str, User] | None = None,
        window: int = WINDOW,
        history_s: float = math.inf,
    ) -> None:
        """Watches and lists can continue from changes that are at most so many, and so old."""
        self.registry = Registry(clock=clock, ids=ids, window=window, history_s=history_s)
        self._clock = clock
        self._documents = Documents(self.registry.resources)
        self._guarded = bool(tokens)
        self._tokens = dict(tokens or {})
        self._verbs = Verbs(registry=self.registry, clock=clock)
        self._subresources = Subresources(
            registry=self.registry, verbs=self._verbs, ids=ids, tokens=self._tokens
        )

    async def handle(self, request: Request) -> Response:
        """The response to one request."""
        try:
            return self._answer(request)
        except Refused as refused:
            return _refusal(refused)
        except UnknownPathError:
            return self._unknown_path(request.path)
        except RecursionError:
            return _refusal(status.bad_request("the request is nested too deeply"))

    def _answer(self, request: Request) -> Response:
        parts = routing.steps(request.path)
        head = parts[0] if parts else ""
        if head in _HEALTH and not request.headers.get("authorization"):
            return _HEALTHY
        user = self._user(request)
        if head in _HEALTH:
            return _HEALTHY
        if head not in ("api", "apis") and request.method != "GET":
            raise status.not_allowed()
        match head:
            case "version" if len(parts) == 1:
                return answers.plain(_version())
            case "openapi":
                return self._documents.answer(parts)
            case "api" if len(parts) > 2:  # noqa: PLR2004 - shorter ones are discovery
                return self._resource(request, user)
            case "apis" if len(parts) > 3:  # noqa: PLR2004
                return self._resource(request, user)
            case "api" | "apis":
                return discovery.answer(request, parts, self.registry.resources)
            case "":
                return answers.plain(
                    {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
                )
        raise UnknownPathError

    def _resource(self, request: Request, user: User) -> Response:
        self.registry.expire()
        call = routing.understand(request, user, self.registry.resources, self._clock.now_s())
        if call.resource.group in REVIEWS:
            return reviews.answer(call, self._tokens)
        if call.resource.kind == "Binding":
            return self._subresources.bind_by_name(call)
        if call.subresource in _WHOLE:
            return self._subresources.answer(call)
        return self._verbs.answer(call)

    def _unknown_path(self, path: str) -> Response:
        """A Status in the groups of built-in kinds. Elsewhere text, also if a CRD is missing."""
        parts = routing.steps(path)
        head, group = parts[0] if parts else "", parts[1] if len(parts) > 1 else ""
        if head == "api" or (head == "apis" and self.registry.resources.has_built_in(group)):
            return _refusal(status.unknown_path())
        return _UNKNOWN_PATH

    def _user(self, request: Request) -> User:
        if not self._guarded:
            return _ANYBODY
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        user = self._tokens.get(token) if scheme.lower() == "bearer" else None
        if user is None:
            raise Refused("Unauthorized", "Unauthorized")
        return user


def _refusal(refused: Refused) -> Response:
    answer = answers.plain(refused.body(), refused.code)
    if not refused.retry_after_s:
        return answer
    return Response(answer.status, {**answer.headers, "retry-after": str(refused.retry_after_s)}, answer.body)


def _version() -> dict[str, Any]:
    release = kubernetes.published().release
    major, minor, _ = release.split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{release}+holdfast",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": "linux/amd64",
    }
