"""Nodes that are paired with all NodeClaims at once have the NodeClaims that they have one by one."""

import random

import pytest

from holdfast.state.conversion import nodes
from objects import node, nodeclaim

IDS = ("", "cloud:///1", "cloud:///2", "cloud:///3")
NAMES = ("", "n0", "n1", "n2", "n3")


@pytest.mark.parametrize("seed", range(100))
def test_pairs_have_the_claims_that_nodes_have_one_by_one(seed: int) -> None:
    dice = random.Random(seed)
    there = [node(name, spec={"providerID": dice.choice(IDS)}) for name in NAMES[1:]]
    claims = [
        nodeclaim(f"c{number}", {}, {"providerID": dice.choice(IDS), "nodeName": dice.choice(NAMES)})
        for number in dice.sample(range(9), 6)
    ]
    found = nodes.pairs(there, claims)
    for pair in found[: len(there)]:
        assert pair.node is not None
        same_provider_id = [c for c in claims if c.status.provider_id == pair.node.spec.provider_id]
        names_node = [c for c in claims if c.status.node_name == pair.node.metadata.name]
        assert pair.claim == nodes.claim_of_node(same_provider_id, names_node)
    taken = [pair.claim.metadata.name for pair in found if pair.claim is not None]
    assert set(taken) == {claim.metadata.name for claim in claims if claim.status.provider_id}
