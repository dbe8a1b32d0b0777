"""The simulated SQS: standard queues, and the sink that turns EventBridge events into messages.

Messages are received in the order of arrival, which SQS does not guarantee; a client that depends on it is not
detected. A received message is hidden for its visibility timeout and is received again unless it is deleted. Times are
the clock's.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from holdfast import ports
from holdfast.sim.aws.endpoint import ACCOUNT_ID
from holdfast.sim.aws.errors import ApiError, NoSuchOperation, NotYet
from holdfast.sim.aws.service import Caller

_VISIBILITY_S: Final = 30
_RETENTION_S: Final = 4 * 24 * 3600
_RECEIVE_MAX: Final = 10
_WAIT_MAX_S: Final = 20
_HIDE_MAX_S: Final = 12 * 3600
_BATCH_MAX: Final = 10


@dataclass(slots=True)
class _Message:
    id: str
    body: str
    sent_s: int
    visible_at: float  # on the monotonic clock
    expires_at: float
    sender: str
    first_received_s: int | None = None
    receives: int = 0


@dataclass(frozen=True, slots=True)
class _Saved:
    """The monotonic clock restarts with the program, so its time is saved together with the wall-clock time."""

    given: int
    now_s: int
    monotonic_s: float
    queues: dict[str, list[_Message]]


class _Queue:
    def __init__(self, url: str) -> None:
        self.url = url
        self.messages: dict[str, _Message] = {}
        self.arrived = asyncio.Event()

    def wake(self) -> None:
        self.arrived.set()
        self.arrived = asyncio.Event()


class Sqs:
    def __init__(
        self,
        queues: Iterable[str],
        clock: ports.Clock,
        *,
        account: str = ACCOUNT_ID,
        base_url: str = "https://sqs.amazonaws.com",
    ) -> None:
        self._queues = {name: _Queue(f"{base_url}/{account}/{name}") for name in queues}
        self._clock = clock
        self._given = 0  # ids

    def sink(self, queue: str) -> Callable[[Mapping[str, Any]], None]:
        """A function that puts an event into the queue, like an EventBridge rule."""
        target = self._queues[queue]

        def deliver(event: Mapping[str, Any]) -> None:
            self._put(target, json.dumps(event), "events.amazonaws.com")

        return deliver

    def dump(self) -> bytes:
        queues = {name: list(queue.messages.values()) for name, queue in self._queues.items()}
        return msgspec.msgpack.encode(
            _Saved(self._given, self._clock.now_s(), self._clock.monotonic_s(), queues)
        )

    def load(self, data: bytes) -> None:
        """Loads messages of existing queues; hidden ones stay hidden for the rest of their timeout."""
        saved = msgspec.msgpack.decode(data, type=_Saved)
        self._given = saved.given
        stopped_s = max(0, self._clock.now_s() - saved.now_s)
        later_s = self._clock.monotonic_s() - saved.monotonic_s - stopped_s
        for name, queue in self._queues.items():
            for message in saved.queues.get(name, ()):
                message.visible_at += later_s
                message.expires_at += later_s
                queue.messages[message.id] = message

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match operation:
            case "GetQueueUrl":
                return {"QueueUrl": self._queue(params["QueueName"]).url}
            case "SendMessage":
                return self._send(params, caller)
            case "ReceiveMessage":
                return self._receive(params)
            case "DeleteMessage":
                self._delete(self._of_url(params), params["ReceiptHandle"])
                return {}
            case "DeleteMessageBatch":
                return self._delete_batch(params)
            case "ChangeMessageVisibility":
                return self._change_visibility(params)
            case "PurgeQueue":
                self._of_url(params).messages.clear()
                return {}
            case "GetQueueAttributes":
                return {"Attributes": self._attributes(params)}
            case _:
                raise NoSuchOperation(operation)

    def _send(self, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        if params.get("MessageAttributes"):
            raise ApiError("UnsupportedOperation", "Message attributes are not simulated.")
        delay_s = params.get("DelaySeconds", 0)
        message = self._put(self._of_url(params), params["MessageBody"], caller.access_key, delay_s)
        return {"MessageId": message.id, "MD5OfMessageBody": _md5(message.body)}

    def _put(self, queue: _Queue, body: str, sender: str, delay_s: float = 0) -> _Message:
        now = self._clock.monotonic_s()
        self._given += 1
        message = _Message(
            id=f"00000000-0000-4000-9000-{self._given:012x}",
            body=body,
            sent_s=self._clock.now_s(),
            visible_at=now + delay_s,
            expires_at=now + _RETENTION_S,
            sender=sender,
        )
        queue.messages[message.id] = message
        queue.wake()
        return message

    def _receive(self, params: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._of_url(params)
        count = _in_range(params, "MaxNumberOfMessages", 1, _RECEIVE_MAX, default=1)
        wait_s = _in_range(params, "WaitTimeSeconds", 0, _WAIT_MAX_S, default=0)
        hidden_s = _in_range(params, "VisibilityTimeout", 0, _HIDE_MAX_S, default=_VISIBILITY_S)
        now = self._clock.monotonic_s()
        queue.messages = {id_: m for id_, m in queue.messages.items() if m.expires_at > now}
        found = [m for m in queue.messages.values() if m.visible_at <= now][:count]
        if not found and wait_s:
            back_s = min((m.visible_at - now for m in queue.messages.values()), default=float("inf"))
            raise NotYet(wait_s, {}, queue.arrived, back_s)
        wanted = {*params.get("AttributeNames", ()), *params.get("MessageSystemAttributeNames", ())}
        received = [self._handed_out(m, now + hidden_s, wanted) for m in found]
        return {"Messages": received} if received else {}

    def _handed_out(self, message: _Message, visible_at: float, wanted: set[str]) -> dict[str, Any]:
        message.receives += 1
        message.visible_at = visible_at
        message.first_received_s = message.first_received_s or self._clock.now_s()
        attributes = {
            "SentTimestamp": str(message.sent_s * 1000),
            "ApproximateFirstReceiveTimestamp": str(message.first_received_s * 1000),
            "ApproximateReceiveCount": str(message.receives),
            "SenderId": message.sender,
        }
        chosen = {k: v for k, v in attributes.items() if "All" in wanted or k in wanted}
        return {
            "MessageId": message.id,
            "ReceiptHandle": f"{message.id}#{message.receives}",
            "MD5OfBody": _md5(message.body),
            "Body": message.body,
            **({"Attributes": chosen} if chosen else {}),
        }

    def _delete(self, queue: _Queue, receipt: str) -> None:
        """Deleting a deleted message succeeds."""
        queue.messages.pop(_message_id(receipt), None)

    def _delete_batch(self, params: Mapping[str, Any]) -> dict[str, Any]:
        queue, entries = self._of_url(params), params["Entries"]
        ids = [entry["Id"] for entry in entries]
        if not entries:
            raise ApiError("EmptyBatchRequest", "There should be at least one entry in the request.")
        if len(entries) > _BATCH_MAX:
            raise ApiError("TooManyEntriesInBatchRequest", f"Maximum number of entries is {_BATCH_MAX}.")
        if len(set(ids)) < len(ids):
            raise ApiError("BatchEntryIdsNotDistinct", "Two or more entries have the same Id.")
        done, failed = [], []
        for entry in entries:
            try:
                self._delete(queue, entry["ReceiptHandle"])
                done.append({"Id": entry["Id"]})
            except ApiError as error:
                failed.append(
                    {"Id": entry["Id"], "SenderFault": True, "Code": error.code, "Message": error.message}
                )
        return {"Successful": done, **({"Failed": failed} if failed else {})}

    def _change_visibility(self, params: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._of_url(params)
        hidden_s = _in_range(params, "VisibilityTimeout", 0, _HIDE_MAX_S, default=0)
        message = queue.messages.get(_message_id(params["ReceiptHandle"]))
        if message is None:
            raise ApiError("InvalidParameterValue", "The message does not exist.")
        message.visible_at = self._clock.monotonic_s() + hidden_s
        queue.wake()
        return {}

    def _attributes(self, params: Mapping[str, Any]) -> dict[str, str]:
        queue, now = self._of_url(params), self._clock.monotonic_s()
        hidden = sum(m.visible_at > now for m in queue.messages.values())
        attributes = {
            "ApproximateNumberOfMessages": str(len(queue.messages) - hidden),
            "ApproximateNumberOfMessagesNotVisible": str(hidden),
            "VisibilityTimeout": str(_VISIBILITY_S),
            "MessageRetentionPeriod": str(_RETENTION_S),
        }
        wanted = params.get("AttributeNames", ())
        return {k: v for k, v in attributes.items() if "All" in wanted or k in wanted}

    def _of_url(self, params: Mapping[str, Any]) -> _Queue:
        return self._queue(params["QueueUrl"].rpartition("/")[2])

    def _queue(self, name: str) -> _Queue:
        if name not in self._queues:
            raise ApiError("QueueDoesNotExist", "The specified queue does not exist.")
        return self._queues[name]


def _message_id(receipt: str) -> str:
    message_id, mark, receives = receipt.partition("#")
    if not (mark and receives.isdecimal()):
        raise ApiError("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
    return message_id


def _in_range(params: Mapping[str, Any], name: str, least: int, most: int, *, default: int) -> int:
    value = params.get(name, default)
    if not least <= value <= most:
        raise ApiError(
            "InvalidParameterValue",
            f"Value {value} for parameter {name} is invalid. Reason: Must be between {least} and {most}.",
        )
    return int(value)


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
