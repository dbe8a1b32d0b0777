"""Faults of the simulated EC2: the effect of each one, and the replay of a run from its seed."""

import json
from typing import Any

import pytest

from ec2_region import START_S, ZONES, Region, config, errors, pools
from holdfast.sim.aws.errors import ApiError, LostResponse
from holdfast.sim.ec2 import faults
from holdfast.sim.ec2.faults import Fault


def test_a_lost_response_has_its_effect_and_the_client_token_returns_it() -> None:
    region = Region(rules=[faults.Lost(operation="CreateFleet", times=1)])
    wanted = config(region.template(), "m5.large/a")
    with pytest.raises(LostResponse):
        region.fleet(wanted, ClientToken="t-1")
    (made,) = region.state.instances
    again = region.fleet(wanted, ClientToken="t-1")
    assert [i.id for i in region.launched(again)] == [made.id]


@pytest.mark.parametrize(
    ("fault", "code", "status"),
    [
        (faults.Throttled(operation="TerminateInstances"), "RequestLimitExceeded", 503),
        (faults.Denied(operation="TerminateInstances"), "UnauthorizedOperation", 403),
        (faults.Broken(operation="TerminateInstances"), "InternalError", 500),
    ],
)
def test_a_refused_call_has_no_effect(fault: Fault, code: str, status: int) -> None:
    region = Region(rules=[fault])
    (instance,) = region.launch()
    refused = region.refusal("TerminateInstances", InstanceIds=[instance.id])
    assert (refused.code, refused.status) == (code, status)
    assert region.state.instances[instance.id].state == "pending"


def test_a_fault_applies_only_within_its_window_and_at_most_so_many_times() -> None:
    window = faults.Broken(operation="DescribeSubnets", from_s=START_S + 10, until_s=START_S + 20, times=2)
    region = Region(rules=[window])

    def succeeds() -> bool:
        try:
            region.call("DescribeSubnets")
        except ApiError:
            return False
        return True

    results = []
    for at_s in (0, 10, 11, 12, 20):
        region.clock.seconds = START_S + at_s
        results.append(succeeds())
    assert results == [True, False, False, True, True]


def test_a_pool_without_capacity_is_an_error_and_the_next_pool_is_used() -> None:
    region = Region(rules=[faults.NoCapacity(instance_type="m5.large", zone_id=ZONES["a"])])
    answer = region.fleet(config(region.template(), "m5.large/a", "m5.xlarge/a"))
    assert pools(answer) == {"m5.xlarge/a": 1}
    assert errors(answer) == [("m5.large/a", "InsufficientInstanceCapacity")]


def test_a_pool_can_fail_with_a_quota_error() -> None:
    code = "MaxSpotInstanceCountExceeded"
    region = Region(rules=[faults.NoCapacity(market="spot", code=code)])
    assert errors(region.fleet(config(region.template(), "m5.large/a"), kind="spot")) == [
        ("m5.large/a", code)
    ]
    assert errors(region.fleet(config(region.template(), "m5.large/a"))) == []


def test_a_pool_without_spare_capacity_still_has_its_reserved_slots() -> None:
    region = Region(rules=[faults.NoCapacity()])
    reservation = region.reserve(criteria="targeted", total=1)
    answer = region.fleet(config(region.targeting(reservation), "m5.large/a"))
    assert [i.reservation_id for i in region.launched(answer)] == [reservation.id]


def test_a_launch_into_a_reservation_with_free_slots_can_fail() -> None:
    code = "RequestLimitExceeded"
    region = Region(rules=[faults.NoCapacity(market="reserved", code=code, times=1)])
    reservation = region.reserve(criteria="targeted")
    wanted = config(region.targeting(reservation), "m5.large/a")
    assert errors(region.fleet(wanted)) == [("m5.large/a", code)]
    assert region.available(reservation) == 2
    assert errors(region.fleet(wanted)) == []


def test_a_slot_can_be_used_elsewhere_between_describe_and_create_fleet() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted", total=1)
    region.state.faults.add(faults.Taken(reservation_id=reservation.id, times=1))
    assert region.available(reservation) == 1
    answer = region.fleet(config(region.targeting(reservation), "m5.large/a"))
    assert errors(answer) == [("m5.large/a", "ReservationCapacityExceeded")]
    assert region.available(reservation) == 0
    assert region.state.reservations[reservation.id].elsewhere == 1


def test_a_stale_describe_does_not_find_a_new_instance() -> None:
    region = Region(rules=[faults.Stale(operation="DescribeInstances", lag_s=10, until_s=START_S + 5)])
    (instance,) = region.launch()
    refused = region.refusal("DescribeInstances", InstanceIds=[instance.id])
    assert refused.code == "InvalidInstanceID.NotFound"
    region.wait(5)
    assert region.call("DescribeInstances", InstanceIds=[instance.id])["Reservations"]


def test_an_instance_may_never_boot() -> None:
    region = Region(rules=[faults.NeverBoots(times=1)])
    stuck, fine = region.launch(2)
    region.wait(3600)
    assert [region.state.instances[i.id].state for i in (stuck, fine)] == ["pending", "running"]


