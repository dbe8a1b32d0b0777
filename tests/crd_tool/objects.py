"""Valid objects of the three kinds, plain or with a change, and the findings of the validator.

The bases are those of tests/crds: small, and complete enough to be accepted.
"""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from holdfast.api import validation
from holdfast.api.findings import Finding, text_of

FOLDER = Path(__file__).resolve().parents[1] / "crds"
API_VERSIONS = {
    "NodePool": "karpenter.sh/v1",
    "NodeClaim": "karpenter.sh/v1",
    "EC2NodeClass": "karpenter.k8s.aws/v1",
}


@cache
def files() -> dict[str, dict[str, Any]]:
    """The files of tests/crds, by kind."""
    loaded = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.yaml"))]
    return {file["kind"]: file for file in loaded}


def build(kind: str, patch: dict[str, Any] | None = None) -> dict[str, Any]:
    """A valid object of that kind, changed by a JSON merge patch."""
    merged = merge(copy.deepcopy(files()[kind]["base"]), copy.deepcopy(patch or {}))
    assert isinstance(merged, dict)
    return merged


def spec(kind: str, **fields: Any) -> dict[str, Any]:
    """A valid object of that kind with these fields of its spec changed."""
    return build(kind, {"spec": fields})


def validator(kind: str) -> validation.Validator:
    return validation.validators()[API_VERSIONS[kind], kind]


def findings(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[Finding]:
    return validator(obj["kind"]).findings(obj, old)


def lines(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """The findings as text lines."""
    return [f"{text_of(f.path)}: {f.message}" for f in findings(obj, old)]


def is_valid(obj: dict[str, Any]) -> bool:
    return not findings(obj)


def refused_at(obj: dict[str, Any]) -> list[str]:
    """The paths of the findings."""
    return sorted({text_of(f.path) for f in findings(obj)})


def merge(target: Any, patch: Any) -> Any:
    """JSON merge patch, RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result
