"""The Protocol of a simulated AWS service.

Fronts decode requests and encode results strictly by botocore's service model. So parameters and results have
botocore's member names, datetimes are aware, blobs are bytes, and a result has only members of the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, from the signature of the request."""

    account_id: str
    access_key: str = ""
    user_agent: str = ""
    region: str = ""  # of the signature


class Service(Protocol):
    """EC2, SSM, IAM and other services."""

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The result of one operation; its name is AWS's ("CreateFleet"). Raises ApiError; LostResponse if the call
        took effect and the response is lost; NoSuchOperation if it is not simulated; NotYet for a long poll."""
