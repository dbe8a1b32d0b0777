"""Random fault simulations of the whole program: at the end every pod that can run runs, and nothing is left over.

A failing seed prints the command that replays it. `make sim SEED=1 N=10000` runs more seeds,
`make sim SEED=1000000 N=1000` more of the long ones, `make sim SEED=2000000 N=1000` more of those with many restarts, and
`make sim SEED=3000000 N=1000` more of those with gangs and ProvisioningRequests.
"""

import pytest
import structlog

import aws_environment
from fault_simulation import generate_gangs, harness
from fault_simulation.generate import LASTS_S, LONG, RESTARTS, schedule
from fault_simulation.generate_gangs import GANGS
from fault_simulation.harness import Outcome
from holdfast.data import ec2

SEEDS = 200
LONG_SEEDS = 6
RESTARTS_SEEDS = 12
GANGS_SEEDS = 60
SEEDS_PER_TEST = 5


def run(seed: int) -> Outcome:
    replay = f"make sim SEED={seed}"
    structlog.get_logger().info(
        "fault simulation", replay_with=replay
    )  # logged first, in case the run is killed
    outcome = harness.run(seed)
    assert not outcome.problems, "\n".join([f"replay with: {replay}", *outcome.problems, *outcome.story])
    return outcome


@pytest.mark.parametrize("first", range(1, SEEDS + 1, SEEDS_PER_TEST))
def test_all_pods_run_and_nothing_is_left_over_after_random_faults(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed)


@pytest.mark.parametrize("seed", range(LONG, LONG + LONG_SEEDS))
def test_long_runs_with_reservations_break_no_rule(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", range(RESTARTS, RESTARTS + RESTARTS_SEEDS))
def test_runs_with_many_restarts_break_no_rule(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("first", range(GANGS, GANGS + GANGS_SEEDS, SEEDS_PER_TEST))
def test_gangs_and_requests_are_whole_or_not_there_after_random_faults(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        run(seed)


@pytest.mark.parametrize("seed", [1013, GANGS + 13])
def test_seed_replays_the_same_run(seed: int) -> None:
    assert run(seed) == run(seed)


def test_seeds_cover_every_step_and_fault() -> None:
    schedules = [schedule(seed) for seed in range(1, SEEDS + 1)]
    steps = {step.what for each in schedules for step in each.steps}
    assert steps == {
        *("scale", "delete pod", "delete claim", "delete node", "kill instance", "drift"),
        *("take", "give", "grow", "cancel"),
        *("crash", "cut", "down", "request"),
    }
    fault_types = {type(fault).__name__ for each in schedules for fault in each.ec2_faults}
    assert fault_types == {
        *("Lost", "Throttled", "Broken", "Denied", "Stale"),
        *("NoCapacity", "Partial", "NeverBoots", "Silent", "Dies"),
    }
    assert all(fault.until_s <= LASTS_S for each in schedules for fault in each.ec2_faults)
    assert {each.replicas for each in schedules} == {1, 2}
    slots = [one for each in schedules for one in each.slots]
    assert {(one.block, one.ends_s is None) for one in slots} == {
        (False, True),
        (False, False),
        (True, False),
    }
    assert {one.away_max for each in schedules for one in each.pools} == {0, 1, 2, 100}
    assert {(one.away_max, one.disk) for each in schedules for one in each.apps} == {
        (unavailable, disk) for unavailable in (None, 0, 1, 2) for disk in (False, True)
    }


def test_long_seeds_cover_every_step_of_reservations() -> None:
    schedules = [schedule(seed) for seed in range(LONG, LONG + 100)]
    assert {step.what for each in schedules for step in each.steps} == {
        *("drift", "give", "take", "grow", "scale", "extend", "reclaim", "cancel"),
        *("crash", "cut", "down", "clock", "request"),
    }
    kinds = {(one.block, one.interruptible) for each in schedules for one in each.slots}
    assert kinds == {(False, False), (True, False), (False, True)}
    assert {each.replicas for each in schedules} == {1, 2}


def test_restart_seeds_cover_crashes_next_to_free_slots() -> None:
    schedules = [schedule(seed) for seed in range(RESTARTS, RESTARTS + 100)]
    assert {step.what for each in schedules for step in each.steps} == {
        *("scale", "delete claim", "drift", "give", "crash"),
    }
    assert not any(each.ec2_faults for each in schedules)
    assert {each.replicas for each in schedules} == {1, 2}


def test_seeds_of_gangs_cover_every_kind_and_step() -> None:
    schedules = [generate_gangs.schedule(seed) for seed in range(GANGS, GANGS + 100)]
    assert {step.what for each in schedules for step in each.steps} == {
        *("template", "drop template", "create request", "end request", "replace request", "replace group"),
        *("scale", "delete pod", "delete claim", "delete node", "kill instance", "take", "give", "grow"),
        *("crash", "cut", "down", "request"),
    }
    assert {app.gang for each in schedules for app in each.apps} == {"", *generate_gangs.SOURCES}
    requests = [one for each in schedules for one in each.requests]
    assert {one.class_name for one in requests} == {
        generate_gangs.OWN,
        generate_gangs.ATOMIC,
        generate_gangs.CHECK,
    }
    assert {(one.is_in_one_zone, one.is_used) for one in requests} == {
        (is_in_one_zone, is_used) for is_in_one_zone in (False, True) for is_used in (False, True)
    }
    assert all(fault.until_s <= each.lasts_s for each in schedules for fault in each.ec2_faults)
    assert {one.block for each in schedules for one in each.slots} == {False, True}
    assert {each.replicas for each in schedules} == {1, 2}


def test_capacity_blocks_are_of_a_type_that_ec2_offers_in_blocks() -> None:
    types = {one.name: one for one in ec2.region(aws_environment.REGION).types}
    schedules = [schedule(seed) for first in (1, LONG) for seed in range(first, first + 100)]
    schedules += [generate_gangs.schedule(seed) for seed in range(GANGS, GANGS + 100)]
    blocks = [(each, one) for each in schedules for one in each.slots if one.block]
    assert blocks
    for each, block in blocks:
        assert "capacity-block" in types[block.instance_type].usage_classes
        assert all(
            block.instance_type in pool.instance_types for pool in each.pools if block.name in pool.slots
        )
