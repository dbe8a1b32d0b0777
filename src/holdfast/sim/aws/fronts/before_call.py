"""The fastest front: botocore's `before-call` hook, without a wire protocol.

Simulations install it into a session or a client. botocore still checks parameters and applies its customizations, but
does not sign, send or parse. Callers get the same results and errors as with the wire protocol.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.hooks import BaseEventHooks
from botocore.model import OperationModel
from botocore.parsers import create_parser

from holdfast.sim.aws.codec import protocols, shapes
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import ApiError, HalfResponse, LostResponse, Unreached
from holdfast.sim.aws.wire import Response

_PARAMS = "holdfast_params"
# The parser of a protocol. It keeps no state; another one for each error would be freed by the garbage collector only.
_parser: Final = cache(create_parser)


def install(events: BaseEventHooks, endpoint: Endpoint) -> None:
    """Installs it into `session.get_component("event_emitter")` before clients are created, or into
    `client.meta.events`."""
    front = BeforeCall(endpoint)
    events.register("before-parameter-build", front.remember)
    events.register("before-call", front.answer)


class BeforeCall:
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._copies: dict[tuple[str, str], shapes.Convert] = {}

    def remember(self, params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        """Stores the parameters, because `before-call` gets them serialized. Other hooks change the same mapping in
        place, so it is complete by then."""
        context[_PARAMS] = params

    def answer(
        self,
        model: OperationModel,
        params: Mapping[str, Any],
        request_signer: Any,
        context: Mapping[str, Any],
        **_: Any,
    ) -> tuple[AWSResponse, dict[str, Any]]:
        service = model.service_model.service_name
        request_id = self._endpoint.request_id()
        agent = params["headers"].get("User-Agent", "")
        caller = self._endpoint.caller(_access_key(request_signer), agent, request_signer.region_name or "")
        parameters = self._copy(model)(context[_PARAMS])
        codec = protocols.codec(service)
        try:
            result = self._endpoint.call(service, model.name, parameters, caller)
        except ApiError as error:
            return _parsed(model, codec.error(error, request_id), params["url"])
        except HalfResponse as half:
            return _parsed(model, codec.half_answer(model, half.result, request_id), params["url"])
        except (LostResponse, Unreached) as broken:
            raise ConnectionClosedError(endpoint_url=params["url"]) from broken
        metadata = {"RequestId": request_id, "HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0}
        return AWSResponse(params["url"], 200, {}, None), {**result, "ResponseMetadata": metadata}

    def _copy(self, model: OperationModel) -> shapes.Convert:
        key = (model.service_model.service_name, model.name)
        if key not in self._copies:
            self._copies[key] = shapes.wire_copy(model.input_shape) if model.input_shape else dict
        return self._copies[key]


def _parsed(model: OperationModel, response: Response, url: str) -> tuple[AWSResponse, dict[str, Any]]:
    """A response as botocore parses it from the wire: errors and truncated responses depend on the protocol."""
    parser = _parser(model.service_model.resolved_protocol)
    answer = {"body": response.arriving, "headers": response.headers, "status_code": response.status}
    parsed: dict[str, Any] = parser.parse(answer, model.output_shape)
    modeled = model.service_model.shape_for_error_code(parsed.get("Error", {}).get("Code"))
    if modeled is not None:
        parsed |= parser.parse(answer, modeled)
    parsed["ResponseMetadata"]["RetryAttempts"] = 0
    return AWSResponse(url, response.status, response.headers, None), parsed


def _access_key(request_signer: Any) -> str:
    credentials = request_signer._credentials  # noqa: SLF001 - the signer has no public attribute for its credentials
    return credentials.access_key if credentials else ""
