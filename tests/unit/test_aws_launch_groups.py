"""Which launches are one fleet, and what names its call."""

from dataclasses import replace
from typing import Any

from aws_builders import reservation
from aws_launches import capacity_type, claim, resolved, selecting, types
from holdfast.cloud.aws import launch_groups
from holdfast.cloud.aws.launch_groups import Group
from holdfast.ports import LaunchRequest

ON_DEMAND = capacity_type("on-demand")


def request(name: str = "claim-1", *requirements: dict[str, Any], **fields: Any) -> LaunchRequest:
    node_class = fields.pop("node_class", resolved())
    plain: dict[str, Any] = {
        "claim": claim(*(requirements or (ON_DEMAND,)), name=name),
        "node_class": node_class,
        "token": "t" * 32,
        "slot": None,
        "instance_types": types(node_class),
    }
    return LaunchRequest(**(plain | fields))


def groups(*requests: LaunchRequest) -> list[Group]:
    members = [launch_groups.member(index, each) for index, each in enumerate(requests)]
    return launch_groups.groups(members)


def test_claims_that_differ_in_name_alone_are_one_fleet() -> None:
    (group,) = groups(request("a"), request("b"), request("c"))
    assert [member.index for member in group.members] == [0, 1, 2]


def test_whatever_changes_what_is_launched_is_another_fleet() -> None:
    first = request()
    others = [
        request("b", capacity_type("spot")),
        replace(first, slot="cr-1"),
        replace(first, token="u" * 32),
        replace(first, node_class=resolved(name="other")),
        replace(first, instance_types=first.instance_types[:1]),
        replace(first, claim=claim(ON_DEMAND, meta={"labels": {"team": "ml"}})),
        replace(first, claim=claim(ON_DEMAND, taints=[{"key": "gpu", "effect": "NoSchedule"}])),
    ]
    assert len(groups(first, *others)) == len(others) + 1


def test_a_fleet_has_a_bound() -> None:
    sizes = [len(group.members) for group in groups(*[request()] * 2001)]
    assert sizes == [1000, 1000, 1]
    tokens = {launch_groups.client_token(group, 0) for group in groups(*[request()] * 2001)}
    assert len(tokens) == 3


def test_a_call_has_the_same_name_in_another_life_and_another_for_another_try() -> None:
    """Counts and prices change by themselves; who asks again must not be taken for somebody else."""
    node_class = selecting()
    (before,) = groups(request(node_class=node_class, instance_types=types(node_class, reservation("cr-1"))))
    fewer = types(node_class, reservation("cr-1", available=1))
    (after,) = groups(request(node_class=node_class, instance_types=fewer))
    assert launch_groups.client_token(before, 0) == launch_groups.client_token(after, 0)
    assert launch_groups.client_token(before, 0) != launch_groups.client_token(before, 1)


def test_a_client_token_is_as_short_as_ec2_wants_it() -> None:
    for length in (1, 36, 64, 300):
        (group,) = groups(request(token="t" * length))
        assert 1 <= len(launch_groups.client_token(group, 0)) <= 64
