"""What the whole program asks AWS for while nothing happens; in virtual time."""

import pytest

import idle_world
from holdfast.cloud.aws.instances import ec2_instances, instance_status

MINUTES = 10
A_MINUTE = 8  # besides SQS, at most


@pytest.mark.parametrize(("nodes", "reservations"), [(0, 0), (12, 2)])
def test_a_settled_cluster_costs_few_calls(nodes: int, reservations: int) -> None:
    counted = idle_world.calls(nodes, reservations, MINUTES)
    assert counted["DescribeInstances"] <= MINUTES + 1  # one listing a minute serves everybody
    assert counted["DescribeInstanceStatus"] <= MINUTES + 1
    assert counted.total() <= 5 * MINUTES


def test_pages_of_machines_cost_calls_and_still_they_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with 2,400 nodes and a page of a thousand."""
    monkeypatch.setattr(ec2_instances, "PAGE", 5)
    monkeypatch.setattr(instance_status, "PAGE", 5)
    assert idle_world.calls(12, 2, MINUTES).total() <= A_MINUTE * MINUTES
