"""Services of the query protocols: EC2, IAM and STS. Requests are forms, responses are XML.

`protocols` creates the codecs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from botocore.model import OperationModel, ServiceModel

from holdfast.sim.aws.codec import checks, query, xml
from holdfast.sim.aws.codec.base import Codec, PerOperation, fault, input_shape, output_shape
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.wire import Request, Response

_ACTION: Final = re.compile(rb"(?:^|&)Action=(?P<name>[^&]*)")


class QueryCodec(Codec):
    """IAM and STS."""

    dialect = query.Dialect()
    codes = checks.Codes("ValidationError")

    def __init__(self, model: ServiceModel) -> None:
        super().__init__(model)
        self._decoders = PerOperation(
            model, lambda operation: query.decoder(input_shape(operation), self.dialect)
        )
        self._writers = PerOperation(model, lambda operation: xml.writer(output_shape(operation)))

    def operation(self, request: Request) -> str:
        found = _ACTION.search(request.body or request.query.encode())
        return found["name"].decode(errors="replace") if found else ""

    def params(self, operation: OperationModel, request: Request) -> dict[str, Any]:
        tree = query.fields(request.body or request.query.encode())
        tree = {
            k: v for k, v in tree.items() if k not in {"Action", "Version"} and not k.startswith("X-Amz-")
        }
        return dict(self._decoders[operation.name](tree, ""))

    def answer(self, operation: OperationModel, result: Mapping[str, Any], request_id: str) -> Response:
        return _xml(200, self.body(operation, self.inside(operation, result), request_id), request_id)

    def body(self, operation: OperationModel, inside: str, request_id: str) -> str:
        wrapper = output_shape(operation).serialization.get("resultWrapper")
        wrapped = f"<{wrapper}>{inside}</{wrapper}>" if wrapper else inside
        return (
            f'<{operation.name}Response xmlns="{self.namespace}">{wrapped}'
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{operation.name}Response>"
        )

    def inside(self, operation: OperationModel, result: Mapping[str, Any]) -> str:
        parts: list[str] = []
        self._writers[operation.name](result, parts)
        return "".join(parts)

    @property
    def namespace(self) -> str:
        return str(self.model.metadata["xmlNamespace"]).rstrip("/") + "/"

    def error(self, error: ApiError, request_id: str) -> Response:
        status = self.status(error)
        body = (
            f'<ErrorResponse xmlns="{self.namespace}"><Error><Type>{fault(status)}</Type>{_code(error)}</Error>'
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return _xml(status, body, request_id)


class Ec2Codec(QueryCodec):
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


def _xml(status: int, body: str, request_id: str) -> Response:
    headers = {"content-type": "text/xml;charset=UTF-8", "x-amzn-requestid": request_id}
    return Response(status, f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'.encode(), headers)


def _code(error: ApiError) -> str:
    return f"<Code>{xml.text(error.code)}</Code><Message>{xml.text(error.message)}</Message>"
