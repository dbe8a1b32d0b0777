"""Every AWS operation of the program has the same answer through the front without a wire and the one with it.

Simulations use the front without a wire because it is fast; this test shows that they may.
"""

import json
from typing import Any

import botocore.session

from aws_calls import GROUP, named_operations, send_notice
from aws_launch_world import LaunchWorld, capacity_type
from aws_world import REGION, run
from holdfast.cloud.aws.catalog import type_listing
from holdfast.cloud.aws.catalog.type_listing import TypeListing
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.sim.aws import eks, sqs
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.fronts import before_call, before_send
from holdfast.sim.ec2 import control
from objects import nodeclaim
from sim_aws import CLUSTER, QUEUE, without_metadata

RecordedAnswer = tuple[str, str]  # an operation and its answer, as text
INSTALLS = {"before_call": before_call.install, "before_send": before_send.install}
DAY_S = 86_400


class ToldWorld(LaunchWorld):
    """Records the answers that botocore's clients return to the program."""

    def __init__(self, front: str) -> None:
        self.answers: list[RecordedAnswer] = []
        self._front = front
        super().__init__(clients=self._clients, placement_groups=(GROUP,))
        self.endpoint.services = {
            **self.endpoint.services,
            "eks": eks.Eks([CLUSTER]),
            "sqs": sqs.Sqs([QUEUE], self.clock),
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
    world = ToldWorld(front)
    run(Identity(world.calls, Given(name=CLUSTER.name), world.clock).read())
    run(world.discovery.schedule.step())
    world.reserve(tags={"team": "ml"})
    loose = world.node_class("loose", role="OtherRole", placementGroupSelector={"name": "tight"})
    used, unused = world.selecting({"tags": {"team": "ml"}}), world.resolve(loose)
    run(world.cloud.resolve(used))  # sends the dry runs as well
    reserved, on_demand = (world.one(used, capacity_type(kind)) for kind in ("reserved", "on-demand"))
    claim = nodeclaim(
        reserved.claim or "",
        {"labels": dict(reserved.labels), "annotations": dict(reserved.annotations)},
        {"providerID": reserved.provider_id, "nodeName": "node-1", "imageID": reserved.image_id},
    )
    run(world.cloud.tag(claim))
    assert run(world.cloud.drift(claim, used)) is None
    run(world.cloud.reboot(reserved.provider_id, "first"))
    statuses(world, reserved.provider_id)
    notice(world, on_demand.provider_id)
    run(world.cloud.terminate(on_demand.provider_id))
    world.clock.advance(DAY_S)
    assert {each.provider_id for each in world.described()} == {reserved.provider_id}
    run(world.cloud.release(unused))
    run(world.cloud.release(used))
    run(world.cloud.collect([], []))
    assert not world.endpoint.unknown_actions()
    return world.answers


def statuses(world: ToldWorld, provider_id: str) -> None:
    """Reads the status of an instance that fails and whose host has a scheduled maintenance."""
    instance_id = provider_id.rpartition("/")[2]
    world.clock.advance(60)
    world.ec2.advance()
    control.impair(world.ec2.world, instance_id)
    control.schedule_event(
        world.ec2.world, instance_id, "system-maintenance", world.clock.now_s() + 2 * DAY_S
    )
    assert [status.instance_id for status in run(world.cloud.instance_statuses())] == [instance_id]


def notice(world: ToldWorld, provider_id: str) -> None:
    send_notice(world, provider_id)
    (found,) = run(world.cloud.notices())
    run(world.cloud.acknowledge(found))


def test_every_operation_of_the_program_has_equal_answers_with_and_without_a_wire() -> None:
    plain, wired = call_every_operation("before_call"), call_every_operation("before_send")
    assert named_operations() - {operation for operation, _ in plain} == set()
    assert len(wired) == len(plain)
    for with_wire, without in zip(wired, plain, strict=True):
        assert with_wire == without
