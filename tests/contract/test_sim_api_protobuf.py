"""The embedded API server decodes protobuf bodies that Go's own libraries encoded (k8s.io/api 0.36.3).

protobuf_bodies.json has each object as JSON and as the bytes that Go encoded.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.sim.api.serving import protobuf

BODIES = json.loads(Path(__file__).with_name("protobuf_bodies.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", BODIES, ids=[case["object"]["kind"] for case in BODIES])
def test_body_that_go_encoded_decodes_to_the_same_object(case: dict[str, Any]) -> None:
    read = protobuf.decode(base64.b64decode(case["body"]))
    assert_same(case["object"], read, "")


def assert_same(expected: Any, read: Any, path: str) -> None:
    """Every expected field is there; any other field is a zero value, which Go always writes."""
    if isinstance(expected, dict):
        for name, child in expected.items():
            assert name in read or child == "", f"{path}.{name}"
            assert_same(child, read.get(name, ""), f"{path}.{name}")
        assert not [name for name in read.keys() - expected.keys() if not is_zero(read[name])], path
    elif isinstance(expected, list):
        assert len(expected) == len(read), path
        for index, item in enumerate(expected):
            assert_same(item, read[index], f"{path}[{index}]")
    else:
        assert read == expected, path
        assert type(read) is type(expected), path


def is_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_zero(child) for child in value.values())
    return value in (0, False, "", None, [])


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_truncated_body_is_refused(length: int) -> None:
    whole = base64.b64decode(BODIES[0]["body"])
    with pytest.raises((protobuf.Malformed, protobuf.UnknownKind)):
        protobuf.decode(whole[:length])
