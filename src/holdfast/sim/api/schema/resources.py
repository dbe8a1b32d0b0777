"""The served resources: built-in ones and those of CRDs.

A resource is one way to access the objects of a bucket: two versions of a CRD, or the Events of the two groups, share
one bucket and differ by their *view*.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.sim.api.schema import events, kubernetes, shapes
from holdfast.sim.api.schema.custom import CustomKind
from holdfast.sim.api.schema.shapes import Shape

Json = dict[str, Any]

# Kinds that are requested and never stored.
REVIEWS: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
# Resources of a real server that no client requests here: the status of etcd, a second version.
_LEFT_OUT: Final = frozenset({("", "componentstatuses"), ("autoscaling", "v1")})
# Connections to a node, where no kubelet answers; and subresources that only a kubelet or a signer would use.
_SUBRESOURCES_LEFT_OUT: Final = frozenset(
    {"approval", "attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize"}
)


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    verbs: tuple[str, ...]
    kind: tuple[str, str, str]  # group, version, kind


@dataclass(frozen=True, slots=True)
class View:
    """How a resource shows the objects of its bucket."""

    show: Callable[[Json], Json]
    keep: Callable[[Json], Json]
    field: Callable[[str], str] = str  # the name of a selector's field in the bucket


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource in one version. `bucket` is the name of its storage."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    shape: Shape
    bucket: str
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: CustomKind | None = None
    view: View | None = None

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return self.custom.list_kind if self.custom else f"{self.kind}List"

    def show(self, body: bytes, decode: Callable[[bytes], Json], encode: Callable[[Json], bytes]) -> bytes:
        """The stored bytes in the form of this resource."""
        return body if self.view is None else encode(self.view.show(decode(body)))


class Resources:
    """All served resources. CRDs can be added and removed; built-in kinds cannot."""

    def __init__(self) -> None:
        self._built_in = {(r.group, r.version, r.plural): r for r in _built_in()}
        self._custom: dict[tuple[str, str, str], Resource] = {}
        self._fields: dict[str, tuple[str, ...]] = {}  # of custom objects, by bucket
        self.generation = 0  # incremented with each change of CRDs

    def get(self, group: str, version: str, plural: str) -> Resource | None:
        key = (group, version, plural)
        return self._built_in.get(key) or self._custom.get(key)

    def all(self) -> Iterator[Resource]:
        yield from self._built_in.values()
        yield from self._custom.values()

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        return next((r for r in self.all() if (r.api_version, r.kind) == (api_version, kind)), None)

    def of_bucket(self, bucket: str) -> Resource:
        """A resource that shows the bucket as stored."""
        found = [r for r in self.all() if r.bucket == bucket]
        return next((r for r in found if r.view is None), found[0])

    def fields_of(self, bucket: str) -> tuple[str, ...]:
        """The selectable fields of custom objects, in addition to name and namespace."""
        if bucket not in self._fields:
            custom = next((r.custom for r in self.all() if r.bucket == bucket), None)
            self._fields[bucket] = custom.fields if custom else ()
        return self._fields[bucket]

    def has_group_version(self, group: str, version: str) -> bool:
        return any((r.group, r.version) == (group, version) for r in self.all())

    def has_built_in(self, group: str) -> bool:
        return any(r.group == group for r in self._built_in.values())

    def define(self, name: str, resources: list[Resource]) -> None:
        """Serves the resources of a CRD; an empty list removes it."""
        remaining = {
            key: r for key, r in self._custom.items() if r.custom is not None and r.custom.name != name
        }
        self._custom = remaining | {(r.group, r.version, r.plural): r for r in resources}
        self._fields.clear()
        self.generation += 1


def of_custom(kind: CustomKind) -> Resource:
    """The resource of one served version of a CRD."""
    subresources = {"status": ("get", "patch", "update")} if kind.has_status else {}
    if kind.scale:
        subresources["scale"] = ("get", "patch", "update")
    own = (kind.group, kind.version, kind.kind)
    return Resource(
        group=kind.group,
        version=kind.version,
        plural=kind.plural,
        singular=kind.singular,
        kind=kind.kind,
        namespaced=kind.namespaced,
        verbs=("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"),
        shape=kind.shape,
        bucket=f"{kind.group}/{kind.plural}",
        subresources={
            name: Subresource(name, verbs, ("autoscaling", "v1", "Scale") if name == "scale" else own)
            for name, verbs in subresources.items()
        },
        short_names=kind.short_names,
        categories=kind.categories,
        custom=kind,
        view=None if kind.version == kind.storage_version else _version_view(kind),
    )


def _version_view(kind: CustomKind) -> View:
    return View(
        show=lambda value: {**value, "apiVersion": f"{kind.group}/{kind.version}"},
        keep=lambda value: {**value, "apiVersion": f"{kind.group}/{kind.storage_version}"},
    )


def _built_in() -> Iterator[Resource]:
    for group in kubernetes.published().groups:
        for version in group["versions"]:
            for raw in version["resources"]:
                group_version = (group["name"], version["version"])
                if group_version not in _LEFT_OUT and (group["name"], raw["resource"]) not in _LEFT_OUT:
                    yield _resource(*group_version, raw)


def _resource(group: str, version: str, raw: Mapping[str, Any]) -> Resource:
    name = kubernetes.schema_names()[group, version, raw["kind"]]
    shared = (group, raw["resource"]) == ("events.k8s.io", "events")
    return Resource(
        group=group,
        version=version,
        plural=raw["resource"],
        singular=raw["singular"],
        kind=raw["kind"],
        namespaced=raw["namespaced"],
        verbs=tuple(raw["verbs"]),
        shape=shapes.named(name),
        bucket="/events" if shared else f"{group}/{raw['resource']}",
        subresources={
            sub["name"]: Subresource(sub["name"], tuple(sub["verbs"]), _kind_of(sub["kind"], group, version))
            for sub in raw["subresources"]
            if sub["name"] not in _SUBRESOURCES_LEFT_OUT
        },
        short_names=tuple(raw.get("shortNames", ())),
        categories=tuple(raw.get("categories", ())),
        view=View(events.show, events.keep, events.field) if shared else None,
    )


def _kind_of(given: Any, group: str, version: str) -> tuple[str, str, str]:
    if isinstance(given, str):
        return (group, version, given)
    return (given["group"], given["version"], given["kind"])
