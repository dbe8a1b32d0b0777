"""What the codecs of all protocols have in common. A codec is one service's side of the wire.

Used through `protocols`. The rules: what the model does not know is refused (in a request, with the code that
the service has for it) or raises (in a result); an answer carries a request id where each SDK looks for it.
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
    """What is compiled of each operation, when it is first called: EC2 has seven hundred."""

    def __init__(self, model: ServiceModel, compiled: Callable[[OperationModel], T]) -> None:
        super().__init__()
        self._model = model
        self._compiled = compiled

    def __missing__(self, name: str) -> T:
        self[name] = compiled = self._compiled(self._model.operation_model(name))
        return compiled


def input_shape(operation: OperationModel) -> Shape:
    """The shape of the parameters; of none, where the model has none."""
    return operation.input_shape or _NOTHING


def output_shape(operation: OperationModel) -> Shape:
    """The shape of the result."""
    return operation.output_shape or _NOTHING


class Codec(abc.ABC):
    """One service's side of the wire."""

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
        """The name of the operation, as far as the request says one; it may be no operation of the service."""

    @abc.abstractmethod
    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        """What the request asks, in botocore's shapes; ApiError when the model cannot read it."""

    @abc.abstractmethod
    def answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        """A result of `strict_result`, on the wire."""

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
        """A copy of the result as a client may see it; WrongShape when AWS could not have answered it."""
        try:
            return dict(self._copies[operation.name](result))
        except shapes.WrongShape as wrong:
            raise wrong.inside(operation.name) from None

    def check_params(self, operation: OperationModel, params: Mapping[str, Any]) -> None:
        """ApiError when something is missing, or has a value that the model does not know."""
        self._checks[operation.name](params, "")

    def status(self, error: ApiError) -> int:
        """The status of the answer: that of the model where it has one for this code."""
        return int(self._modeled_errors.get(error.code, {}).get("httpStatusCode", error.status))

    @functools.cached_property
    def _modeled_errors(self) -> dict[str, dict[str, Any]]:
        """What the model says of its errors, by the name of the shape and by the code in answers."""
        found: dict[str, dict[str, Any]] = {}
        for shape in self.model.error_shapes:
            about = shape.metadata.get("error", {})
            found[shape.name] = found[about.get("code", shape.name)] = about
        return found


def fault(status: int) -> str:
    return "Sender" if status in _CLIENT_ERRORS else "Receiver"
