"""The Cloud port over the wire: tags, memory of nodes, interruption notices, metrics and cleanup."""

import asyncio
import json
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from aws_environment import run
from holdfast import cloud, errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import offering_gauges
from holdfast.cloud.aws.client import batching
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.model import resources
from holdfast.model.instances import Instance
from holdfast.model.notices import Notice
from holdfast.sim.aws import sqs
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.setup import CLUSTER
from launch_environment import LaunchEnvironment, capacity_type
from objects import nodeclaim

ON_DEMAND = capacity_type("on-demand")
MINE = {"tags": {"team": "ml"}}
TAGS = {"team": "ml"}
GIB = 2**30
DAY_S = 86_400
QUEUE = "interruptions"


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def claim_of(instance: Instance, **annotations: str) -> NodeClaim:
    """The NodeClaim of an instance whose node has joined."""
    return nodeclaim(
        instance.claim or "",
        {"labels": dict(instance.labels), "annotations": {**dict(instance.annotations), **annotations}},
        {"providerID": instance.provider_id, "nodeName": "node-1", "imageID": instance.image_id},
    )


# --- Tags -------------------------------------------------------------------------------------------


@pytest.mark.fact("aws-6.6.1")
def test_instance_is_tagged_once_with_its_claim_and_node(env: LaunchEnvironment) -> None:
    instance = env.one(env.resolve(env.node_class()), ON_DEMAND)
    annotations = run(env.cloud.tag(claim_of(instance)))
    tags = env.ec2_instance(instance).tags
    assert (tags["Name"], tags["karpenter.sh/nodeclaim"]) == ("node-1", instance.claim)
    assert tags["eks:eks-cluster-name"] == CLUSTER
    assert [each.claim for each in env.described()] == [instance.claim]
    assert annotations == {
        "karpenter.k8s.aws/tagged": "true",
        "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true",
    }
    for existing in ({}, annotations):
        run(env.cloud.tag(claim_of(instance, **existing)))
    assert env.asked("CreateTags") == 1


@pytest.mark.fact("aws-6.6.1")
def test_name_tag_of_the_class_is_not_overwritten(env: LaunchEnvironment) -> None:
    instance = env.one(env.resolve(env.node_class(tags={"Name": "mine"})), ON_DEMAND)
    run(env.cloud.tag(claim_of(instance)))
    tags = env.ec2_instance(instance).tags
    assert (tags["Name"], tags["karpenter.sh/nodeclaim"]) == ("mine", instance.claim)


def test_tagging_a_terminated_instance_raises_not_found(env: LaunchEnvironment) -> None:
    instance = env.one(env.resolve(env.node_class()), ON_DEMAND)
    control.kill(env.ec2.region, instance.provider_id.rpartition("/")[2])
    env.clock.advance(600)
    with pytest.raises(errors.NotFound):
        run(env.cloud.tag(claim_of(instance)))


# --- Memory -----------------------------------------------------------------------------------------


def memory(env: LaunchEnvironment, **spec: Any) -> int:
    (instance_type,) = env.types(env.resolve(env.node_class(**spec)), "m5.large")
    return instance_type.capacity[resources.MEMORY]


@pytest.mark.fact("aws-7.3.2")
def test_smallest_observed_memory_of_a_type_replaces_the_estimate(
    env: LaunchEnvironment,
) -> None:
    node_class = env.resolve(env.node_class())
    estimate = memory(env)
    assert estimate < 8 * GIB
    claim = claim_of(env.one(node_class, ON_DEMAND, types=("m5.large",)))
    for observed, expected in ((estimate + 300, 300), (estimate + 100, 100), (estimate + 200, 100)):
        run(env.cloud.record_capacity(claim, node_class, resources.of({resources.MEMORY: observed})))
        assert memory(env) == estimate + expected
    other_images = {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}
    assert memory(env, **other_images) == estimate
    env.clock.advance(60 * DAY_S)
    assert memory(env) == estimate


@pytest.mark.fact("aws-7.3.2")
def test_memory_of_a_node_with_an_old_image_is_ignored(env: LaunchEnvironment) -> None:
    estimate = memory(env)
    old = claim_of(env.one(env.resolve(env.node_class()), ON_DEMAND, types=("m5.large",)))
    newer = env.resolve(env.node_class(amiSelectorTerms=[{"alias": "bottlerocket@latest"}]))
    run(env.cloud.record_capacity(old, newer, resources.of({resources.MEMORY: GIB})))
    assert memory(env, amiSelectorTerms=[{"alias": "bottlerocket@latest"}]) == estimate


