"""Writes src/holdfast/sim/api/schema/kubernetes.json.gz: the built-in kinds of the embedded API server.

The sources are published with the code of Kubernetes: the discovery document, the OpenAPI v3 documents and the .proto
files of one release, in a Go module cache:

    go mod download k8s.io/kubernetes@v1.36.3 k8s.io/api@v0.36.3
    go mod download k8s.io/apimachinery@v0.36.3 k8s.io/apiextensions-apiserver@v0.36.3
    python scripts/generate_kubernetes.py "$(go env GOMODCACHE)"

It is not part of `make check`, which works without a network and without Go. The file has only stable versions, and no
descriptions.
"""

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

RELEASE: Final = "1.36.3"
ROOT: Final = Path(__file__).resolve().parents[1]
TARGET: Final = ROOT / "src/holdfast/sim/api/schema/kubernetes.json.gz"

_STABLE: Final = re.compile(r"v\d+")
_REF: Final = "#/components/schemas/"
_NOT_SERVED: Final = frozenset({"apiregistration.k8s.io"})
_KEPT: Final = (
    "type",
    "format",
    "default",
    "enum",
    "required",
    "x-kubernetes-group-version-kind",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-preserve-unknown-fields",
)
_PACKAGE: Final = re.compile(r"^package ([\w.]+);", re.MULTILINE)
_MESSAGE: Final = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(
    r"^  (optional|repeated|map<string, ([\w.]+)>) ?([\w.]*) (\w+) = (\d+);", re.MULTILINE
)
_SCALARS: Final = frozenset(
    {"string", "bool", "int32", "int64", "uint32", "uint64", "double", "float", "bytes"}
)

Json = dict[str, Any]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("modules", type=Path, help="a Go module cache")
    modules = parser.parse_args(argv).modules / "k8s.io"
    published = modules / f"kubernetes@v{RELEASE}/api"
    discovery = json.loads((published / "discovery/aggregated_v2.json").read_text(encoding="utf-8"))
    core = json.loads((published / "discovery/api__v1.json").read_text(encoding="utf-8"))
    groups = [_core_group(core), *_stable_groups(discovery["items"])]
    schemas = _schemas(published / "openapi-spec/v3")
    messages = _messages(modules, schemas)
    content = {"release": RELEASE, "groups": groups, "schemas": schemas, "messages": messages}
    raw = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    TARGET.write_bytes(gzip.compress(raw, compresslevel=9, mtime=0))
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size} bytes, {len(raw)} unpacked")
    return 0


def _stable_groups(items: list[Json]) -> Iterator[Json]:
    for item in items:
        name = item["metadata"].get("name", "")
        versions = [version for version in item["versions"] if _STABLE.fullmatch(version["version"])]
        if name and name not in _NOT_SERVED and versions:
            yield {"name": name, "versions": [_version(version) for version in versions]}


def _version(version: Json) -> Json:
    return {"version": version["version"], "resources": [_resource(r) for r in version["resources"]]}


def _resource(resource: Json) -> Json:
    kept = {
        "resource": resource["resource"],
        "singular": resource["singularResource"],
        "kind": resource["responseKind"]["kind"],
        "namespaced": resource["scope"] == "Namespaced",
        "verbs": resource["verbs"],
        "subresources": [
            {
                "name": sub["subresource"],
                "verbs": sub["verbs"],
                "kind": sub["responseKind"] if sub["responseKind"]["group"] else sub["responseKind"]["kind"],
            }
            for sub in resource.get("subresources", ())
        ],
    }
    return kept | {key: resource[key] for key in ("shortNames", "categories") if key in resource}


def _core_group(listing: Json) -> Json:
    """The core group, which only the legacy discovery document has."""
    resources: dict[str, Json] = {}
    for entry in listing["resources"]:
        plural, _, sub = entry["name"].partition("/")
        if not sub:
            resources[plural] = {
                "resource": plural,
                "singular": entry["singularName"],
                "kind": entry["kind"],
                "namespaced": entry["namespaced"],
                "verbs": entry["verbs"],
                "subresources": [],
            } | {key: entry[key] for key in ("shortNames", "categories") if key in entry}
    for entry in listing["resources"]:
        plural, _, sub = entry["name"].partition("/")
        if sub and plural in resources:
            given = {key: entry.get(key, "") for key in ("group", "version", "kind")}
            kind = given if given["group"] else entry["kind"]
            resources[plural]["subresources"].append({"name": sub, "verbs": entry["verbs"], "kind": kind})
    return {"name": "", "versions": [{"version": "v1", "resources": list(resources.values())}]}


def _schemas(folder: Path) -> dict[str, Json]:
    schemas: dict[str, Json] = {}
    for path in sorted(folder.glob("api*__v*_openapi.json")):
        version = path.stem.removesuffix("_openapi").rpartition("__")[2]
        if _STABLE.fullmatch(version):
            document = json.loads(path.read_text(encoding="utf-8"))
            schemas |= {name: _schema(s) for name, s in document["components"]["schemas"].items()}
    return schemas


def _schema(schema: Json) -> Json:
    kept: Json = {key: schema[key] for key in _KEPT if key in schema}
    refs = [part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part]
    if "$ref" in schema or refs:
        kept["ref"] = (schema.get("$ref") or refs[0]).removeprefix(_REF)
    if "oneOf" in schema:
        kept["oneOf"] = [part["type"] for part in schema["oneOf"]]
    if "properties" in schema:
        kept["properties"] = {name: _schema(child) for name, child in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            kept[name] = _schema(schema[name])
    return kept


def _messages(modules: Path, schemas: dict[str, Json]) -> dict[str, dict[str, list[str]]]:
    """By message and field number: the name in JSON (empty: its fields are inlined into the parent) and the type.

    The type of a repeated field starts with `[]`, that of a map of strings with `{}`.
    """
    texts = [
        path.read_text(encoding="utf-8")
        for module in ("api", "apimachinery", "apiextensions-apiserver")
        for path in sorted((modules / f"{module}@v{RELEASE.replace('1.', '0.', 1)}").rglob("generated.proto"))
    ]
    found: dict[str, dict[str, list[str]]] = {}
    for text in texts:
        package = "".join(_PACKAGE.findall(text))
        for name, body in _MESSAGE.findall(text):
            full = _model_name(f"{package}.{name}")
            if _STABLE.fullmatch(full.split(".")[-2]) or "apimachinery" in full:
                known = schemas.get(full, {}).get("properties", {})
                found[full] = dict(_fields(body, package, known))
    return found


def _fields(body: str, package: str, known: Json) -> Iterator[tuple[str, list[str]]]:
    by_plain_name = {_plain(name): name for name in known}
    for label, map_of, type_, name, number in _FIELD.findall(body):
        mark = {"optional": "", "repeated": "[]"}.get(label, "{}")
        type_name = _type_name(map_of or type_, package)
        json_name = by_plain_name.get(_plain(name), name)
        inline = known and json_name not in known and type_name not in _SCALARS and not mark
        yield number, ["" if inline else json_name, mark + type_name]


def _type_name(name: str, package: str) -> str:
    if name in _SCALARS:
        return name
    return _model_name(name[1:] if name.startswith(".") else f"{package}.{name}")


def _model_name(proto_name: str) -> str:
    return proto_name.replace("k8s.io.", "io.k8s.", 1).replace("_", "-")


def _plain(name: str) -> str:
    return re.sub(r"\W", "", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
