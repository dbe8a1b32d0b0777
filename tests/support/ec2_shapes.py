"""Checks parameters and answers against botocore's own model of EC2, strictly: unknown members fail."""

import functools
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import botocore.session
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "double": (float, int),
    "float": (float, int),
    "boolean": (bool,),
    "timestamp": (datetime,),
    "blob": (bytes,),
}


@functools.cache
def model() -> ServiceModel:
    return botocore.session.get_session().get_service_model("ec2")


def check_params(operation: str, params: Mapping[str, Any]) -> None:
    report = ParamValidator().validate(params, model().operation_model(operation).input_shape)
    assert not report.has_errors(), report.generate_report()


def check_answer(operation: str, answer: Mapping[str, Any]) -> None:
    shape = model().operation_model(operation).output_shape
    if shape is None:
        assert answer == {}
    else:
        check(shape, answer, operation)


def check(shape: Any, value: Any, path: str) -> None:
    if shape.type_name == "structure":
        assert isinstance(value, dict), path
        for name, member in value.items():
            assert name in shape.members, f"{path}.{name} is not a member"
            check(shape.members[name], member, f"{path}.{name}")
    elif shape.type_name == "list":
        assert isinstance(value, list), path
        for member in value:
            check(shape.member, member, f"{path}[]")
    else:
        assert isinstance(value, SCALARS[shape.type_name]), f"{path} is {value!r}, not {shape.type_name}"
        allowed = getattr(shape, "enum", None)
        assert not allowed or shape.name == "InstanceType" or value in allowed, f"{path} is {value!r}"
