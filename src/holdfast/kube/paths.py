"""Where on an API server a kind, an object and its subresources are.

Callers: `client`. Names are checked, since a slash in one would name something else.
"""

from typing import Final

from holdfast import errors
from holdfast.api.cluster import Eviction
from holdfast.api.meta import Object
from holdfast.api.pods import Binding

# Kinds that are created on an object of another kind, under the same name.
_ON_ANOTHER: Final[dict[type[Object], tuple[str, str]]] = {
    Binding: ("/api/v1", "pods/{name}/binding"),
    Eviction: ("/api/v1", "pods/{name}/eviction"),
}


def all_of(kind: type[Object]) -> str:
    """Every object of the kind, in all namespaces."""
    return f"{_group(kind)}/{kind.plural}"


def is_on_another(kind: type[Object]) -> bool:
    """Whether it is created on an object of another kind, and the answer is not the object."""
    return kind in _ON_ANOTHER


def to_create(obj: Object) -> str:
    kind, meta = type(obj), obj.metadata
    if kind in _ON_ANOTHER:
        group, subresource = _ON_ANOTHER[kind]
        return f"{group}{_namespace(kind, meta.namespace)}/{subresource.format(name=_segment(meta.name))}"
    return f"{_group(kind)}{_namespace(kind, meta.namespace)}/{kind.plural}"


def one(kind: type[Object], namespace: str, name: str, *, status: bool = False) -> str:
    path = f"{_group(kind)}{_namespace(kind, namespace)}/{kind.plural}/{_segment(name)}"
    return f"{path}/status" if status else path


def of(obj: Object, *, status: bool = False) -> str:
    return one(type(obj), obj.metadata.namespace, obj.metadata.name, status=status)


def _group(kind: type[Object]) -> str:
    return f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"


def _namespace(kind: type[Object], namespace: str) -> str:
    return f"/namespaces/{_segment(namespace)}" if kind.namespaced else ""


def _segment(name: str) -> str:
    if not name or name in {".", ".."} or any(c in "/%?#" or not c.isprintable() for c in name):
        raise errors.InvalidInput(f"{name!r} cannot be the name of an object")
    return name
