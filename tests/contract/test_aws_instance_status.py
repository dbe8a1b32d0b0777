"""Instances with failed status checks or scheduled events, as the Cloud port reports them, over the wire."""

import pytest

from aws_environment import OTHER, run
from holdfast import errors
from holdfast.cloud.aws.instances import instance_status
from holdfast.model.instance_status import InstanceStatus
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import control, faults
from launch_environment import LaunchEnvironment, capacity_type

OPERATION = "DescribeInstanceStatus"
DAY_S = 86_400


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def running_instances(env: LaunchEnvironment, count: int) -> list[str]:
    """Ids of running instances, sorted."""
    node_class = env.resolve(env.node_class())
    found = env.launch(env.requests(node_class, capacity_type("on-demand"), count=count))
    env.clock.advance(60)
    env.ec2.advance()
    return sorted(one.provider_id.rpartition("/")[2] for one in found if isinstance(one, Instance))


def reported_statuses(env: LaunchEnvironment) -> list[tuple[str, str, int | None]]:
    statuses: tuple[InstanceStatus, ...] = tuple(run(env.cloud.instance_statuses()))
    return [(one.instance_id, one.category, one.failing_since_s) for one in statuses]


def impair_and_schedule(env: LaunchEnvironment, ids: list[str]) -> list[tuple[str, str, int | None]]:
    """Impairs or schedules one instance of each kind; returns the statuses that must be reported."""
    began_s = env.clock.now_s()
    control.impair(env.ec2.region, ids[0], "instance")
    control.impair(env.ec2.region, ids[1], "system")
    control.impair(env.ec2.region, ids[2], "ebs")
    control.schedule_event(env.ec2.region, ids[3], "instance-retirement", began_s + DAY_S)
    env.clock.advance(30)
    env.ec2.advance()
    control.impair(env.ec2.region, ids[4], "instance")
    control.schedule_event(env.ec2.region, ids[4], "instance-reboot", began_s + DAY_S)
    return [
        (ids[0], "instance_status", began_s),
        (ids[1], "system_status", began_s),
        (ids[3], "event_status", None),
        (ids[4], "instance_status", began_s + 30),
    ]


@pytest.mark.fact("aws-6.5.1")
def test_one_call_reports_failed_checks_and_scheduled_events_but_no_volumes(env: LaunchEnvironment) -> None:
    ids = running_instances(env, 6)
    assert reported_statuses(env) == []
    asked = env.asked(OPERATION)
    expected = impair_and_schedule(env, ids)
    assert reported_statuses(env) == expected
    assert env.asked(OPERATION) == asked + 1


@pytest.mark.fact("aws-6.5.1")
def test_large_account_is_read_with_one_filtered_call_at_a_time(
    env: LaunchEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_status, "PAGE", 5)
    ids = running_instances(env, 12)
    assert reported_statuses(env) == []
    asked = env.asked(OPERATION)
    expected = impair_and_schedule(env, ids)
    readings = [reported_statuses(env) for _ in range(5)]
    assert env.asked(OPERATION) == asked + 5
    assert {one for reading in readings for one in reading} == set(expected)
    failing = [one for one in expected if one[1] == "instance_status"]
    assert sum(set(failing) <= set(reading) for reading in readings) == 2  # of the five calls


@pytest.mark.parametrize(
    "code", ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"]
)
@pytest.mark.fact("aws-6.5.1")
def test_scheduled_event_is_reported_until_it_is_over(env: LaunchEnvironment, code: str) -> None:
    (instance_id,) = running_instances(env, 1)
    control.schedule_event(env.ec2.region, instance_id, code, env.clock.now_s() + DAY_S)
    (status,) = run(env.cloud.instance_statuses())
    assert (status.instance_id, status.category, status.failing_since_s) == (
        instance_id,
        "event_status",
        None,
    )
    assert code in status.message
    env.clock.advance(DAY_S)
    assert reported_statuses(env) == []


def test_instances_of_other_accounts_are_not_reported(env: LaunchEnvironment) -> None:
    (instance_id,) = running_instances(env, 1)
    raw = env.ec2.region.instances[instance_id]
    env.ec2.region.put_instance(raw, account=OTHER, impaired={"instance": env.clock.now_s()})
    assert reported_statuses(env) == []


def test_missing_permission_raises_unauthorized() -> None:
    env = LaunchEnvironment(rules=[faults.Denied(operation=OPERATION)])
    with pytest.raises(errors.Unauthorized, match=OPERATION):
        run(env.cloud.instance_statuses())
