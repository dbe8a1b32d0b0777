"""The common part of the codecs of all protocols. A codec is the server side of one service's wire protocol.

`protocols` creates them. In a request, an unknown member gets the service's error code for it; in a result, it raises.
A response has a request id where SDKs expect it.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import botocore.model
from botocore.model import OperationModel, ServiceModel, Shape

from holdfast.sim.aws.codec import checks, shapes
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.wire import Request, Response

T = TypeVar("T")

_CLIENT_ERRORS: Final = range(400, 500)
_NOTHING: Final = botocore.model.StructureShape("Nothing", {"type": "structure", "members": {}})


class PerOperation(dict[str, T], Generic[T]):
    """Functions compiled for each operation at its first call: EC2 has seven hundred operations."""

    def __init__(self, model: ServiceModel, compiled: Callable[[OperationModel], T]) -> None:
        super().__init__()
        self._model = model
        self._compiled = compiled

    def __missing__(self, name: str) -> T:
        self[name] = compiled = self._compiled(self._model.operation_model(name))
        return compiled


def input_shape(operation: OperationModel) -> Shape:
    """The shape of the parameters; an empty structure if the model has none."""
    return operation.input_shape or _NOTHING


def output_shape(operation: OperationModel) -> Shape:
    """The shape of the result."""
    return operation.output_shape or _NOTHING


class Codec(abc.ABC):
    """The server side of one service's wire protocol."""

    unknown_action = "InvalidAction"
    unknown_action_status = 400
    codes: checks.Codes

    def __init__(self, model: ServiceModel) -> None:
        self.model = model
        self._checks = PerOperation(
            model, lambda operation: checks.checker(input_shape(operation), self.codes)
        )
        self._copies = PerOperation(model, lambda operation: shapes.strict_copy(output_shape(operation)))

    @abc.abstractmethod
    def operation(self, request: Request) -> str:
        """The operation that the request names; it may not exist."""

    @abc.abstractmethod
    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        """The parameters of the request in botocore's shapes; ApiError if the model does not allow them."""

    @abc.abstractmethod
    def answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        """A result of `strict_result` as a response."""

    @abc.abstractmethod
    def error(self, error: ApiError, request_id: str) -> Response: ...

    def half_answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        return dataclasses.replace(self.answer(operation, result, request_id), cut=True)

    def operation_model(self, name: str) -> OperationModel:
        try:
            return self.model.operation_model(name)
        except botocore.model.OperationNotFoundError:
            raise self.no_such_action(name) from None

    def no_such_action(self, name: str) -> ApiError:
        message = f"The action {name} is not valid for this web service."
        return ApiError(self.unknown_action, message, self.unknown_action_status)

    def strict_result(self, operation: OperationModel, result: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the result; WrongShape if AWS could not return it."""
        try:
            return dict(self._copies[operation.name](result))
        except shapes.WrongShape as wrong:
            raise wrong.inside(operation.name) from None

    def check_params(self, operation: OperationModel, params: Mapping[str, Any]) -> None:
        """Raises ApiError if a required parameter is missing, or a value is not in the model."""
        self._checks[operation.name](params, "")

    def status(self, error: ApiError) -> int:
        """The HTTP status of an error: the model's for this code, if it has one."""
        return int(self._modeled_errors.get(error.code, {}).get("httpStatusCode", error.status))

    @functools.cached_property
    def _modeled_errors(self) -> dict[str, dict[str, Any]]:
        """The errors of the model, by the name of the shape and by the code in responses."""
        found: dict[str, dict[str, Any]] = {}
        for shape in self.model.error_shapes:
            about = shape.metadata.get("error", {})
            found[shape.name] = found[about.get("code", shape.name)] = about
        return found


def fault(status: int) -> str:
    return "Sender" if status in _CLIENT_ERRORS else "Receiver"
