"""Reads the interruption queue, and the EventBridge rules that send events to it.

Called by `account_reading`. A message is received with a visibility timeout of 0, so it stays visible for Holdfast; its
receive count grows by one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast.cloud.aws.client.calls import Calls
from holdfast.model.check_results import Read
from holdfast.runtime.reads import value_or_error

_SQS: Final = "sqs"
_EVENTS: Final = "events"
_RULES_MAX: Final = 50
_PARTITIONS: Final = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    is_enabled: bool
    pattern: Mapping[str, Sequence[Any]]  # the filters of top-level fields

    def matches(self, source: str, detail_type: str) -> bool:
        """Whether the rule can match the event. A filter that is no plain string may match anything."""
        return all(
            key not in self.pattern
            or any(not isinstance(one, str) or one == value for one in self.pattern[key])
            for key, value in (("source", source), ("detail-type", detail_type))
        )


@dataclass(frozen=True, slots=True)
class QueueReading:
    name: str
    arn: str
    received: Read[None]  # whether messages can be received
    rules: Read[tuple[Rule, ...]]


async def read(aws: Calls, name: str) -> QueueReading:
    """NotFound or another error when the queue itself cannot be found."""
    url = await aws.read(_SQS, "GetQueueUrl", lambda answer: str(answer["QueueUrl"]), QueueName=name)
    partition = next((known for prefix, known in _PARTITIONS.items() if aws.region.startswith(prefix)), "aws")
    account = url.rstrip("/").split("/")[-2]
    arn = f"arn:{partition}:sqs:{aws.region}:{account}:{name}"
    received = await value_or_error(
        aws.read(
            _SQS,
            "ReceiveMessage",
            lambda _: None,
            QueueUrl=url,
            MaxNumberOfMessages=1,
            WaitTimeSeconds=0,
            VisibilityTimeout=0,
        )
    )
    return QueueReading(name, arn, received, await value_or_error(_rules(aws, arn)))


async def _rules(aws: Calls, arn: str) -> tuple[Rule, ...]:
    names = await aws.pages(_EVENTS, "ListRuleNamesByTarget", "RuleNames", parse=str, TargetArn=arn)
    return tuple([await aws.read(_EVENTS, "DescribeRule", _rule, Name=name) for name in names[:_RULES_MAX]])


def _rule(answer: Mapping[str, Any]) -> Rule:
    pattern = msgspec.json.decode(answer.get("EventPattern") or "{}", type=dict[str, Any])
    filters = {key: value for key, value in pattern.items() if isinstance(value, list)}
    return Rule(answer["Name"], answer.get("State") == "ENABLED", filters)
