"""Discovery of the served resources: the legacy form (a document per group version) and the aggregated one.

Called by `server`. Accept selects the aggregated form, which has an ETag, so that kubectl's cache works.
"""

import hashlib
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from holdfast.sim.api.schema import status
from holdfast.sim.api.schema.resources import Resource, Resources
from holdfast.sim.api.schema.status import UnknownPathError
from holdfast.sim.api.serving import answers
from holdfast.sim.api.serving.front import Request, Response
from holdfast.sim.api.storage.store import encode

Json = dict[str, Any]

_AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def answer(request: Request, parts: list[str], resources: Resources) -> Response:
    """/api, /apis, /api/v1, /apis/group and /apis/group/version."""
    if request.method != "GET":
        raise status.not_allowed()
    match parts:
        case ["api"] | ["apis"] if _wants_aggregated(request):
            return _aggregated(request, resources, core=parts == ["api"])
        case ["api"]:
            return _plain(_versions())
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _groups(resources) if name]
            return _plain({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        case ["api", version]:
            return _plain(_resource_list(resources, "", version))
        case ["apis", group]:
            found = dict(_groups(resources)).get(group) if group else None
            if found is None:
                raise UnknownPathError
            return _plain({"kind": "APIGroup", "apiVersion": "v1", **_group(group, found)})
        case [_, group, version]:
            return _plain(_resource_list(resources, group, version))
    raise UnknownPathError


def _plain(value: Json) -> Response:
    answer = answers.plain(value)
    return Response(answer.status, {**answer.headers, "vary": "Accept"}, answer.body)


def _wants_aggregated(request: Request) -> bool:
    for choice in request.headers.get("accept", "").split(","):
        parts = {part.strip() for part in choice.split(";")}
        if {"application/json", "g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"} <= parts:
            return True
    return False


def _aggregated(request: Request, resources: Resources, *, core: bool) -> Response:
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "resources": [_api_resource(r) for r in _of(resources, name, version)],
                    "freshness": "Current",
                }
                for version in versions
            ],
        }
        for name, versions in _groups(resources)
        if (not name) == core
    ]
    body = encode(
        {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }
    )
    tag = f'"{hashlib.sha256(body).hexdigest()[:64].upper()}"'
    headers = {"content-type": _AGGREGATED, "etag": tag, "vary": "Accept", "cache-control": "public"}
    if request.headers.get("if-none-match", "") == tag:
        return Response(304, headers, b"")
    return Response(200, headers, body)


def _api_resource(resource: Resource) -> Json:
    value: Json = {
        "resource": resource.plural,
        "responseKind": {"group": resource.group, "version": resource.version, "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        value["shortNames"] = list(resource.short_names)
    if resource.categories:
        value["categories"] = list(resource.categories)
    if resource.subresources:
        value["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": dict(zip(("group", "version", "kind"), sub.kind, strict=True)),
                "verbs": sorted(sub.verbs),
            }
            for sub in resource.subresources.values()
        ]
    return value


def _resource_list(resources: Resources, group: str, version: str) -> Json:
    if not resources.has_group_version(group, version):
        raise UnknownPathError
    entries = [entry for resource in _of(resources, group, version) for entry in _entries(resource)]
    full = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": full, "resources": entries}


def _entries(resource: Resource) -> Iterator[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    yield entry
    for sub in resource.subresources.values():
        group, version, kind = sub.kind
        below: Json = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if (group, version) != (resource.group, resource.version):
            below |= {"group": group, "version": version}
        yield {**below, "kind": kind, "verbs": sorted(sub.verbs)}


def _versions() -> Json:
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    }


def _group(name: str, versions: list[str]) -> Json:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _groups(resources: Resources) -> Iterator[tuple[str, list[str]]]:
    """Groups with their versions, in the order of the resources."""
    order: dict[str, list[str]] = {}
    for (group, version), _ in groupby(resources.all(), key=lambda r: (r.group, r.version)):
        versions = order.setdefault(group, [])
        if version not in versions:
            versions.append(version)
    yield from order.items()


def _of(resources: Resources, group: str, version: str) -> list[Resource]:
    return [r for r in resources.all() if (r.group, r.version) == (group, version)]
