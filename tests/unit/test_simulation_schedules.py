"""When Deployments scale and when Jobs run in a simulation."""

import itertools
from datetime import UTC, datetime

import pytest

from holdfast.api.simulation import DailyReplicas, JobRuns, ReplicasAt
from holdfast.simulate import schedules

HOUR_S = 3600
MONDAY_S = int(datetime(2026, 11, 16, tzinfo=UTC).timestamp())
SATURDAY_S = MONDAY_S + 5 * schedules.DAY_S


def curve(**fields: int | str) -> DailyReplicas:
    points = (ReplicasAt(at="06:00", replicas=10), ReplicasAt(at="18:00", replicas=34))
    return DailyReplicas(deployment="web", points=points, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(("hour", "count"), [(6, 10), (12, 22), (18, 34), (0, 22), (21, 28), (3, 16)])
def test_curve_is_straight_between_its_points_and_over_midnight(hour: int, count: int) -> None:
    assert schedules.replicas(curve(), MONDAY_S + hour * HOUR_S) == count


def test_weekend_has_a_share_of_the_curve() -> None:
    halved = curve(weekend_percent=50)
    assert schedules.replicas(halved, SATURDAY_S + 18 * HOUR_S) == 17
    assert schedules.replicas(halved, SATURDAY_S - 1) == pytest.approx(22, abs=0.01)


def test_one_point_is_a_constant() -> None:
    one = DailyReplicas(deployment="web", points=(ReplicasAt(at="06:00", replicas=7),))
    assert list(schedules.scalings(one, MONDAY_S, MONDAY_S + schedules.DAY_S, 1)) == [(MONDAY_S, 7)]


def test_scalings_are_changes_only_and_follow_the_interval() -> None:
    found = list(schedules.scalings(curve(every="1h"), MONDAY_S, MONDAY_S + schedules.DAY_S, 1))
    assert all((at_s - MONDAY_S) % HOUR_S == 0 for at_s, _ in found)
    assert [count for _, count in found][:3] == [22, 20, 18]
    counts = [count for _, count in found]
    assert all(one != other for one, other in itertools.pairwise(counts))


def test_noise_follows_from_the_seed_and_is_bounded() -> None:
    noisy = curve(noise_percent=10, every="1h")
    runs = [list(schedules.scalings(noisy, MONDAY_S, MONDAY_S + schedules.DAY_S, seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    for at_s, count in runs[0]:
        plain = schedules.replicas(noisy, at_s)
        assert abs(count - plain) <= 0.1 * plain + 0.5


def test_job_runs_at_its_times_and_then_regularly() -> None:
    runs = JobRuns(job="train", at=("2h", "5h"), every="8h")
    found = schedules.job_starts(runs, MONDAY_S, MONDAY_S + schedules.DAY_S, 1)
    assert [(at_s - MONDAY_S) // HOUR_S for at_s in found] == [2, 5, 13, 21]


def test_job_without_times_runs_regularly_from_the_start() -> None:
    runs = JobRuns(job="train", every="12h")
    found = schedules.job_starts(runs, MONDAY_S, MONDAY_S + schedules.DAY_S, 1)
    assert [(at_s - MONDAY_S) // HOUR_S for at_s in found] == [0, 12]


def test_random_runs_are_as_many_a_day_as_asked() -> None:
    runs = JobRuns(job="train", per_day=20)
    found = schedules.job_starts(runs, MONDAY_S, MONDAY_S + 2 * schedules.DAY_S, 1)
    assert len(found) == 40
    assert found == sorted(found)
    assert sum(at_s < MONDAY_S + schedules.DAY_S for at_s in found) == 20


def test_length_of_a_run_varies_within_its_percentage() -> None:
    lengths = schedules.run_lengths(JobRuns(job="train", runs="1h", runs_percent=20), 1)
    found = [next(lengths) for _ in range(50)]
    assert all(one is not None and 2880 <= one <= 4320 for one in found)
    assert len(set(found)) > 1
    assert next(schedules.run_lengths(JobRuns(job="train"), 1)) is None
