"""What a simulated AWS service is, seen from the fronts that speak the wire.

The fronts decode a request into these shapes and encode the result strictly by botocore's service model, so
the rule: parameters and results have botocore's member names, datetimes are aware, blobs are bytes, and a
result has no member that the model does not have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the signature of the request says."""

    account_id: str
    access_key: str = ""
    user_agent: str = ""
    region: str = ""  # that the request was signed for


class Service(Protocol):
    """EC2, SSM, IAM and the others."""

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        """The answer to one operation, named as AWS names it ("CreateFleet"). Raises ApiError; LostResponse when
        the effect took place and the answer is to be lost; NoSuchOperation for what is not simulated; NotYet when
        the caller asked to wait."""
