"""The simulated STS: GetCallerIdentity."""

from collections.abc import Mapping
from typing import Any

from holdfast.sim.aws.errors import NoSuchOperation
from holdfast.sim.aws.service import Caller


class Sts:
    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:  # noqa: ARG002
        if operation != "GetCallerIdentity":
            raise NoSuchOperation(operation)
        return {
            "Account": caller.account_id,
            "UserId": caller.access_key,
            "Arn": f"arn:aws:iam::{caller.account_id}:user/simulated",
        }
