"""Reads the interruption queue from SQS.

Called by `notices`. A message is deleted after its notice was handled; otherwise SQS delivers it again. A message that
is not an event is counted and deleted, because SQS would deliver it for ever (aws-6.4.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, ports
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.instances import interruption
from holdfast.cloud.aws.instances.interruption import Kind, Notice

RECEIVED: Final = "karpenter_interruption_received_messages_total"
DELETED: Final = "karpenter_interruption_deleted_messages_total"
AGE: Final = "karpenter_interruption_message_queue_duration_seconds"
MALFORMED: Final = "holdfast_interruption_malformed_messages_total"

_SQS: Final = "sqs"
_MOST: Final = 10  # messages in one response
WAIT_S: Final = 20  # long poll
_HIDDEN_S: Final = 20  # the visibility timeout: SQS delivers the message again after it, unless deleted


@dataclass(frozen=True, slots=True)
class Received:
    notice: Notice
    receipt: str  # handle to delete the message


class Queue:
    def __init__(self, aws: Calls, name: str, *, recorder: ports.Recorder) -> None:
        self._aws = aws
        self._name = name
        self._recorder = recorder
        self._url: str | None = None

    async def receive(self) -> list[Received]:
        """The messages in the queue, or those that arrive within WAIT_S. Raises NotFound without a queue."""
        url = await self._find()
        messages = await self._aws.read(
            _SQS,
            "ReceiveMessage",
            _messages,
            QueueUrl=url,
            MaxNumberOfMessages=_MOST,
            WaitTimeSeconds=WAIT_S,
            VisibilityTimeout=_HIDDEN_S,
        )
        found = []
        for body, receipt in messages:
            notice = await self._read(body, receipt)
            if notice is not None:
                found.append(Received(notice, receipt))
        return found

    async def delete(self, receipt: str) -> None:
        """Deletes a handled message. Idempotent."""
        await self._aws.call(_SQS, "DeleteMessage", QueueUrl=await self._find(), ReceiptHandle=receipt)
        self._recorder.count(DELETED, {})

    async def _find(self) -> str:
        if self._url is None:
            self._url = await self._aws.read(
                _SQS, "GetQueueUrl", lambda answer: str(answer["QueueUrl"]), QueueName=self._name
            )
        return self._url

    async def _read(self, body: str, receipt: str) -> Notice | None:
        """None: the message has no notice, and was deleted."""
        try:
            notice = interruption.read(body)
        except errors.InvalidInput:
            self._recorder.count(MALFORMED, {})
            await self.delete(receipt)
            return None
        self._recorder.count(RECEIVED, {"message_type": notice.kind})
        self._recorder.observe(AGE, {}, max(0, self._aws.ec2_clock.now_s() - notice.sent_s))
        if notice.kind is Kind.NOTHING:
            await self.delete(receipt)
            return None
        return notice


def _messages(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Body and receipt of each message. One without a receipt cannot be deleted, so it is skipped."""
    found = answer.get("Messages", ())[:_MOST]
    return [(one.get("Body", ""), one["ReceiptHandle"]) for one in found if one.get("ReceiptHandle")]
