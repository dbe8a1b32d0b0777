"""Every field of the CRDs, status included, is used by a valid manifest in tests/manifests or examples.

So a field that is lost, renamed or of the wrong type fails a test, and so does a field that no manifest uses.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from crd_tool import objects, schemas
from crd_tool.schemas import Schema
from holdfast.api import kinds
from holdfast.api.meta import Object, to_wire

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "tests/manifests").glob("*.yaml")])
MANIFESTS: dict[str, dict[str, Any]] = {
    f"{file.stem}-{obj['kind']}-{obj['metadata']['name']}": obj
    for file in FILES
    for obj in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    if obj is not None and obj["kind"] in objects.API_VERSIONS
}


@pytest.mark.parametrize("kind", schemas.kinds())
def test_manifests_use_every_field_of_the_crd_and_no_unknown_field(kind: str) -> None:
    fields = {path for path, _ in schemas.nodes(schemas.of(kind)) if path}
    used = {path for obj in objects_of(kind) for path in paths(obj, schemas.of(kind)) if path}
    assert sorted(fields - used) == [], "fields that no manifest uses"
    assert sorted(used - fields) == [], "paths that the CRD does not have"


@pytest.mark.fact("C-1", "aws-1.3.4", "aws-1.3.6", "Q-3")
@pytest.mark.parametrize("obj", MANIFESTS.values(), ids=MANIFESTS)
def test_every_manifest_is_accepted(obj: dict[str, Any]) -> None:
    assert objects.lines(obj) == []


@pytest.mark.parametrize("obj", MANIFESTS.values(), ids=MANIFESTS)
def test_encoding_a_decoded_manifest_gives_a_valid_and_equal_object(obj: dict[str, Any]) -> None:
    decoded = decode(obj)
    assert objects.lines(encode(decoded)) == []
    assert decode(encode(decoded)) == decoded


@pytest.mark.parametrize("obj", MANIFESTS.values(), ids=MANIFESTS)
def test_decoding_and_encoding_preserves_the_spec(obj: dict[str, Any]) -> None:
    before, after = schemas.defaulted(obj), schemas.defaulted(encode(decode(obj)))
    assert without_empty(after["spec"]) == without_empty(before["spec"])


def decode(obj: dict[str, Any]) -> Object:
    return kinds.from_plain(obj, kinds.BY_NAME[obj["apiVersion"], obj["kind"]])


def encode(obj: Object) -> dict[str, Any]:
    """Encodes the object to JSON and returns the JSON as plain values."""
    body = msgspec.json.decode(msgspec.json.encode(to_wire(obj)))
    assert isinstance(body, dict)
    return body


def objects_of(kind: str) -> list[dict[str, Any]]:
    return [obj for obj in MANIFESTS.values() if obj["kind"] == kind]


def paths(value: Any, schema: Schema, path: str = "") -> Iterator[str]:
    """The schema paths that a value uses, including paths that the schema does not have."""
    yield path
    if isinstance(value, list):
        for item in value:
            yield from paths(item, schema.get("items", {}), f"{path}[]")
    if not isinstance(value, dict) or not schema.keys() & {"properties", "additionalProperties"}:
        return
    for name, child in value.items():
        if "additionalProperties" in schema:
            yield from paths(child, schema["additionalProperties"], f"{path}{{}}")
        else:
            step = f"{path}.{name}" if path else name
            yield from paths(child, schema.get("properties", {}).get(name, {}), step)


def without_empty(value: Any) -> Any:
    """Drops empty lists and maps: Go and our encoder treat them as unset."""
    if isinstance(value, dict):
        cleaned = {key: without_empty(child) for key, child in value.items()}
        return {key: child for key, child in cleaned.items() if child not in ({}, [])}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value
