"""The JSON schema of the kinds that exist only in files, and the validation against it.

The schema is generated from the wire types, so an editor and the commands report the same. `schema_text` is
docs/scenario.schema.json.
"""

import json
from functools import cache
from typing import Any, Final

from holdfast.api import validation
from holdfast.api.findings import Finding
from holdfast.api.meta import Object
from holdfast.api.scenario import Catalog
from holdfast.api.schema import structural
from holdfast.api.simulation import Simulation
from holdfast.api.world import World

KINDS: Final[tuple[type[Object], ...]] = (Catalog, Simulation, World)


def findings(value: dict[str, Any], kind: type[Object]) -> list[Finding]:
    """Mistakes in a document of this kind, by its schema."""
    return [_in_words(finding) for finding in _validator(kind).findings(value)]


def schema_text() -> str:
    """The text of docs/scenario.schema.json, for editors."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Scenario"}
    return json.dumps(head | {"oneOf": [_of(kind) for kind in KINDS]}, indent=2, sort_keys=True) + "\n"


def _of(kind: type[Object]) -> dict[str, Any]:
    schema = _for_editors(_root(kind))
    schema["properties"] |= {
        "apiVersion": {"type": "string", "enum": [kind.api_version]},
        "kind": {"type": "string", "enum": [kind.kind]},
    }
    return {"title": kind.kind} | schema | {"required": ["apiVersion", "kind", "metadata"]}


@cache
def _validator(kind: type[Object]) -> validation.Validator:
    return validation.Validator(
        {"spec": {"scope": "Cluster", "versions": [{"schema": {"openAPIV3Schema": _root(kind)}}]}}
    )


def _root(kind: type[Object]) -> dict[str, Any]:
    schema = structural(kind)
    base = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return {**schema, "properties": {**schema["properties"], **base}}


def _for_editors(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without extensions of Kubernetes, and with unknown fields rejected."""
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties":
            plain[key] = {name: _for_editors(child) for name, child in value.items()}
            plain["additionalProperties"] = False
        elif key in ("items", "additionalProperties"):
            plain[key] = _for_editors(value)
        elif not key.startswith("x-kubernetes-"):
            plain[key] = value
    return plain


def _in_words(finding: Finding) -> Finding:
    """Replaces the finding for a label: the validator's text is about a string or a number, labels may be lists."""
    match finding.path:
        case ("spec", "instanceTypes", int(), "labels", str()):
            return Finding(finding.path, "must be text or a list of texts; write numbers and true in quotes")
    return finding