def test_a_silent_instance_becomes_impaired_and_stays_so_after_a_reboot() -> None:
    region = Region(rules=[faults.Silent(times=1)])
    (instance,) = region.launch()
    region.wait(60)
    impaired: dict[str, Any] = {"Filters": [{"Name": "instance-status.status", "Values": ["impaired"]}]}
    assert region.call("DescribeInstanceStatus", **impaired)["InstanceStatuses"] == []
    region.wait(120)
    region.call("RebootInstances", InstanceIds=[instance.id])  # does not repair it
    (status,) = region.call("DescribeInstanceStatus", **impaired)["InstanceStatuses"]
    assert status["InstanceId"] == instance.id


def test_a_failed_host_impairs_the_system_status_also_after_a_reboot() -> None:
    region = Region(rules=[faults.HostFails(after_s=100, times=1)])
    (instance,) = region.launch()
    region.wait(150)
    region.call("RebootInstances", InstanceIds=[instance.id])
    (status,) = region.call("DescribeInstanceStatus")["InstanceStatuses"]
    assert [status[check]["Status"] for check in ("InstanceStatus", "SystemStatus", "AttachedEbsStatus")] == [
        "ok",
        "impaired",
        "ok",
    ]
    (failed,) = status["SystemStatus"]["Details"]
    assert (failed["Status"], failed["ImpairedSince"].timestamp()) == ("failed", START_S + 100)


def test_an_instance_may_terminate_by_itself() -> None:
    region = Region(rules=[faults.Dies(after_s=100, times=1)])
    (instance,) = region.launch()
    region.wait(99)
    assert region.state.instances[instance.id].state == "running"
    region.wait(1)
    now = region.state.instances[instance.id]
    assert (now.state, now.state_reason[0]) == ("shutting-down", "Server.InternalError")


# --- Throttling -------------------------------------------------------------------------------------


def calls_until_throttled(region: Region, operation: str, **params: Any) -> int:
    """How many calls succeed before one is throttled."""
    for count in range(2000):
        try:
            region.call(operation, **params)
        except ApiError as error:
            return count if (error.code, error.status) == ("RequestLimitExceeded", 503) else -1
    return 2000


def test_each_operation_has_its_own_token_bucket_that_refills_every_second() -> None:
    region = Region(throttled=True)
    narrow = {"Filters": [{"Name": "state", "Values": ["available"]}]}
    assert calls_until_throttled(region, "DescribeSubnets", **narrow) == 100
    # Calls without a filter have another bucket.
    assert calls_until_throttled(region, "DescribeSubnets") == 50
    assert calls_until_throttled(region, "DescribeSecurityGroups") == 50
    region.wait(1)
    assert calls_until_throttled(region, "DescribeSubnets", **narrow) == 20
    region.wait(3600)
    assert calls_until_throttled(region, "DescribeSubnets", **narrow) == 100


def test_terminate_instances_consumes_a_token_for_each_instance() -> None:
    region = Region(throttled=True)
    made = [i.id for i in region.launch(600)]
    region.call("TerminateInstances", InstanceIds=made)
    refused = region.refusal("TerminateInstances", InstanceIds=made)
    assert refused.code == "RequestLimitExceeded"
    region.wait(10)
    region.call("TerminateInstances", InstanceIds=made)


# --- Replay -----------------------------------------------------------------------------------------


def run_with_faults(seed: int) -> str:
    """All responses, events and costs of a run with random faults, as text."""
    rules = [
        faults.Lost(chance=0.1),
        faults.Throttled(chance=0.1),
        faults.NoCapacity(chance=0.3),
        faults.NeverBoots(chance=0.1),
        faults.HostFails(chance=0.2, after_s=2000),
        faults.Dies(chance=0.2, after_s=3000),
        faults.Stale(chance=0.3, lag_s=20),
    ]
    region = Region(seed=seed)
    template = region.template()
    region.reserve(total=5)
    region.reserve("p5.48xlarge", "b", kind="capacity-block", end_s=START_S + 40_000)
    for rule in rules:
        region.state.faults.add(rule)
    responses: list[Any] = []
    for number in range(60):
        region.wait(1000)
        for operation, params in (
            ("CreateFleet", fleet_params(template, number)),
            ("DescribeInstances", {}),
            ("DescribeCapacityReservations", {}),
        ):
            try:
                responses.append(region.call(operation, **params))
            except (ApiError, LostResponse) as error:
                responses.append(str(error))
        running = [i.id for i in region.state.instances if i.state == "running"]
        if len(running) > 8:
            try:
                region.call("TerminateInstances", InstanceIds=running[:4])
            except (ApiError, LostResponse) as error:
                responses.append(str(error))
    return json.dumps(
        [responses, region.events, sorted(region.state.ledger.nano_usd(0, 1 << 40).items())], default=str
    )


def fleet_params(template: str, number: int) -> dict[str, Any]:
    return {
        "Type": "instant",
        "LaunchTemplateConfigs": [config(template, "m5.large/a", "m5.xlarge/b", "m5.large/c")],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1 + number % 3},
        "ClientToken": f"t-{number}",
    }


def test_a_seed_replays_the_same_run_and_another_seed_does_not() -> None:
    assert run_with_faults(1) == run_with_faults(1)
    assert run_with_faults(1) != run_with_faults(2)
