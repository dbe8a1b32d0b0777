"""The simulated EventBridge: rules that exist from the beginning, and which of them have a target.

It delivers nothing: `sim.cloud` puts events into the queue. The rule: what it lists is what the queue gets.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.sim.aws.errors import ApiError, NoSuchOperation
from holdfast.sim.aws.service import Caller


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    target_arn: str
    pattern: Mapping[str, Any]
    state: str = "ENABLED"


class Events:
    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.name: rule for rule in rules}

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match operation:
            case "ListRuleNamesByTarget":
                target = params["TargetArn"]
                return {"RuleNames": [r.name for r in self._rules.values() if r.target_arn == target]}
            case "DescribeRule":
                return self._describe(params["Name"], caller)
            case _:
                raise NoSuchOperation(operation)

    def _describe(self, name: str, caller: Caller) -> dict[str, Any]:
        rule = self._rules.get(name)
        if rule is None:
            raise ApiError("ResourceNotFoundException", f"Rule {name} does not exist on EventBus default.")
        return {
            "Name": rule.name,
            "Arn": f"arn:aws:events:{caller.region}:{caller.account_id}:rule/{rule.name}",
            "EventPattern": json.dumps(rule.pattern),
            "State": rule.state,
            "EventBusName": "default",
        }
