"""Machines that fail and machines that AWS has plans for, as the Cloud door tells of them, on the wire."""

import pytest

from aws_launch_world import LaunchWorld, capacity_type
from aws_world import OTHER, run
from holdfast import errors
from holdfast.cloud.aws.instances import instance_status
from holdfast.model.instance_status import InstanceStatus
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import control, faults

ASKED = "DescribeInstanceStatus"
DAY_S = 86_400


@pytest.fixture
def world() -> LaunchWorld:
    return LaunchWorld()


def machines(world: LaunchWorld, count: int) -> list[str]:
    """Ids of machines that run, in order."""
    node_class = world.resolve(world.node_class())
    found = world.launch(world.requests(node_class, capacity_type("on-demand"), count=count))
    world.clock.advance(60)
    world.ec2.advance()
    return sorted(one.provider_id.rpartition("/")[2] for one in found if isinstance(one, Instance))


def told(world: LaunchWorld) -> list[tuple[str, str, int | None]]:
    statuses: tuple[InstanceStatus, ...] = tuple(run(world.cloud.instance_statuses()))
    return [(one.instance_id, one.category, one.failing_since_s) for one in statuses]


def ail(world: LaunchWorld, ids: list[str]) -> list[tuple[str, str, int | None]]:
    """One of each kind, and what is told of them."""
    began_s = world.clock.now_s()
    control.impair(world.ec2.world, ids[0], "instance")
    control.impair(world.ec2.world, ids[1], "system")
    control.impair(world.ec2.world, ids[2], "ebs")
    control.schedule_event(world.ec2.world, ids[3], "instance-retirement", began_s + DAY_S)
    world.clock.advance(30)
    world.ec2.advance()
    control.impair(world.ec2.world, ids[4], "instance")
    control.schedule_event(world.ec2.world, ids[4], "instance-reboot", began_s + DAY_S)
    return [
        (ids[0], "instance_status", began_s),
        (ids[1], "system_status", began_s),
        (ids[3], "event_status", None),
        (ids[4], "instance_status", began_s + 30),
    ]


@pytest.mark.fact("aws-6.5.1")
def test_one_call_tells_of_everything_that_fails_or_is_scheduled_and_of_no_volume(world: LaunchWorld) -> None:
    ids = machines(world, 6)
    assert told(world) == []
    asked = world.asked(ASKED)
    expected = ail(world, ids)
    assert told(world) == expected
    assert world.asked(ASKED) == asked + 1


@pytest.mark.fact("aws-6.5.1")
def test_in_a_large_account_questions_with_short_answers_take_turns(
    world: LaunchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_status, "PAGE", 5)
    ids = machines(world, 12)
    assert told(world) == []
    asked = world.asked(ASKED)
    expected = ail(world, ids)
    readings = [told(world) for _ in range(5)]
    assert world.asked(ASKED) == asked + 5
    assert {one for reading in readings for one in reading} == set(expected)
    failing = [one for one in expected if one[1] == "instance_status"]
    assert sum(set(failing) <= set(reading) for reading in readings) == 2  # of five


@pytest.mark.parametrize(
    "code", ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"]
)
@pytest.mark.fact("aws-6.5.1")
def test_an_event_is_told_of_until_it_is_over(world: LaunchWorld, code: str) -> None:
    (machine,) = machines(world, 1)
    control.schedule_event(world.ec2.world, machine, code, world.clock.now_s() + DAY_S)
    (status,) = run(world.cloud.instance_statuses())
    assert (status.instance_id, status.category, status.failing_since_s) == (machine, "event_status", None)
    assert code in status.message
    world.clock.advance(DAY_S)
    assert told(world) == []


def test_machines_of_other_accounts_are_not_told_of(world: LaunchWorld) -> None:
    (machine,) = machines(world, 1)
    raw = world.ec2.world.instances[machine]
    world.ec2.world.put_instance(raw, account=OTHER, impaired={"instance": world.clock.now_s()})
    assert told(world) == []


def test_a_missing_right_is_said_as_such() -> None:
    world = LaunchWorld(rules=[faults.Denied(operation=ASKED)])
    with pytest.raises(errors.Unauthorized, match=ASKED):
        run(world.cloud.instance_statuses())
