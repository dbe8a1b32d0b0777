"""Every AWS operation of the program has the same answer through the front without a wire and the one with it.

Simulations use the front without a wire because it is fast; this test shows that they may.
"""

import json
from typing import Any

import botocore.session

from aws_calls import GROUP, diagnose, named_operations, send_notice
from aws_environment import REGION, run
from holdfast.cloud.aws.catalog import type_listing
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.sim.aws import eks, events, sqs, sts
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.fronts import before_call, before_send
from holdfast.sim.ec2 import control
from launch_environment import LaunchEnvironment, capacity_type
from objects import nodeclaim
from sim_aws import CLUSTER, QUEUE, RULE, without_metadata

RecordedAnswer = tuple[str, str]  # an operation and its answer, as text
INSTALLS = {"before_call": before_call.install, "before_send": before_send.install}
DAY_S = 86_400


class RecordingEnvironment(LaunchEnvironment):
    """Records the answers that botocore's clients return to the program."""

    def __init__(self, front: str) -> None:
        self.answers: list[RecordedAnswer] = []
        self._front = front
        super().__init__(clients=self._clients, placement_groups=(GROUP,))
        self.endpoint.services = {
            **self.endpoint.services,
            "eks": eks.Eks([CLUSTER]),
            "events": events.Events([RULE]),
            "sqs": sqs.Sqs([QUEUE], self.clock),
            "sts": sts.Sts(),
        }
        queue = Queue(self.calls, QUEUE, recorder=self.records)
        self.cloud = self.new_process(queue=queue)

    async def _listing(self) -> TypeListing:
        return await type_listing.read(self.calls)  # not shared between the two runs

    def _clients(self, endpoint: Endpoint) -> calls.Clients:
        def session() -> Any:
            made = botocore.session.Session()
            made.set_credentials("AKIATEST", "secret")
            events = made.get_component("event_emitter")
            INSTALLS[self._front](events, endpoint)
            events.register("after-call", self._record)
            return made

        return calls.Clients(REGION, session)

    def _record(self, model: Any, parsed: dict[str, Any], **_: object) -> None:
        answer = without_metadata(parsed)
        self.answers.append((model.name, json.dumps(answer, sort_keys=True, default=str)))


def call_every_operation(front: str) -> list[RecordedAnswer]:
    """Calls every AWS operation of the program; returns the answers."""
    env = RecordingEnvironment(front)
    run(Identity(env.calls, Given(name=CLUSTER.name), env.clock).read())
    assert run(diagnose(env, CLUSTER.name))
    run(env.discovery.schedule.step())
    env.reserve(tags={"team": "ml"})
    loose = env.node_class("loose", role="OtherRole", placementGroupSelector={"name": "tight"})
    used, unused = env.selecting({"tags": {"team": "ml"}}), env.resolve(loose)
    run(env.cloud.resolve(used))  # sends the dry runs as well
    reserved, on_demand = (env.one(used, capacity_type(kind)) for kind in ("reserved", "on-demand"))
    claim = nodeclaim(
        reserved.claim or "",
        {"labels": dict(reserved.labels), "annotations": dict(reserved.annotations)},
        {"providerID": reserved.provider_id, "nodeName": "node-1", "imageID": reserved.image_id},
    )
    run(env.cloud.tag(claim))
    assert run(env.cloud.drift(claim, used)) is None
    run(env.cloud.reboot(reserved.provider_id, "first"))
    statuses(env, reserved.provider_id)
    notice(env, on_demand.provider_id)
    run(env.cloud.terminate(on_demand.provider_id))
    env.clock.advance(DAY_S)
    assert {each.provider_id for each in env.described()} == {reserved.provider_id}
    run(env.cloud.release(unused))
    run(env.cloud.release(used))
    run(env.cloud.collect([], []))
    assert not env.endpoint.unknown_actions()
    return env.answers


def statuses(env: RecordingEnvironment, provider_id: str) -> None:
    """Reads the status of an instance that fails and whose host has a scheduled maintenance."""
    instance_id = provider_id.rpartition("/")[2]
    env.clock.advance(60)
    env.ec2.advance()
    control.impair(env.ec2.region, instance_id)
    control.schedule_event(env.ec2.region, instance_id, "system-maintenance", env.clock.now_s() + 2 * DAY_S)
    assert [status.instance_id for status in run(env.cloud.instance_statuses())] == [instance_id]


def notice(env: RecordingEnvironment, provider_id: str) -> None:
    send_notice(env, provider_id)
    (found,) = run(env.cloud.notices())
    run(env.cloud.acknowledge(found))


def test_every_operation_of_the_program_has_equal_answers_with_and_without_a_wire() -> None:
    plain, wired = call_every_operation("before_call"), call_every_operation("before_send")
    assert named_operations() - {operation for operation, _ in plain} == set()
    assert len(wired) == len(plain)
    for with_wire, without in zip(wired, plain, strict=True):
        assert with_wire == without
