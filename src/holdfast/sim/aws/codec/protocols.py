"""The protocols of AWS: which operation a request is for, its parameters, and how results and errors are told.

Called by `dispatch` for every request that comes over a wire. A codec belongs to one service and is made from
its botocore model. The rules: what the model does not know is refused (in a request, with the code that the
service has for it) or raises (in a result); an answer carries a request id where each SDK looks for it.
"""

import abc
import dataclasses
import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import botocore.exceptions
import botocore.loaders
import botocore.model
from botocore.model import OperationModel, ServiceModel

from holdfast.sim.aws.codec import checks, json_values, query, shapes, xml
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.wire import Request, Response

UNKNOWN_ACTIONS: Final = ("InvalidAction", "UnknownOperationException")

_CLIENT_ERRORS: Final = range(400, 500)
_ACTION: Final = re.compile(rb"(?:^|&)Action=(?P<name>[^&]*)")


class Codec(abc.ABC):
    """One service's side of the wire."""

    unknown_action = "InvalidAction"
    unknown_action_status = 400
    codes: checks.Codes

    def __init__(self, model: ServiceModel) -> None:
        self.model = model
        self._checks: dict[str, checks.Check] = {}
        self._copies: dict[str, shapes.Convert] = {}

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
        """A copy of the result as a client may see it; WrongShape when AWS could not have said it."""
        copy = self._copies.get(operation.name)
        if copy is None:
            copy = self._copies[operation.name] = shapes.strict_copy(operation.output_shape or _NOTHING)
        try:
            return dict(copy(result))
        except shapes.WrongShape as wrong:
            raise wrong.inside(operation.name) from None

    def check_params(self, operation: OperationModel, params: Mapping[str, Any]) -> None:
        """ApiError when something is missing, or has a value that the model does not know."""
        check = self._checks.get(operation.name)
        if check is None:
            check = self._checks[operation.name] = checks.checker(
                operation.input_shape or _NOTHING, self.codes
            )
        check(params, "")

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


