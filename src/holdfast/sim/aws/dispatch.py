"""Handles a request on the wire.

The scope of the signature names the service, so one address serves all of them.
"""

import dataclasses
import email.utils
from collections.abc import Mapping
from typing import Any, Final

from holdfast.sim.aws import wire
from holdfast.sim.aws.codec import protocols
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import ApiError, HalfResponse
from holdfast.sim.aws.wire import Request, Response

_NOT_SIGNED: Final = ApiError("MissingAuthenticationToken", "Request is missing Authentication Token", 403)


def answer(endpoint: Endpoint, request: Request) -> Response:
    """The response to any request, with the time of the simulated AWS. Raises LostResponse or Unreached for an injected
    fault, and NotYet if the endpoint lets the caller wait."""
    response = _answer(endpoint, request)
    date = email.utils.formatdate(endpoint.clock.now_s(), usegmt=True)
    return dataclasses.replace(response, headers={**response.headers, "Date": date})


def _answer(endpoint: Endpoint, request: Request) -> Response:
    request_id = endpoint.request_id()
    scope = wire.scope(request)
    if scope is None:
        return protocols.codec("ec2").error(_NOT_SIGNED, request_id)
    try:
        codec = protocols.codec(scope.service)
    except KeyError:
        unknown = ApiError("InvalidAction", f"There is no service {scope.service}.")
        return protocols.codec("ec2").error(unknown, request_id)
    caller = endpoint.caller(scope.access_key, request.headers.get("user-agent", ""), scope.region)
    operation = codec.operation(request)
    params: Mapping[str, Any] = {}
    try:
        model = codec.operation_model(operation)
        params = codec.params(model, request)
    except ApiError as error:
        endpoint.record(scope.service, operation, params, caller, error.code)
        return codec.error(error, request_id)
    try:
        result = endpoint.call(scope.service, operation, params, caller)
    except ApiError as error:
        return codec.error(error, request_id)
    except HalfResponse as half:
        return codec.half_answer(model, half.result, request_id)
    return codec.answer(model, result, request_id)
