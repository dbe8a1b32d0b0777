"""Rate limits of AWS calls."""

import pytest

from holdfast.cloud.aws.client.rates import Bucket, Rates


def test_calls_within_the_burst_do_not_wait_and_later_calls_do() -> None:
    bucket = Bucket(per_second=2, burst=3)
    assert [bucket.take(0) for _ in range(6)] == [0, 0, 0, 0.5, 1.0, 1.5]


def test_tokens_refill_up_to_the_burst() -> None:
    bucket = Bucket(per_second=2, burst=3)
    for _ in range(3):
        bucket.take(0)
    assert bucket.take(0.5) == 0
    assert bucket.take(0.5) == 0.5
    assert [bucket.take(1000) for _ in range(4)] == [0, 0, 0, 0.5]


def test_backward_clock_refills_no_tokens() -> None:
    bucket = Bucket(per_second=1, burst=1)
    bucket.take(100)
    assert bucket.take(50) == 1


@pytest.mark.parametrize("operation", ["CreateFleet", "TerminateInstances", "CreateTags", "RunInstances"])
def test_reads_do_not_delay_writes(operation: str) -> None:
    rates = Rates()
    while rates.take("ec2", "DescribeInstances", 0) == 0:
        pass
    assert rates.take("ec2", "DescribeSubnets", 0) > 0
    assert rates.take("ec2", operation, 0) == 0
    assert rates.take("iam", "GetInstanceProfile", 0) == 0