class _QueryCodec(Codec):
    """IAM and STS."""

    dialect = query.Dialect()
    codes = checks.Codes("ValidationError")

    def __init__(self, model: ServiceModel) -> None:
        super().__init__(model)
        self._decoders: dict[str, query.Decode] = {}
        self._writers: dict[str, xml.Write] = {}

    def operation(self, request: Request) -> str:
        found = _ACTION.search(request.body or request.query.encode())
        return found["name"].decode(errors="replace") if found else ""

    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        tree = query.fields(request.body or request.query.encode())
        tree = {
            k: v for k, v in tree.items() if k not in {"Action", "Version"} and not k.startswith("X-Amz-")
        }
        decode = self._decoders.get(operation.name)
        if decode is None:
            shape = operation.input_shape or _NOTHING
            decode = self._decoders[operation.name] = query.decoder(shape, self.dialect)
        return dict(decode(tree, ""))

    def answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        return _xml(200, self.body(operation, self.inside(operation, result), request_id), request_id)

    def body(self, operation: OperationModel, inside: str, request_id: str) -> str:
        wrapper = (operation.output_shape or _NOTHING).serialization.get("resultWrapper")
        wrapped = f"<{wrapper}>{inside}</{wrapper}>" if wrapper else inside
        return (
            f'<{operation.name}Response xmlns="{self.namespace}">{wrapped}'
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{operation.name}Response>"
        )

    def inside(self, operation: OperationModel, result: Mapping[str, Any]) -> str:
        write = self._writers.get(operation.name)
        if write is None:
            write = self._writers[operation.name] = xml.writer(operation.output_shape or _NOTHING)
        parts: list[str] = []
        write(result, parts)
        return "".join(parts)

    @property
    def namespace(self) -> str:
        return str(self.model.metadata["xmlNamespace"]).rstrip("/") + "/"

    def error(self, error: ApiError, request_id: str) -> Response:
        status = self.status(error)
        body = (
            f'<ErrorResponse xmlns="{self.namespace}"><Error><Type>{_fault(status)}</Type>{_code(error)}</Error>'
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return _xml(status, body, request_id)


class _Ec2Codec(_QueryCodec):
    dialect = query.Ec2Dialect()
    codes = checks.Codes("MissingParameter", "InvalidParameterValue")

    def body(self, operation: OperationModel, inside: str, request_id: str) -> str:
        if operation.output_shape is None:
            inside = "<return>true</return>"
        return (
            f'<{operation.name}Response xmlns="{self.namespace}"><requestId>{request_id}</requestId>'
            f"{inside}</{operation.name}Response>"
        )

    def error(self, error: ApiError, request_id: str) -> Response:
        body = f"<Response><Errors><Error>{_code(error)}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
        return _xml(self.status(error), body, request_id)


class _JsonCodec(Codec):
    """SSM, SQS and Pricing: the operation is in a header, all else in the body."""

    unknown_action = "UnknownOperationException"
    codes = checks.Codes("ValidationException")

    def __init__(self, model: ServiceModel) -> None:
        super().__init__(model)
        self._decoders: dict[str, json_values.Decode] = {}
        self._encoders: dict[str, shapes.Convert] = {}

    @property
    def content_type(self) -> str:
        return f"application/x-amz-json-{self.model.metadata['jsonVersion']}"

    def operation(self, request: Request) -> str:
        return request.headers.get("x-amz-target", "").rpartition(".")[2]

    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        shape = operation.input_shape or _NOTHING
        decode = self._decoders.get(operation.name)
        if decode is None:
            decode = self._decoders[operation.name] = json_values.decoder(shape)
        return dict(decode(_json(request.body), ""))

    def answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        encode = self._encoders.get(operation.name)
        if encode is None:
            shape = operation.output_shape or _NOTHING
            assert not any("location" in member.serialization for member in shape.members.values())
            encode = self._encoders[operation.name] = json_values.encoder(shape)
        return self._response(200, encode(result), request_id)

    def error(self, error: ApiError, request_id: str) -> Response:
        status = self.status(error)
        response = self._response(
            status, {"__type": self.error_type(error), "message": error.message}, request_id
        )
        if "awsQueryCompatible" not in self.model.metadata:
            return response
        # SDKs that knew SQS as a query service go on to see the codes of that time.
        code = _SQS_CODES.get(error.code, error.code)
        return Response(
            status, response.body, {**response.headers, "x-amzn-query-error": f"{code};{_fault(status)}"}
        )

    def error_type(self, error: ApiError) -> str:
        if "awsQueryCompatible" in self.model.metadata:
            return f"com.amazonaws.{self.model.service_name}#{error.code}"
        return error.code

    def _response(self, status: int, document: Any, request_id: str) -> Response:
        headers = {"content-type": self.content_type, "x-amzn-requestid": request_id}
        return Response(status, json.dumps(document).encode(), headers)


class _RestJsonCodec(_JsonCodec):
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
        shape = operation.input_shape or _NOTHING
        params = self._of_path(operation, request)
        body = _json(request.body)
        in_body = json_values.decoder(shape)(body, "")
        if any("location" in shape.members[name].serialization for name in in_body):
            raise ApiError("InvalidParameterException", "a parameter of the path is in the body")
        return {**params, **in_body}

    def _of_path(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        """The parameters that are in the path and in the query of the address."""
        found = _pattern(operation.http["requestUri"]).fullmatch(request.path)
        assert found, "the path chose the operation"
        in_path = {name: unquote(value) for name, value in found.groupdict().items()}
        in_query = parse_qsl(request.query, keep_blank_values=True)
        params: dict[str, Any] = {}
        for name, member in (operation.input_shape or _NOTHING).members.items():
            wire_name = member.serialization.get("name", name)
            values = [value for key, value in in_query if key == wire_name]
            match member.serialization.get("location"), member.type_name:
                case "uri", _:
                    params[name] = in_path[wire_name]
                case "querystring", "list" if values:
                    params[name] = values
                case "querystring", _ if values:
                    params[name] = query.decoder(member, query.Dialect())(values[0], wire_name)
        return params

    def error(self, error: ApiError, request_id: str) -> Response:
        headers = {"x-amzn-errortype": error.code, **super().error(error, request_id).headers}
        return Response(self.status(error), json.dumps({"message": error.message}).encode(), headers)


@functools.cache
def codec(service: str) -> Codec:
    """The codec of a service by its name in botocore, which is also its name in signatures; KeyError when botocore
    does not know it."""
    try:
        description = _loader().load_service_model(service, "service-2")
    except botocore.exceptions.UnknownServiceError:
        raise KeyError(service) from None
    model = ServiceModel(description, service_name=service)
    return _CODECS[model.metadata["protocol"]](model)


@functools.cache
def _loader() -> botocore.loaders.Loader:
    return botocore.loaders.create_loader()


def _xml(status: int, body: str, request_id: str) -> Response:
    headers = {"content-type": "text/xml;charset=UTF-8", "x-amzn-requestid": request_id}
    return Response(status, f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode(), headers)


def _code(error: ApiError) -> str:
    return f"<Code>{xml.text(error.code)}</Code><Message>{xml.text(error.message)}</Message>"


def _fault(status: int) -> str:
    return "Sender" if status in _CLIENT_ERRORS else "Receiver"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body or b"{}")
    except ValueError:
        raise ApiError("SerializationException", "the body is not JSON") from None


def _pattern(request_uri: str) -> re.Pattern[str]:
    """`/clusters/{name}` as a pattern; `{name+}` may hold slashes."""
    parts = re.split(r"\{(\w+)(\+?)\}", request_uri.partition("?")[0])
    pattern = re.escape(parts[0])
    for name, greedy, after in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        pattern += f"(?P<{name}>{'.+' if greedy else '[^/]+'})" + re.escape(after)
    return re.compile(pattern)


# The codes of SQS before it spoke JSON; botocore's model has them no more, AWS still sends them.
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
_NOTHING: Final = botocore.model.StructureShape("Nothing", {"type": "structure", "members": {}})
_CODECS: Final[Mapping[str, Callable[[ServiceModel], Codec]]] = {
    "ec2": _Ec2Codec,
    "query": _QueryCodec,
    "json": _JsonCodec,
    "rest-json": _RestJsonCodec,
}
