"""The codec of each service, created from its botocore model.

Called by `dispatch`, by the endpoint and by the front that has no wire.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Final

import botocore.exceptions
import botocore.loaders
from botocore.model import ServiceModel

from holdfast.sim.aws.codec.base import Codec
from holdfast.sim.aws.codec.json_services import JsonCodec, RestJsonCodec
from holdfast.sim.aws.codec.query_services import Ec2Codec, QueryCodec

UNKNOWN_ACTIONS: Final = ("InvalidAction", "UnknownOperationException")


@functools.cache
def codec(service: str) -> Codec:
    """The codec of a service by its botocore name, which is also its name in signatures; KeyError if botocore does not
    have it."""
    try:
        description = _loader().load_service_model(service, "service-2")
    except botocore.exceptions.UnknownServiceError:
        raise KeyError(service) from None
    model = ServiceModel(description, service_name=service)
    return _CODECS[model.metadata["protocol"]](model)


@functools.cache
def _loader() -> botocore.loaders.Loader:
    return botocore.loaders.create_loader()


_CODECS: Final[Mapping[str, Callable[[ServiceModel], Codec]]] = {
    "ec2": Ec2Codec,
    "query": QueryCodec,
    "json": JsonCodec,
    "rest-json": RestJsonCodec,
}
