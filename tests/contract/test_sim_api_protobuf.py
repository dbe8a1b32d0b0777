"""Protobuf bodies that Go's own libraries wrote (k8s.io/api 0.36.3), read by the embedded API server.

protobuf_bodies.json has, for each, the object as JSON and the bytes that Go made of it.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.sim.api.serving import protobuf

BODIES = json.loads(Path(__file__).with_name("protobuf_bodies.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", BODIES, ids=[case["object"]["kind"] for case in BODIES])
def test_what_go_wrote_is_read_back(case: dict[str, Any]) -> None:
    read = protobuf.decode(base64.b64decode(case["body"]))
    assert_same(case["object"], read, "")


def assert_same(said: Any, read: Any, path: str) -> None:
    """Everything that was said is there; what is there beside it is a zero that Go always writes."""
    if isinstance(said, dict):
        for name, child in said.items():
            assert name in read or child == "", f"{path}.{name}"
            assert_same(child, read.get(name, ""), f"{path}.{name}")
        assert not [name for name in read.keys() - said.keys() if not is_zero(read[name])], path
    elif isinstance(said, list):
        assert len(said) == len(read), path
        for index, item in enumerate(said):
            assert_same(item, read[index], f"{path}[{index}]")
    else:
        assert read == said, path
        assert type(read) is type(said), path


def is_zero(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_zero(child) for child in value.values())
    return value in (0, False, "", None, [])


@pytest.mark.parametrize("length", range(0, 400, 7))
def test_a_body_that_breaks_off_is_refused(length: int) -> None:
    whole = base64.b64decode(BODIES[0]["body"])
    with pytest.raises((protobuf.Malformed, protobuf.UnknownKind)):
        protobuf.decode(whole[:length])
