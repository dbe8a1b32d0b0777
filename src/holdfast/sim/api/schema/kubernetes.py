"""What Kubernetes publishes about its built-in kinds: resources, schemas, protobuf messages.

The file is written by scripts/generate_kubernetes.py and read once, when the first of them asks.
"""

import gzip
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

FILE: Final = Path(__file__).with_name("kubernetes.json.gz")
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Published(msgspec.Struct, frozen=True):
    """One release. Schemas are OpenAPI with `ref` for a name among them; see the script for messages."""

    release: str
    groups: list[dict[str, Any]]
    schemas: dict[str, dict[str, Any]]
    messages: dict[str, dict[str, tuple[str, str]]]


@cache
def published() -> Published:
    return msgspec.json.decode(gzip.decompress(FILE.read_bytes()), type=Published)


@cache
def schema_names() -> dict[tuple[str, str, str], str]:
    """By group, version and kind: the name of the schema."""
    return {
        (known["group"], known["version"], known["kind"]): name
        for name, schema in published().schemas.items()
        for known in schema.get("x-kubernetes-group-version-kind", ())
    }
