"""Random storms over the whole program: when each is over, every pod that can run runs, and nothing is left behind.

A seed that fails says how it is replayed; `make sim SEED=1 N=10000` runs as many as one likes, and
`make sim SEED=1000000 N=1000` as many of the long ones.
"""

import pytest
import structlog

from storms import harness
from storms.generate import LASTS_S, LONG, storm
from storms.harness import Outcome

SEEDS = 200
LONG_SEEDS = 6
AT_ONCE = 5


def run(seed: int) -> Outcome:
    replay = f"make sim SEED={seed}"
    structlog.get_logger().info("storm", replay_with=replay)  # first, for what ends it before its end
    outcome = harness.run(seed)
    assert not outcome.problems, "\n".join([f"replay with: {replay}", *outcome.problems, *outcome.story])
    return outcome


@pytest.mark.parametrize("first", range(1, SEEDS + 1, AT_ONCE))
def test_after_a_storm_all_that_can_run_runs_and_nothing_is_left_behind(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        run(seed)


@pytest.mark.parametrize("seed", range(LONG, LONG + LONG_SEEDS))
def test_while_reservations_are_rolled_and_filled_no_rule_is_broken(seed: int) -> None:
    run(seed)


def test_a_seed_tells_the_same_story_each_time() -> None:
    assert run(1013) == run(1013)


def test_storms_have_everything_that_can_go_wrong_in_them() -> None:
    storms = [storm(seed) for seed in range(1, SEEDS + 1)]
    steps = {step.what for each in storms for step in each.steps}
    assert steps == {
        *("scale", "delete pod", "delete claim", "delete node", "kill machine", "drift"),
        *("take", "give", "grow", "cancel"),
        *("crash", "cut", "down", "request"),
    }
    weather = {type(fault).__name__ for each in storms for fault in each.weather}
    assert weather == {
        *("Lost", "Throttled", "Broken", "Denied", "Stale"),
        *("NoCapacity", "Partial", "NeverBoots", "Silent", "Dies"),
    }
    assert all(fault.until_s <= LASTS_S for each in storms for fault in each.weather)
    assert {each.replicas for each in storms} == {1, 2}
    slots = [one for each in storms for one in each.slots]
    assert {(one.block, one.ends_s is None) for one in slots} == {
        (False, True),
        (False, False),
        (True, False),
    }
    assert {one.away_max for each in storms for one in each.pools} == {0, 1, 2, 100}
    assert {(one.away_max, one.disk) for each in storms for one in each.apps} == {
        (away, disk) for away in (None, 0, 1, 2) for disk in (False, True)
    }


def test_long_storms_have_all_that_reservations_go_through_in_them() -> None:
    storms = [storm(seed) for seed in range(LONG, LONG + 100)]
    assert {step.what for each in storms for step in each.steps} == {
        *("drift", "give", "take", "grow", "scale", "extend", "reclaim", "cancel"),
        *("crash", "cut", "down", "clock", "request"),
    }
    kinds = {(one.block, one.interruptible) for each in storms for one in each.slots}
    assert kinds == {(False, False), (True, False), (False, True)}
    assert {each.replicas for each in storms} == {1, 2}
