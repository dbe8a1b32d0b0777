"""The interruption queue: SQS, read message by message.

Called by `notices`. The rules: a message is deleted when it was acted on, and stays for another
try otherwise; what is no event is counted and dropped, or it would come back for ever (aws-6.4.1).
"""

from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, ports
from holdfast.cloud.aws import interruption
from holdfast.cloud.aws.calls import Calls
from holdfast.cloud.aws.interruption import Kind, Notice

RECEIVED: Final = "karpenter_interruption_received_messages_total"
DELETED: Final = "karpenter_interruption_deleted_messages_total"
AGE: Final = "karpenter_interruption_message_queue_duration_seconds"
MALFORMED: Final = "holdfast_interruption_malformed_messages_total"

_SQS: Final = "sqs"
_MOST: Final = 10  # messages in one answer
WAIT_S: Final = 20  # for a message to arrive
_HIDDEN_S: Final = 20  # a message that was received comes back after so long, unless it is deleted


@dataclass(frozen=True, slots=True)
class Received:
    notice: Notice
    receipt: str  # what deletes it


class Queue:
    def __init__(self, aws: Calls, name: str, *, recorder: ports.Recorder) -> None:
        self._aws = aws
        self._name = name
        self._recorder = recorder
        self._url: str | None = None

    async def receive(self) -> list[Received]:
        """What is there, or arrives within a while. NotFound when there is no such queue."""
        url = await self._find()
        answer = await self._aws.call(
            _SQS,
            "ReceiveMessage",
            QueueUrl=url,
            MaxNumberOfMessages=_MOST,
            WaitTimeSeconds=WAIT_S,
            VisibilityTimeout=_HIDDEN_S,
        )
        found = []
        for message in answer.get("Messages", ()):
            notice = await self._read(message)
            if notice is not None:
                found.append(Received(notice, message["ReceiptHandle"]))
        return found

    async def delete(self, receipt: str) -> None:
        """It was acted on. Twice is once."""
        await self._aws.call(_SQS, "DeleteMessage", QueueUrl=await self._find(), ReceiptHandle=receipt)
        self._recorder.count(DELETED, {})

    async def _find(self) -> str:
        if self._url is None:
            answer = await self._aws.call(_SQS, "GetQueueUrl", QueueName=self._name)
            self._url = str(answer["QueueUrl"])
        return self._url

    async def _read(self, message: dict[str, Any]) -> Notice | None:
        """None: it was nothing to act on, and is gone."""
        try:
            notice = interruption.read(message.get("Body", ""))
        except errors.InvalidInput:
            self._recorder.count(MALFORMED, {})
            await self.delete(message["ReceiptHandle"])
            return None
        self._recorder.count(RECEIVED, {"message_type": notice.kind})
        self._recorder.observe(AGE, {}, max(0, self._aws.ec2_clock.now_s() - notice.sent_s))
        if notice.kind is Kind.NOTHING:
            await self.delete(message["ReceiptHandle"])
            return None
        return notice
