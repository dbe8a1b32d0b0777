"""The interruption queue over the wire: received, dropped and redelivered messages."""

import json
from typing import Any

import pytest

from aws_environment import Environment, run
from holdfast import errors
from holdfast.cloud.aws.instances.interruption import Kind
from holdfast.cloud.aws.instances.queue import MALFORMED, RECEIVED, Queue, Received
from holdfast.sim.aws import sqs

NAME = "interruptions"
SPOT = "EC2 Spot Instance Interruption Warning"


class QueueEnvironment(Environment):
    def __init__(self) -> None:
        super().__init__()
        self.endpoint.services = {**self.endpoint.services, "sqs": sqs.Sqs([NAME], self.clock)}
        self.queue = Queue(self.calls, NAME, recorder=self.records)

    def send(self, body: str) -> None:
        url = run(self.calls.call("sqs", "GetQueueUrl", QueueName=NAME))["QueueUrl"]
        run(self.calls.call("sqs", "SendMessage", QueueUrl=url, MessageBody=body))

    def event(self, detail_type: str = SPOT, **detail: Any) -> None:
        time = "2026-11-15T10:00:00Z"
        self.send(
            json.dumps({"source": "aws.ec2", "detail-type": detail_type, "time": time, "detail": detail})
        )

    def receive(self) -> list[Received]:
        return run(self.queue.receive())

    def later(self) -> list[Received]:
        """The messages that are received after the visibility timeout."""
        self.clock.advance(60)
        return self.receive()


@pytest.fixture
def env() -> QueueEnvironment:
    return QueueEnvironment()


@pytest.mark.fact("aws-6.4.1")
def test_notice_is_redelivered_until_it_is_deleted(env: QueueEnvironment) -> None:
    env.event(**{"instance-id": "i-1"})
    (first,) = env.receive()
    assert (first.notice.kind, first.notice.instance_ids) == (Kind.SPOT_INTERRUPTED, ("i-1",))
    assert env.receive() == []
    (again,) = env.later()
    assert again.notice == first.notice
    run(env.queue.delete(again.receipt))
    assert env.later() == []


@pytest.mark.fact("aws-6.4.1", "aws-6.4.8")
def test_malformed_message_is_counted_and_dropped(env: QueueEnvironment) -> None:
    env.send("not an event")
    env.event()  # without an instance
    env.event(**{"instance-id": "i-1"})
    assert [each.notice.instance_ids for each in env.receive()] == [("i-1",)]
    assert env.records.total(MALFORMED) == 2
    assert len(env.later()) == 1


def test_event_of_an_unknown_type_is_dropped(env: QueueEnvironment) -> None:
    env.event("An Event Of Next Year")
    assert env.receive() == []
    assert env.records.total(RECEIVED, message_type="no_op") == 1
    assert env.later() == []


def test_missing_queue_raises_not_found(env: QueueEnvironment) -> None:
    missing = Queue(env.calls, "another", recorder=env.records)
    with pytest.raises(errors.NotFound):
        run(missing.receive())
