"""Which NodeClaims one CreateFleet call launches, and its client token."""

from dataclasses import replace
from typing import Any

import pytest

from aws_builders import reservation
from aws_launches import capacity_type, claim, resolved, selecting, types
from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.launch import launch_groups
from holdfast.cloud.aws.launch.launch_groups import Group
from holdfast.model.instances import Instance, InstanceState
from holdfast.ports import LaunchRequest
from holdfast.state.conversion import times

ON_DEMAND = capacity_type("on-demand")


def request(name: str = "claim-1", *requirements: dict[str, Any], **fields: Any) -> LaunchRequest:
    node_class = fields.pop("node_class", resolved())
    plain: dict[str, Any] = {
        "claim": claim(*(requirements or (ON_DEMAND,)), name=name),
        "node_class": node_class,
        "token": "t" * 32,
        "reservation_id": None,
        "instance_types": types(node_class),
    }
    return LaunchRequest(**(plain | fields))


def groups(*requests: LaunchRequest) -> list[Group]:
    members = [launch_groups.member(index, each) for index, each in enumerate(requests)]
    return launch_groups.groups(members)


def test_claims_that_differ_only_in_name_share_a_fleet() -> None:
    (group,) = groups(request("a"), request("b"), request("c"))
    assert [member.index for member in group.members] == [0, 1, 2]


def test_claims_with_different_launch_inputs_get_different_fleets() -> None:
    first = request()
    other_requests = [
        request("b", capacity_type("spot")),
        replace(first, reservation_id="cr-1"),
        replace(first, token="u" * 32),
        replace(first, node_class=resolved(name="other")),
        replace(first, instance_types=first.instance_types[:1]),
        replace(first, claim=claim(ON_DEMAND, meta={"labels": {"team": "ml"}})),
        replace(first, claim=claim(ON_DEMAND, taints=[{"key": "gpu", "effect": "NoSchedule"}])),
    ]
    assert len(groups(first, *other_requests)) == len(other_requests) + 1


def test_fleet_size_is_limited() -> None:
    sizes = [len(group.members) for group in groups(*[request()] * 2001)]
    assert sizes == [1000, 1000, 1]
    tokens = {launch_groups.client_token(group, 0) for group in groups(*[request()] * 2001)}
    assert len(tokens) == 3


def test_client_token_is_the_same_after_a_restart_and_differs_per_attempt() -> None:
    """Counts and prices change between calls. If they changed the token, a repeated call would launch again."""
    node_class = selecting()
    (before,) = groups(request(node_class=node_class, instance_types=types(node_class, reservation("cr-1"))))
    fewer = types(node_class, reservation("cr-1", available=1))
    (after,) = groups(request(node_class=node_class, instance_types=fewer))
    assert launch_groups.client_token(before, 0) == launch_groups.client_token(after, 0)
    assert launch_groups.client_token(before, 0) != launch_groups.client_token(before, 1)


def test_client_token_has_at_most_64_characters() -> None:
    for length in (1, 36, 64, 300):
        (group,) = groups(request(token="t" * length))
        assert 1 <= len(launch_groups.client_token(group, 0)) <= 64


def launched(**fields: Any) -> EC2Instance:
    """An m5.large that an earlier call for `request` launched on demand."""
    plain: dict[str, Any] = {
        "provider_id": "aws:///us-west-2a/i-1",
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": "on-demand",
        "state": InstanceState.RUNNING,
        "launched_s": 0,
        "launch_token": "t" * 32,
    }
    return EC2Instance("i-1", Instance(**(plain | fields)), "subnet-a", frozenset(), {})


def adopters(ec2_instance: EC2Instance, *requests: LaunchRequest) -> list[int]:
    members = [launch_groups.member(index, each) for index, each in enumerate(requests)]
    return list(launch_groups.adopted(members, [ec2_instance]))


def test_an_instance_is_adopted_by_the_claim_whose_token_launched_it() -> None:
    first, second = request("a"), request("b", token="u" * 32)
    assert adopters(launched(), first, second) == [0]
    assert adopters(launched(launch_token="u" * 32), first, second) == [1]
    assert adopters(launched(launch_token=None), first, second) == []


CREATED_S = 1_700_000_000


def of_karpenter(created_s: int | None = CREATED_S, pool: str = "default") -> LaunchRequest:
    meta: dict[str, Any] = {"labels": {names.NODEPOOL: pool}}
    if created_s is not None:
        meta["creationTimestamp"] = times.text(created_s)
    return request(claim=claim(ON_DEMAND, meta=meta))


def untagged(**fields: Any) -> EC2Instance:
    """An instance that Karpenter launched and did not write on its NodeClaim."""
    labels = ((aws.EC2NODECLASS, "default"), (names.NODEPOOL, "default"))
    return launched(**({"launch_token": None, "launched_s": CREATED_S + 5, "labels": labels} | fields))


@pytest.mark.parametrize(
    ("ec2_instance", "launch", "adopted"),
    [
        (untagged(), of_karpenter(), True),
        (untagged(claim="claim-1"), of_karpenter(), True),
        (untagged(claim="another"), of_karpenter(), False),
        (untagged(launched_s=CREATED_S - 60), of_karpenter(), True),
        (untagged(launched_s=CREATED_S - 61), of_karpenter(), False),  # before the NodeClaim existed
        (untagged(), of_karpenter(created_s=None), False),
        (untagged(), of_karpenter(pool="other"), False),
        (untagged(labels=((aws.EC2NODECLASS, "other"), (names.NODEPOOL, "default"))), of_karpenter(), False),
        (untagged(capacity_type="spot"), of_karpenter(), False),
        (untagged(launch_token="u" * 32), of_karpenter(), False),
    ],
)
def test_instance_of_karpenter_is_adopted_by_a_claim_of_its_nodepool(
    ec2_instance: EC2Instance, launch: LaunchRequest, *, adopted: bool
) -> None:
    assert adopters(ec2_instance, launch) == ([0] if adopted else [])


@pytest.mark.parametrize(
    ("fields", "adopted"),
    [
        ({}, True),
        ({"state": InstanceState.STARTING}, True),
        ({"state": InstanceState.ENDING}, False),
        ({"state": InstanceState.GONE}, False),
        ({"instance_type": "c5.large"}, False),  # not among the types of the request
        ({"zone": "us-west-2d"}, False),
        ({"capacity_type": "spot"}, False),  # the claim does not allow it
        ({"capacity_type": "reserved", "reservation_id": "cr-1"}, False),
        ({"reservation_id": "cr-1"}, True),  # EC2 matched it to an open reservation
    ],
)
def test_instance_is_adopted_only_if_it_matches_the_claim(fields: dict[str, Any], *, adopted: bool) -> None:
    assert adopters(launched(**fields), request("a")) == ([0] if adopted else [])


def test_each_instance_is_adopted_once() -> None:
    members = [launch_groups.member(index, request(name)) for index, name in enumerate("abc")]
    both = [launched(), replace(launched(), id="i-2")]
    assert {index: one.id for index, one in launch_groups.adopted(members, both).items()} == {
        0: "i-1",
        1: "i-2",
    }
