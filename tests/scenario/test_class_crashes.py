"""The controllers of EC2NodeClasses and NodePools crash after each of their writes and are restarted."""

from typing import Any

import pytest

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from nodeclass_environment import NodeClassEnvironment, run
from objects import nodeclaim

WRITES = 16  # until the objects below are reconciled and the deleted class is removed
KARPENTER_HASHES = {
    "karpenter.sh/nodepool-hash": "1",
    "karpenter.sh/nodepool-hash-version": "v3",
    "karpenter.k8s.aws/ec2nodeclass-hash": "2",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v6",
}


async def run_controllers(env: NodeClassEnvironment) -> None:
    """NodeClaims with the hashes of Karpenter, and a class that is deleted while the controllers run."""
    await env.stop()
    meta = {"annotations": KARPENTER_HASHES, "labels": {"karpenter.sh/nodepool": "default"}}
    launched = {"providerID": "aws:///a/i-1", "capacity": {"cpu": "4"}}
    reserved = env.aws.reserve()
    deleted_class = await env.node_class("ending")
    await env.node_class(capacityReservationSelectorTerms=[{"id": reserved.id}])
    await env.pool()
    for name in ("one", "two"):
        await env.create(nodeclaim(name, meta, launched | {"providerID": f"aws:///a/{name}"}))
    await env.start()
    await env.kube.delete(deleted_class)
    await env.settle(30)


async def final_objects(env: NodeClassEnvironment) -> list[dict[str, Any]]:
    """All objects, without the fields that differ between runs."""
    kinds: tuple[type[Object], ...] = (EC2NodeClass, NodePool, NodeClaim)
    found = [to_wire(obj) for kind in kinds for obj in (await env.kube.list(kind)).items]
    for document in found:
        for field in ("resourceVersion", "uid", "creationTimestamp", "generation"):
            document["metadata"].pop(field, None)
        status = document.get("status", {})
        status.pop("instanceProfile", None)  # its name contains the uid
        listed_conditions = status.pop("conditions", ())
        document["said"] = sorted(
            (c["type"], c["status"], c["reason"], c["message"]) for c in listed_conditions
        )
    return found


def outcome(crash_after: int | None) -> tuple[list[dict[str, Any]], set[str], int]:
    """The final objects, the instance profiles, and the number of writes; with a crash after `crash_after` writes."""
    result: list[tuple[list[dict[str, Any]], set[str], int]] = []

    async def test(env: NodeClassEnvironment) -> None:
        env.wire.max_writes = crash_after
        await run_controllers(env)
        if crash_after is not None:
            assert len(env.wire.writes) == crash_after
            await env.stop()
            env.wire.max_writes = None
            await env.start()
            await env.settle(30)
        result.append((await final_objects(env), env.profiles(), len(env.wire.writes)))

    run(test)
    return result[0]


@pytest.fixture(scope="module")
def without_crash() -> tuple[list[dict[str, Any]], set[str], int]:
    return outcome(None)


def test_reconciliation_makes_as_many_writes_as_the_crash_test_covers(
    without_crash: tuple[list[dict[str, Any]], set[str], int],
) -> None:
    objects, profiles, writes = without_crash
    assert writes == WRITES
    assert [document["metadata"]["name"] for document in objects] == ["default", "default", "one", "two"]
    assert len(profiles) == 1


@pytest.mark.parametrize("writes", range(WRITES))
def test_restart_after_a_crash_at_any_write_reaches_the_same_state(
    writes: int, without_crash: tuple[list[dict[str, Any]], set[str], int]
) -> None:
    objects, profiles, _ = outcome(writes)
    assert objects == without_crash[0]
    assert len(profiles) == 1
