"""URL paths of kinds, objects and subresources. Names are checked: a slash in one would address another object."""

from typing import Final

from holdfast import errors
from holdfast.api.cluster import Eviction
from holdfast.api.meta import Object
from holdfast.api.pods import Binding

# Kinds that are created as a subresource of another kind, under the same name.
_SUBRESOURCES: Final[dict[type[Object], tuple[str, str]]] = {
    Binding: ("/api/v1", "pods/{name}/binding"),
    Eviction: ("/api/v1", "pods/{name}/eviction"),
}
_SEPARATORS: Final = frozenset("/%?#")


def all_of(kind: type[Object]) -> str:
    """The collection of a kind in all namespaces."""
    return f"{_group(kind)}/{kind.plural}"


def is_subresource(kind: type[Object]) -> bool:
    """Whether the kind is created as a subresource; the response is then not the object."""
    return kind in _SUBRESOURCES


def to_create(obj: Object) -> str:
    kind, meta = type(obj), obj.metadata
    if kind in _SUBRESOURCES:
        group, subresource = _SUBRESOURCES[kind]
        return f"{group}{_namespace(kind, meta.namespace)}/{subresource.format(name=segment(meta.name))}"
    return f"{_group(kind)}{_namespace(kind, meta.namespace)}/{kind.plural}"


def one(kind: type[Object], namespace: str, name: str, *, status: bool = False) -> str:
    path = f"{_group(kind)}{_namespace(kind, namespace)}/{kind.plural}/{segment(name)}"
    return f"{path}/status" if status else path


def of(obj: Object, *, status: bool = False) -> str:
    return one(type(obj), obj.metadata.namespace, obj.metadata.name, status=status)


def _group(kind: type[Object]) -> str:
    return f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"


def _namespace(kind: type[Object], namespace: str) -> str:
    return f"/namespaces/{segment(namespace)}" if kind.namespaced else ""


def service_proxy(namespace: str, service: str, port: str) -> str:
    """Where the API server forwards requests to a port of a Service, with the rights of the caller."""
    return f"/api/v1/namespaces/{segment(namespace)}/services/{segment(service)}:{port}/proxy"


def segment(name: str) -> str:
    """The name of an object, as one part of a path."""
    if not name or name in {".", ".."} or not name.isprintable() or _SEPARATORS.intersection(name):
        raise errors.InvalidInput(f"{name!r} cannot be the name of an object")
    return name