# --- Notices ----------------------------------------------------------------------------------------


class NoticeEnvironment(LaunchEnvironment):
    """Has an interruption queue that receives EC2's events."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoint.services = {**self.endpoint.services, "sqs": sqs.Sqs([QUEUE], self.clock)}
        queue = Queue(self.calls, QUEUE, recorder=self.records)
        self.cloud = self.new_process(queue=queue)

    def event(self, detail_type: str, **detail: Any) -> None:
        url = run(self.calls.call("sqs", "GetQueueUrl", QueueName=QUEUE))["QueueUrl"]
        time = "2026-11-15T10:00:00Z"
        body = {"source": "aws.ec2", "detail-type": detail_type, "time": time, "detail": detail}
        run(self.calls.call("sqs", "SendMessage", QueueUrl=url, MessageBody=json.dumps(body)))

    def notices(self) -> list[Notice]:
        return list(run(self.cloud.notices()))


@pytest.mark.fact("aws-6.4.1", "aws-6.4.2")
def test_notice_is_redelivered_until_it_is_acknowledged() -> None:
    env = NoticeEnvironment()
    instance = env.one(env.resolve(env.node_class()), capacity_type("spot"))
    ec2_instance = env.ec2_instance(instance)
    env.event("EC2 Spot Instance Interruption Warning", **{"instance-id": ec2_instance.id})
    (notice,) = env.notices()
    assert (notice.reason, notice.terminates_instances, notice.instance_ids) == (
        "spot_interrupted",
        True,
        (ec2_instance.id,),
    )
    assert instance.provider_id.endswith(notice.instance_ids[0])
    assert notice.ends_s == notice.sent_s + 120
    now_s = env.clock.monotonic_s()
    pool = (ec2_instance.instance_type, instance.zone, "spot")
    assert env.discovery.unavailable.pools.members(now_s) == {pool}
    env.clock.advance(30)
    (again,) = env.notices()
    run(env.cloud.acknowledge(again))
    env.clock.advance(30)
    assert env.notices() == []


def test_rebalance_recommendation_terminates_no_instance() -> None:
    env = NoticeEnvironment()
    env.event("EC2 Instance Rebalance Recommendation", **{"instance-id": "i-0123456789abcdef0"})
    (notice,) = env.notices()
    assert (notice.reason, notice.terminates_instances) == ("rebalance_recommendation", False)


@pytest.mark.fact("aws-6.4.7", "AW-22")
def test_interruption_in_a_reservation_only_triggers_a_new_count() -> None:
    """EC2 reclaims one instance of an interruptible reservation; the other slots stay as EC2 counts them."""
    env = NoticeEnvironment()
    reservation = env.reserve(total=4, tags=TAGS, interruptible=True)
    node_class = env.selecting(MINE)
    instance = env.one(node_class, capacity_type("reserved"))
    control.take(env.ec2.region, reservation.id, 1)
    detail = {"instance-id": env.ec2_instance(instance).id, "instance-action": "terminate"}
    env.event("EC2 Capacity Reservation Instance Interruption Warning", **detail)
    (notice,) = env.notices()
    assert notice.terminates_instances
    (instance_type,) = env.types(node_class, "m5.large")
    assert [
        o.count for o in instance_type.offerings if o.reservation_id == reservation.id and o.launchable
    ] == [2]


@pytest.mark.fact("aws-6.4.6")
def test_expiration_warning_of_a_block_terminates_no_instance_and_triggers_a_read() -> None:
    env = NoticeEnvironment()
    end_s = env.clock.now_s() + 2 * 3600
    block = env.reserve("p5.48xlarge", kind="capacity-block", tags=TAGS, end_s=end_s)
    env.selecting(MINE)
    control.set_end(env.ec2.region, block.id, end_s + DAY_S)
    assert [one.end_s for one in run(env.cloud.reservations()).reservations] == [end_s]
    detail = {"capacity-reservation-id": block.id, "end-date": "2026-11-15T12:00:00Z"}
    env.event("Capacity Block Reservation Expiration Warning", **detail)
    (notice,) = env.notices()
    assert not notice.terminates_instances
    assert [one.end_s for one in run(env.cloud.reservations()).reservations] == [end_s + DAY_S]


def test_notice_is_returned_although_describe_instances_is_denied() -> None:
    env = NoticeEnvironment()
    instance = env.one(env.resolve(env.node_class()), capacity_type("spot"))
    env.ec2.region.faults.add(faults.Denied(operation="DescribeInstances", times=99))
    env.event("EC2 Spot Instance Interruption Warning", **{"instance-id": env.ec2_instance(instance).id})
    assert len(env.notices()) == 1


def test_without_a_queue_there_are_no_notices_and_no_fast_polling(env: LaunchEnvironment) -> None:
    began_s = env.clock.monotonic_s()
    assert list(run(env.cloud.notices())) == []
    assert env.clock.monotonic_s() - began_s == 20


# --- Metrics ------------------------------------------------------------------------------------------


def gauge(env: LaunchEnvironment, metric: str, capacity_type: str, zone: str = "us-west-2a") -> float | None:
    about = {"instance_type": "m5.large", "capacity_type": capacity_type, "zone": zone}
    return env.records.gauges.get((metric, tuple(sorted(about.items()))))


@pytest.mark.fact("aws-7.5.7")
def test_gauges_of_availability_and_price_are_set_every_minute(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    node_class = env.selecting(MINE)

    def minute() -> tuple[list[float | None], list[float | None]]:
        run(env.cloud.instance_types(node_class))
        env.clock.advance(60)
        run(env.discovery.schedule.step())
        kinds = ("reserved", "on-demand")
        available = [gauge(env, offering_gauges.AVAILABLE, kind) for kind in kinds]
        return available, [gauge(env, offering_gauges.PRICE, kind) for kind in kinds]

    available, (reserved, on_demand) = minute()
    assert available == [1, 1]
    of_type = (("instance_type", "m5.large"),)
    assert env.records.gauges[offering_gauges.CORES, of_type] == 2
    assert env.records.gauges[offering_gauges.MEMORY, of_type] == 8 * 2**30
    assert on_demand == 0.096
    assert reserved is not None
    assert 0 < reserved < 0.000001
    assert gauge(env, offering_gauges.AVAILABLE, "reserved", "us-west-2b") is None
    control.take(env.ec2.region, slots.id, 1)
    minute()
    assert minute()[0] == [0, 1]
    free = {"reservation": slots.id, "instance_type": "m5.large", "zone": "us-west-2a"}
    assert env.records.gauges["holdfast_reservation_free_slots", tuple(sorted(free.items()))] == 0
    node_class = env.selecting({"tags": {"team": "nobody"}})
    assert minute() == ([0, 1], [0, 0.096])


@pytest.mark.fact("aws-9.1.7")
def test_size_and_duration_of_every_batch_are_metrics(env: LaunchEnvironment) -> None:
    node_class = env.resolve(env.node_class())
    made = env.launch(env.requests(node_class, ON_DEMAND, count=3))
    ids = [each.provider_id for each in made if isinstance(each, Instance)]

    async def all_at_once() -> None:
        await asyncio.gather(*map(env.cloud.terminate, ids))  # describes each instance first

    run(all_at_once())
    for batcher in ("create_fleet", "describe_instances", "terminate_instances"):
        assert env.records.observed[batching.BATCH_SIZE, (("batcher", batcher),)] == [3]
    for batcher in ("describe_instances", "terminate_instances"):
        (duration_s,) = env.records.observed[batching.BATCH_TIME, (("batcher", batcher),)]
        assert duration_s == pytest.approx(batching.WINDOW_S)


# --- Cleaning up ------------------------------------------------------------------------------------


@pytest.mark.fact("aws-6.6.3")
def test_instance_profiles_that_neither_a_class_nor_a_claim_uses_are_removed(env: LaunchEnvironment) -> None:
    existing, claimed, unused = (env.resolve(env.node_class(name)) for name in ("kept", "claimed", "old"))
    instance = env.one(claimed, ON_DEMAND)
    for wait_s in (3601, 600):  # found unused twice
        env.clock.advance(wait_s)
        run(env.cloud.collect([existing], [claim_of(instance)]))
    made = [str(each.status.instance_profile) for each in (existing, claimed, unused)]
    assert [env.iam.has_profile(name) for name in made] == [True, True, False]


@pytest.mark.fact("aws-6.6.4")
def test_provider_never_creates_modifies_or_cancels_a_reservation() -> None:
    """No operation of EC2 that writes a reservation is named in the source of the provider."""
    model = botocore.session.get_session().get_service_model("ec2")
    reads = ("Describe", "Get", "List")
    writes = {
        name for name in model.operation_names if "CapacityReservation" in name and not name.startswith(reads)
    }
    assert {"CreateCapacityReservation", "CancelCapacityReservation"} <= writes
    sources = "\n".join(path.read_text(encoding="utf-8") for path in Path(cloud.__path__[0]).rglob("*.py"))
    assert [name for name in sorted(writes) if f'"{name}"' in sources] == []
    assert '"DescribeCapacityReservations"' in sources
