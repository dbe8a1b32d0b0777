"""The published data of Kubernetes' built-in kinds: resources, schemas, protobuf messages.

scripts/generate_kubernetes.py writes the file. It is read once, at the first use.
"""

import gzip
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = Path(__file__).with_name("kubernetes.json.gz")
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Published(msgspec.Struct, frozen=True):
    """One release. Schemas are OpenAPI with `ref` for the name of another schema; the script describes messages."""

    release: str
    groups: list[dict[str, Any]]
    schemas: dict[str, dict[str, Any]]
    messages: dict[str, dict[str, tuple[str, str]]]


@cache
def published() -> Published:
    return msgspec.json.decode(gzip.decompress(FILE.read_bytes()), type=Published)


@cache
def schema_names() -> dict[tuple[str, str, str], str]:
    """The names of the schemas by group, version and kind."""
    return {
        (known["group"], known["version"], known["kind"]): name
        for name, schema in published().schemas.items()
        for known in schema.get("x-kubernetes-group-version-kind", ())
    }
