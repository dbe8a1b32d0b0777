"""The scaled clock, the program's clock and EC2's clock."""

import asyncio
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from holdfast.cloud.aws.client.ec2_clock import Ec2Clock
from holdfast.runtime.clock import ProgramClock, ScaledClock
from manual_ports import ManualClock


def test_scaled_clock_runs_at_its_speed() -> None:
    real = ManualClock()
    clock = ScaledClock(real, 60)
    start_s, mark_s = clock.now_s(), clock.monotonic_s()
    assert start_s == real.now_s()
    asyncio.run(real.sleep(2))
    assert clock.now_s() - start_s == 120
    assert clock.monotonic_s() - mark_s == 120


def test_a_sleep_in_scaled_time_is_shorter_in_real_time() -> None:
    real = ManualClock()
    before_s = real.monotonic_s()
    asyncio.run(ScaledClock(real, 60).sleep(90))
    assert real.monotonic_s() - before_s == 1.5


class Wall:
    """The clock of a process whose wall clock a test can set."""

    def __init__(self) -> None:
        self._steady = ManualClock()
        self.set_s = 0.0  # by how much the wall clock was set forward

    def now_s(self) -> int:
        return int(self._steady.now_s() + self.set_s)

    def monotonic_s(self) -> float:
        return self._steady.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self._steady.advance(seconds)


def answers(clock: ProgramClock, wall: Wall, offsets_s: Sequence[int], *, every_s: float = 5) -> int:
    """The offset after the API server reported these offsets, one after the other."""
    for offset_s in offsets_s:
        wall.advance(every_s)
        clock.observe(clock.steady.now_s() + offset_s, 0.1)
    return clock.offset_s


@pytest.mark.parametrize("offset_s", [-3600, -3, 3, 3600])
def test_first_answer_of_the_api_server_sets_the_time(offset_s: int) -> None:
    wall = Wall()
    clock = ProgramClock(wall)
    assert answers(clock, wall, [offset_s]) == offset_s
    assert clock.now_s() == wall.now_s() + offset_s
    assert clock.monotonic_s() == wall.monotonic_s()


@pytest.mark.parametrize("offset_s", [-2, -1, 0, 1, 2])
def test_small_differences_are_ignored(offset_s: int) -> None:
    wall = Wall()
    assert answers(ProgramClock(wall), wall, [offset_s]) == 0


@pytest.mark.parametrize(
    ("reported_s", "every_s", "adopted_s"),
    [
        ([3600], 60, 0),
        ([3600, 3600], 60, 0),
        ([3600, 3600, 3600], 5, 3600),
        ([3600, 3601, 3599], 5, 3599),
        ([3600, 3600, 3600], 1, 0),  # too soon after each other
        ([3600] * 11, 1, 3600),
        ([3600, 0, 3600, 0, 3600], 60, 0),
        ([3600, 7200, 3600, 7200], 60, 0),
    ],
)
def test_another_time_is_adopted_when_several_answers_agree(
    reported_s: list[int], every_s: float, adopted_s: int
) -> None:
    wall = Wall()
    clock = ProgramClock(wall)
    answers(clock, wall, [0])
    assert answers(clock, wall, reported_s, every_s=every_s) == adopted_s


def test_slow_answer_does_not_set_the_time() -> None:
    wall = Wall()
    clock = ProgramClock(wall)
    clock.observe(wall.now_s() + 3600, 2.5)
    assert clock.now_s() == wall.now_s()


@pytest.mark.parametrize("step_s", [-1e6, -3600, 3600, 1e6])
def test_step_of_the_wall_clock_changes_nothing(step_s: float) -> None:
    wall = Wall()
    clock = ProgramClock(wall)
    answers(clock, wall, [0])
    before_s = clock.now_s()
    wall.set_s += step_s
    assert clock.now_s() == before_s
    wall.advance(10)
    assert clock.now_s() == before_s + 10
    wall.set_s = 0
    assert clock.now_s() == before_s + 10


def test_wall_clock_is_used_until_the_api_server_answers() -> None:
    wall = Wall()
    clock = ProgramClock(wall)
    wall.set_s = 3600
    assert clock.now_s() == wall.now_s()


def test_large_offset_is_logged_once() -> None:
    wall = Wall()
    clock = ProgramClock(wall)
    with capture_logs() as logged:
        answers(clock, wall, [31, 31, 32, 31])
    assert [(line["log_level"], line["ahead_s"]) for line in logged] == [("warning", -31)]


# --- EC2's clock ------------------------------------------------------------------------------------


def ec2_answers(clock: Ec2Clock, wall: Wall, offsets_s: Sequence[int], *, every_s: float = 5) -> int:
    """How far EC2's clock is ahead of the program's after EC2 reported these offsets."""
    for offset_s in offsets_s:
        wall.advance(every_s)
        clock.observe(wall.now_s() + offset_s, 0.1)
    return clock.ahead_s


@pytest.mark.parametrize(
    ("reported_s", "every_s", "ahead_s"),
    [
        ([240] * 4, 60, 0),
        ([240] * 5, 5, 240),
        ([-240] * 5, 5, -240),
        ([240] * 5, 1, 0),  # too soon after each other
        ([2] * 5, 5, 0),
        ([3600] * 100, 5, 0),  # EC2 would refuse our requests
        ([-3600] * 100, 5, 0),
        ([253_402_300_799] * 100, 5, 0),
    ],
)
def test_time_of_ec2_is_bounded_and_confirmed(reported_s: list[int], every_s: float, ahead_s: int) -> None:
    wall = Wall()
    program = ProgramClock(wall)
    clock = Ec2Clock(program)
    assert ec2_answers(clock, wall, reported_s, every_s=every_s) == ahead_s
    assert clock.now_s() == wall.now_s() + ahead_s
    assert program.now_s() == wall.now_s()
    assert clock.to_program_s(clock.now_s()) == program.now_s()
    assert clock.reported_s == reported_s[-1]


def test_time_of_ec2_stays_when_the_time_of_the_api_server_changes() -> None:
    wall = Wall()
    program = ProgramClock(wall)
    clock = Ec2Clock(program)
    ec2_answers(clock, wall, [0] * 5)
    answers(program, wall, [600])
    assert clock.now_s() == wall.now_s()
    assert clock.to_program_s(wall.now_s()) == wall.now_s() + 600


def test_impossible_time_of_ec2_is_logged_once() -> None:
    wall = Wall()
    clock = Ec2Clock(ProgramClock(wall))
    with capture_logs() as logged:
        ec2_answers(clock, wall, [3600] * 10)
    assert [(line["log_level"], line["ahead_s"]) for line in logged] == [("warning", 3600)]
