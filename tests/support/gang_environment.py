"""Gangs of three members, of which each needs a node: where they can run, and what was launched for them."""

from collections import defaultdict
from typing import Any

import pod_groups
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.sim.ec2.entities import Reservation

LARGE, GPU = "m5.large", "p5.48xlarge"
ONE_PER_NODE: dict[str, dict[str, Any]] = {LARGE: {"cpu": "1500m"}, GPU: {"cpu": "150"}}
CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
DAY_S, MINUTE_S = 86_400, 60


def block(env: AppEnvironment, total: int) -> Reservation:
    now_s = env.clock.now_s()
    return env.reserve(GPU, total, kind="capacity-block", start_s=now_s, end_s=now_s + DAY_S)


async def reserved(env: AppEnvironment, *slots: Reservation, **template: Any) -> None:
    """A NodePool with only these slots, all of one instance type."""
    await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
    types = instance_types(slots[0].instance_type)
    await env.node_pool(requirements=[types, capacity_types("reserved")], **template)


async def train(env: AppEnvironment, replicas: int = 3, instance_type: str = LARGE) -> None:
    await env.create(pod_groups.PATH, pod_groups.document("train", replicas))
    await env.deploy("train", replicas, **ONE_PER_NODE[instance_type], **pod_groups.member())


def is_forming(node: Node) -> bool:
    return any(one.key == names.FORMING_TAINT for one in node.spec.taints)


def assert_launched_whole(env: AppEnvironment, *, is_replaced: bool = False) -> None:
    """Every gang launch with a Launched NodeClaim had all of its NodeClaims. `is_replaced`: a single node of the gang may
    have been replaced later."""
    existed: dict[str, set[str]] = defaultdict(set)
    launched: set[str] = set()
    for claim in env.ever(NodeClaim):
        launch = claim.metadata.annotations.get(names.GANG_LAUNCH, "")
        existed[launch].add(claim.metadata.name)
        if conditions.holds(claim.status.conditions, claim_conditions.LAUNCHED):
            launched.add(launch)
            assert claim.status.provider_id
    assert is_replaced or "" not in launched, "a NodeClaim of no gang was launched"
    for launch in launched - {""}:
        assert len(existed[launch]) == int(launch.rpartition("/")[2])
