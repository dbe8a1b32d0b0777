"""The controllers of classes and NodePools are killed between any two of their writes, and started anew."""

from typing import Any

import pytest

from class_world import ClassWorld, run
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from objects import nodeclaim

WRITES = 16  # what it takes to bring the objects below to where they belong, and the class to its end
THEIRS = {
    "karpenter.sh/nodepool-hash": "1",
    "karpenter.sh/nodepool-hash-version": "v3",
    "karpenter.k8s.aws/ec2nodeclass-hash": "2",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
}


async def live(world: ClassWorld) -> None:
    """A fleet that another autoscaler left, with a class that is deleted when its last claim has gone."""
    await world.stop()
    meta = {"annotations": THEIRS, "labels": {"karpenter.sh/nodepool": "default"}}
    launched = {"providerID": "aws:///a/i-1", "capacity": {"cpu": "4"}}
    reserved = world.aws.reserve()
    ending = await world.node_class("ending")
    await world.node_class(capacityReservationSelectorTerms=[{"id": reserved.id}])
    await world.pool()
    for name in ("one", "two"):
        await world.create(nodeclaim(name, meta, launched | {"providerID": f"aws:///a/{name}"}))
    await world.start()
    await world.kube.delete(ending)
    await world.settle(30)


async def left(world: ClassWorld) -> list[dict[str, Any]]:
    """Every object, without what says when it was written."""
    kinds: tuple[type[Object], ...] = (EC2NodeClass, NodePool, NodeClaim)
    found = [to_wire(obj) for kind in kinds for obj in (await world.kube.list(kind)).items]
    for document in found:
        for field in ("resourceVersion", "uid", "creationTimestamp", "generation"):
            document["metadata"].pop(field, None)
        status = document.get("status", {})
        status.pop("instanceProfile", None)  # its name comes from the uid
        said = status.pop("conditions", ())
        document["said"] = sorted((c["type"], c["status"], c["reason"], c["message"]) for c in said)
    return found


def outcome(lives_for: int | None) -> tuple[list[dict[str, Any]], set[str], int]:
    """The objects at the end, how many instance profiles there are, and how many writes it took."""
    result: list[tuple[list[dict[str, Any]], set[str], int]] = []

    async def test(world: ClassWorld) -> None:
        world.wire.lives_for = lives_for
        await live(world)
        if lives_for is not None:
            assert len(world.wire.writes) == lives_for
            await world.stop()
            world.wire.lives_for = None
            await world.start()
            await world.settle(30)
        result.append((await left(world), world.profiles(), len(world.wire.writes)))

    run(test)
    return result[0]


@pytest.fixture(scope="module")
def undisturbed() -> tuple[list[dict[str, Any]], set[str], int]:
    return outcome(None)


def test_every_write_is_one_of_those_after_which_it_is_killed(
    undisturbed: tuple[list[dict[str, Any]], set[str], int],
) -> None:
    objects, profiles, writes = undisturbed
    assert writes == WRITES
    assert [document["metadata"]["name"] for document in objects] == ["default", "default", "one", "two"]
    assert len(profiles) == 1


@pytest.mark.parametrize("writes", range(WRITES))
def test_killed_after_any_write_the_next_program_ends_where_the_first_would_have(
    writes: int, undisturbed: tuple[list[dict[str, Any]], set[str], int]
) -> None:
    objects, profiles, _ = outcome(writes)
    assert objects == undisturbed[0]
    assert len(profiles) == 1
