"""Calls to AWS in an idle cluster, in virtual time."""

import pytest

import idle_environment
from holdfast.cloud.aws.instances import ec2_instances, instance_status

MINUTES = 10
CALLS_PER_MINUTE = 8  # at most, without SQS


@pytest.mark.parametrize(("nodes", "reservations"), [(0, 0), (12, 2)])
def test_idle_cluster_makes_few_calls(nodes: int, reservations: int) -> None:
    counted = idle_environment.calls(nodes, reservations, MINUTES)
    assert counted["DescribeInstances"] <= MINUTES + 1  # one list per minute serves all controllers
    assert counted["DescribeInstanceStatus"] <= MINUTES + 1
    assert counted.total() <= 5 * MINUTES


def test_idle_cluster_with_several_pages_of_instances_makes_few_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve nodes in pages of five, like 2,400 nodes in pages of a thousand."""
    monkeypatch.setattr(ec2_instances, "PAGE", 5)
    monkeypatch.setattr(instance_status, "PAGE", 5)
    assert idle_environment.calls(12, 2, MINUTES).total() <= CALLS_PER_MINUTE * MINUTES
