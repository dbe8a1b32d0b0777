"""Services of the JSON protocols: SSM, SQS, Pricing and EKS.

`protocols` creates the codecs.
"""

import functools
import json
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

from botocore.model import OperationModel, ServiceModel, Shape

from holdfast.sim.aws.codec import checks, json_values, query
from holdfast.sim.aws.codec.base import Codec, PerOperation, fault, input_shape, output_shape
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.wire import Request, Response


class JsonCodec(Codec):
    """SSM, SQS and Pricing: the operation is in a header, the parameters are in the body."""

    unknown_action = "UnknownOperationException"
    codes = checks.Codes("ValidationException")

    def __init__(self, model: ServiceModel) -> None:
        super().__init__(model)
        self._decoders = PerOperation(model, lambda operation: json_values.decoder(input_shape(operation)))
        self._encoders = PerOperation(model, lambda operation: json_values.encoder(output_shape(operation)))

    @property
    def content_type(self) -> str:
        return f"application/x-amz-json-{self.model.metadata['jsonVersion']}"

    def operation(self, request: Request) -> str:
        return request.headers.get("x-amz-target", "").rpartition(".")[2]

    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        return dict(self._decoders[operation.name](_json(request.body), ""))

    def answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        return self._response(200, self._encoders[operation.name](result), request_id)

    def error(self, error: ApiError, request_id: str) -> Response:
        status = self.status(error)
        response = self._response(
            status, {"__type": self.error_type(error), "message": error.message}, request_id
        )
        if "awsQueryCompatible" not in self.model.metadata:
            return response
        # SQS still returns the codes of its query protocol to SDKs that used it.
        code = _SQS_CODES.get(error.code, error.code)
        return Response(
            status, response.body, {**response.headers, "x-amzn-query-error": f"{code};{fault(status)}"}
        )

    def error_type(self, error: ApiError) -> str:
        if "awsQueryCompatible" in self.model.metadata:
            return f"com.amazonaws.{self.model.service_name}#{error.code}"
        return error.code

    def _response(self, status: int, document: Any, request_id: str) -> Response:
        headers = {"content-type": self.content_type, "x-amzn-requestid": request_id}
        return Response(status, json.dumps(document).encode(), headers)


class RestJsonCodec(JsonCodec):
    """EKS: the operation is in the method and the path."""

    unknown_action_status = 404
    content_type = "application/json"

    def operation(self, request: Request) -> str:
        for name, method, path in self._routes:
            if method == request.method and path.fullmatch(request.path):
                return name
        return f"{request.method} {request.path}"

    @functools.cached_property
    def _routes(self) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
        return tuple(
            (name, operation.http["method"], _pattern(operation.http["requestUri"]))
            for name in self.model.operation_names
            for operation in (self.model.operation_model(name),)
        )

    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        in_body = super().params(operation, request)
        members = input_shape(operation).members
        misplaced = [name for name in in_body if "location" in members[name].serialization]
        if misplaced:
            raise ApiError("ValidationException", f"The parameter {misplaced[0]} does not belong in the body")
        return {**in_body, **self._in_path(operation, request), **self._in_query(operation, request)}

    def _in_path(self, operation: OperationModel, request: Request) -> dict[str, str]:
        found = _pattern(operation.http["requestUri"]).fullmatch(request.path)
        assert found, "the path chose the operation"
        return {
            name: unquote(found[wire_name]) for wire_name, (name, _) in _located(operation, "uri").items()
        }

    def _in_query(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        located = _located(operation, "querystring")
        params: dict[str, Any] = {}
        for key, text in parse_qsl(request.query, keep_blank_values=True):
            if key not in located:
                raise ApiError("ValidationException", f"The parameter {key} is not recognized")
            name, shape = located[key]
            if shape.type_name == "list":
                params.setdefault(name, []).append(text)
            else:
                params[name] = query.decoder(shape, query.Dialect())(text, key)
        return params

    def error(self, error: ApiError, request_id: str) -> Response:
        headers = {"x-amzn-errortype": error.code, **super().error(error, request_id).headers}
        return Response(self.status(error), json.dumps({"message": error.message}).encode(), headers)


def _located(operation: OperationModel, location: str) -> dict[str, tuple[str, Shape]]:
    """The parameters in one location (path, query, header), by their name there."""
    return {
        shape.serialization.get("name", name): (name, shape)
        for name, shape in input_shape(operation).members.items()
        if shape.serialization.get("location") == location
    }


def _json(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except ValueError:
        raise ApiError("SerializationException", "the body is not JSON") from None


def _pattern(request_uri: str) -> re.Pattern[str]:
    """`/clusters/{name}` as a pattern; `{name+}` may contain slashes."""
    parts = re.split(r"\{(\w+)(\+?)\}", request_uri.partition("?")[0])
    pattern = re.escape(parts[0])
    for name, greedy, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        pattern += f"(?P<{name}>{'.+' if greedy else '[^/]+'})" + re.escape(after)
    return re.compile(pattern)


# The codes of SQS before its JSON protocol; AWS still returns them, although botocore's model no longer has them.
_SQS_CODES: Final = {
    name: f"AWS.SimpleQueueService.{name}"
    for name in (
        "BatchEntryIdsNotDistinct",
        "BatchRequestTooLong",
        "EmptyBatchRequest",
        "InvalidBatchEntryId",
        "MessageNotInflight",
        "PurgeQueueInProgress",
        "QueueDeletedRecently",
        "TooManyEntriesInBatchRequest",
        "UnsupportedOperation",
    )
} | {"QueueDoesNotExist": "AWS.SimpleQueueService.NonExistentQueue", "QueueNameExists": "QueueAlreadyExists"}
