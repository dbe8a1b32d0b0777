"""Parses a path into resource, object, subresource and verb.

Called by `server`. An unknown path gets a 404, a verb that the resource does not support a 405.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import unquote

from holdfast.sim.api.schema import status
from holdfast.sim.api.schema.resources import Resource, Resources
from holdfast.sim.api.schema.status import UnknownPathError
from holdfast.sim.api.serving.front import Request

_MAX_STEPS: Final = 10


@dataclass(frozen=True, slots=True)
class User:
    """The authenticated user. Every user may do everything."""

    name: str
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")


class Call(NamedTuple):
    """A parsed request."""

    request: Request
    user: User
    resource: Resource
    verb: str
    now_s: int  # when it arrived
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace if self.resource.namespaced else "", self.name)

    def flag(self, name: str) -> bool:
        """A boolean parameter, parsed as in Go."""
        return self.request.query.get(name, "").lower() in ("true", "1", "t")

    def number(self, name: str) -> int | None:
        text = self.request.query.get(name, "")
        if not text:
            return None
        if len(text) > 18 or not text.lstrip("-").isdecimal() or not text.isascii():  # noqa: PLR2004 - 64 bits
            raise status.bad_request(f'strconv.ParseInt: parsing "{text[:100]}": invalid syntax')
        return int(text)

    @property
    def dry_run(self) -> bool:
        given = self.request.query.get("dryRun", "")
        if given not in ("", "All"):
            cause = status.Cause(
                "FieldValueNotSupported", "dryRun", f'"{given[:100]}": supported values: "All"'
            )
            raise status.invalid("meta.k8s.io", "CreateOptions", "", [cause])
        return bool(given)


def steps(path: str) -> list[str]:
    """The decoded segments of a path."""
    found = [step for step in path.split("/") if step]
    return [unquote(step) for step in found] if "%" in path else found


def understand(request: Request, user: User, resources: Resources, now_s: int) -> Call:
    """The call of a path below /api or /apis; raises Refused."""
    parts = steps(request.path)
    if len(parts) > _MAX_STEPS:
        raise UnknownPathError
    group, parts = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    version, parts = parts[0], parts[1:]
    namespace = ""
    # /namespaces/x/pods is pods in x; /namespaces/x and /namespaces/x/status are the Namespace object.
    if parts[0] == "namespaces" and len(parts) > 2 and not _is_namespaces_own(group, parts, resources):  # noqa: PLR2004
        namespace, parts = parts[1], parts[2:]
    resource = resources.get(group, version, parts[0])
    if resource is None or len(parts) > 3 or (namespace and not resource.namespaced):  # noqa: PLR2004
        raise UnknownPathError
    name, subresource = (*parts[1:], "", "")[:2]
    if name and resource.namespaced and not namespace:
        raise UnknownPathError
    if subresource and subresource not in resource.subresources:
        raise UnknownPathError
    verb = _verb(request, name)
    allowed = resource.subresources[subresource].verbs if subresource else resource.verbs
    if verb not in allowed or (verb == "create" and bool(name) != bool(subresource)):
        raise status.not_allowed()
    if verb == "create" and resource.namespaced and not namespace:
        raise status.not_allowed()
    return Call(request, user, resource, verb, now_s, namespace, name, subresource)


def _is_namespaces_own(group: str, parts: list[str], resources: Resources) -> bool:
    own = resources.get("", "v1", "namespaces")
    return not group and len(parts) == 3 and own is not None and parts[2] in own.subresources  # noqa: PLR2004


def _verb(request: Request, name: str) -> str:
    match request.method:
        case "GET" if name:
            return "get"
        case "GET":
            return "watch" if request.query.get("watch", "").lower() in ("true", "1", "t") else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update" if name else ""
        case "PATCH":
            return "patch" if name else ""
        case "DELETE":
            return "delete" if name else "deletecollection"
    return ""
