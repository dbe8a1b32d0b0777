"""DisruptionCommands: validation, execution, rollback, and provisioning at the same time."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, said, tainted
from holdfast import names
from holdfast.api.claim_conditions import DISRUPTION_REASON
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.api.serving import faults as api_faults
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation
from holdfast.state.conversion import times

REJECTED = "karpenter_voluntary_disruption_failed_validations_total"
FAILURES = "karpenter_voluntary_disruption_queue_failures_total"
OF_DRIFT = {"reason": "drifted", "consolidation_type": ""}


async def one_node(world: AppWorld) -> NodeClaim:
    """The NodeClaim of an on-demand node with one pod."""
    await pool(world, kinds=("on-demand",))
    await world.deploy("web", 1, **ONE_PER_NODE)
    await world.until_running(1)
    (claim,) = await world.claims()
    return claim


def has_replacement(world: AppWorld, old: NodeClaim) -> Callable[[], Awaitable[bool]]:
    async def exists() -> bool:
        return any(claim.metadata.name != old.metadata.name for claim in await world.claims())

    return exists


def replaced(world: AppWorld, old: NodeClaim) -> Callable[[], Awaitable[bool]]:
    async def is_done() -> bool:
        nodes = await world.nodes()
        return await world.gone(NodeClaim, old.metadata.name) and len(nodes) == 1 and is_new(nodes[0])

    return is_done


async def taint_and_condition(world: AppWorld, claim: NodeClaim) -> tuple[bool, Any]:
    """Whether the node has the disruption taint, and the DisruptionReason condition of its NodeClaim."""
    found = await world.kube.get(NodeClaim, claim.metadata.name)
    (node,) = [one for one in await world.nodes() if one.metadata.name == found.status.node_name]
    return tainted(node), said(found, DISRUPTION_REASON)


NOT_DISRUPTED = (False, None)


# --- Validation ---------------------------------------------------------------------------------------


@pytest.mark.fact("D-39", "D-44", "E-2")
def test_command_that_fails_validation_is_rejected_and_no_other_command_replaces_it() -> None:
    async def program(world: AppWorld) -> None:
        await pool(world, types=("m5.xlarge",), kinds=("on-demand",))
        await world.deploy("web", 4, cpu="1700m")
        await world.until_running(4)
        await world.scale("web", 2)
        before = {claim.metadata.name for claim in await world.claims()}
        assert len(before) == 2

        async def all_consolidatable() -> bool:
            return all(said(claim, "Consolidatable") for claim in await world.claims())

        await world.until(all_consolidatable)
        await world.sleep(11)  # the command is decided and not validated yet
        await world.forbid_evictions()
        await world.sleep(120)
        rejections = {
            event.message.partition(",")[0] for event in await world.events("ConsolidationRejected")
        }
        assert rejections == {"Consolidation rejected: churn"}
        counted = [
            world.app.metrics.value(REJECTED, {"reason": "churn", "consolidation_type": kind})
            for kind in ("single", "multi")
        ]
        assert any(counted)
        assert {claim.metadata.name for claim in await world.claims()} == before
        assert not any(map(tainted, await world.nodes()))
        assert len(world.all_machines()) == 2
        await world.kube.delete((await world.kube.list(PodDisruptionBudget)).items[0])

        async def fewer() -> bool:
            return len(await world.claims()) == 1

        await world.until(fewer)
        await world.until_running(2)

    app_world.run(program)


# --- Execution ----------------------------------------------------------------------------------------


@pytest.mark.fact("D-45", "D-46", "E-2", "E-3", "X-5")
def test_node_is_tainted_and_deleted_only_after_its_replacement_is_initialized() -> None:
    async def program(world: AppWorld) -> None:
        old = await one_node(world)
        await drift_all(world)
        await world.until(has_replacement(world, old))
        waited = 0
        while (await world.kube.get(NodeClaim, old.metadata.name)).metadata.deletion_timestamp is None:
            assert await taint_and_condition(world, old) == (True, ("True", "Drifted"))
            assert len(await world.claims()) == 2  # no second command for the node
            assert len(await world.running()) == 1
            waited += 1
            await world.sleep(1)
        assert waited > 5  # until the replacement boots
        (new,) = [claim for claim in await world.claims() if claim.metadata.name != old.metadata.name]
        assert said(new, "Initialized") == ("True", "Initialized")
        for reason in ("DisruptionLaunching", "DisruptionWaitingReadiness"):
            assert {e.involved_object.name for e in await world.events(reason)} == {new.metadata.name}
        assert {e.involved_object.kind for e in await world.events("DisruptionTerminating")} == {
            "Node",
            "NodeClaim",
        }
        await world.until(replaced(world, old))
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("D-48")
def test_slow_drain_does_not_delay_the_replacement_of_other_nodes() -> None:
    async def program(world: AppWorld) -> None:
        old = await one_node(world)
        slow = {"annotations": {"sim.holdfast.dev/stops-after": "900"}, "terminationGracePeriodSeconds": 900}
        await world.deploy("slow", 1, **ONE_PER_NODE, **slow)
        await world.until_running(1, "slow")
        (other,) = [claim for claim in await world.claims() if claim.metadata.name != old.metadata.name]
        await drift_all(world)

        async def draining() -> bool:
            return bool(
                (await world.kube.get(NodeClaim, other.metadata.name)).metadata.deletion_timestamp
            ) and await world.gone(NodeClaim, old.metadata.name)

        await world.until(draining, within_s=600)
        await world.until_running(1)
        assert not await world.gone(NodeClaim, other.metadata.name)  # its pod is still terminating
        await world.sleep(900)
        assert await world.gone(NodeClaim, other.metadata.name)

    app_world.run(program)


# --- Rollback -----------------------------------------------------------------------------------------


@pytest.mark.fact("D-46", "D-47")
def test_deleted_replacement_rolls_the_command_back_and_it_is_retried() -> None:
    async def program(world: AppWorld) -> None:
        old = await one_node(world)
        await drift_all(world)
        await world.until(has_replacement(world, old))
        (new,) = [claim for claim in await world.claims() if claim.metadata.name != old.metadata.name]
        await world.kube.delete(new)

        async def rolled_back() -> bool:
            return await taint_and_condition(world, old) == NOT_DISRUPTED

        await world.until(rolled_back, within_s=30)
        assert world.app.metrics.value(FAILURES, OF_DRIFT) == 1
        assert await world.events("DisruptionFailed")
        await world.until(replaced(world, old))
        await world.until_running(1)

    app_world.run(program)


@pytest.mark.fact("D-45")
def test_node_is_not_deleted_while_its_replacement_cannot_be_created() -> None:
    async def program(world: AppWorld) -> None:
        old = await one_node(world)
        refused = api_faults.Refuse("Forbidden")
        world.line.add(refused, _creates_a_claim, times=1000)
        await drift_all(world)

        async def failed() -> bool:
            return bool(await world.events("DisruptionFailed"))

        await world.until(failed)
        for _ in range(60):
            await world.sleep(1)
            found = await world.kube.get(NodeClaim, old.metadata.name)
            assert found.metadata.deletion_timestamp is None
        assert len(await world.claims()) == 1 == len(await world.running())
        world.line.clear()
        await world.until(replaced(world, old))
        assert len(world.all_machines()) == 2

    app_world.run(program)


def _creates_a_claim(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/nodeclaims")


@pytest.mark.fact("D-47")
def test_command_fails_if_its_replacement_is_not_ready_within_ten_minutes() -> None:
    async def program(world: AppWorld) -> None:
        old = await one_node(world)
        world.ec2.world.faults.add(faults.NeverBoots(times=1))
        await drift_all(world)
        await world.until(has_replacement(world, old))
        (new,) = [claim for claim in await world.claims() if claim.metadata.name != old.metadata.name]
        for _ in range(9):
            await world.sleep(60)
            assert await taint_and_condition(world, old) == (True, ("True", "Drifted"))
        await world.sleep(75)
        assert world.app.metrics.value(FAILURES, OF_DRIFT) == 1
        assert len(await world.running()) == 1
        assert not await world.gone(NodeClaim, new.metadata.name)  # a launched replacement remains
        await world.until(replaced(world, old), within_s=1200)
        await world.until_running(1)
        assert await world.gone(NodeClaim, new.metadata.name)

    app_world.run(program)


@pytest.mark.fact("D-1")
def test_disruption_taint_and_condition_without_a_command_are_removed() -> None:
    async def program(world: AppWorld) -> None:
        claim = await one_node(world)
        (node,) = await world.nodes()
        taint = {"key": names.DISRUPTED_TAINT, "effect": "NoSchedule"}
        await world.kube.patch(node, {"spec": {"taints": [taint]}}, only_if_unchanged=True)
        await set_disruption_reason(world, claim)
        assert await taint_and_condition(world, claim) == (True, ("True", "Underutilized"))
        await world.restart()
        await world.sleep(60)
        assert await taint_and_condition(world, claim) == NOT_DISRUPTED
        await set_disruption_reason(world, claim)  # as after a crash between the two writes
        await world.restart()
        await world.sleep(60)
        assert await taint_and_condition(world, claim) == NOT_DISRUPTED
        assert len(world.all_machines()) == 1

    app_world.run(program)


async def set_disruption_reason(world: AppWorld, claim: NodeClaim) -> None:
    found = await world.kube.get(NodeClaim, claim.metadata.name)
    now = times.text(world.clock.now_s())
    condition = {
        "type": DISRUPTION_REASON,
        "status": "True",
        "reason": "Underutilized",
        "lastTransitionTime": now,
    }
    others = msgspec.to_builtins(found.status.conditions)
    await world.kube.patch(
        found, {"status": {"conditions": [*others, condition]}}, status=True, only_if_unchanged=True
    )


# --- Concurrent provisioning --------------------------------------------------------------------------


def _taints_a_node(request: Request) -> bool:
    return request.method == "PATCH" and "/api/v1/nodes/" in request.path


@pytest.mark.fact("W-9")
def test_command_does_not_use_a_slot_that_provisioning_took_meanwhile() -> None:
    """Disruption and provisioning plan with the same free slot. The command is delayed, so its NodeClaim would be the
    second one in the slot."""

    async def program(world: AppWorld) -> None:
        slot = await _drifted_node_and_free_slot(world)
        world.line.add(api_faults.Delay(8), _taints_a_node, times=1)

        async def is_tainted() -> bool:
            return any(map(tainted, await world.nodes()))

        await world.until(is_tainted)
        await world.deploy("more", 1, **ONE_PER_NODE)
        await _assert_no_launch_was_refused(world, slot)

    app_world.run(program)


@pytest.mark.fact("W-9")
def test_a_slot_is_held_for_one_claim_at_a_time_while_claims_are_written() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=3)
        await pool(world, slots)
        await world.sleep(20)  # until the slots are counted
        holding, two = world.app.cluster_state.holding, Counter({slots.id: 2})
        with holding(two) as first, holding(two) as second, holding(two) as third:
            assert [held[slots.id] for held in (first, second, third)] == [2, 1, 0]
        with holding(two) as again:
            assert again == two
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        with holding(two) as rest:
            assert rest[slots.id] == 1

    app_world.run(program)


async def _drifted_node_and_free_slot(world: AppWorld) -> Reservation:
    """A drifted on-demand node with a pod, and a slot that became free after its launch."""
    slot = world.reserve(total=1)
    control.take(world.ec2.world, slot.id, 1)
    await pool(world, slot)
    await world.deploy("web", 1, **ONE_PER_NODE)
    await world.until_running(1)
    control.give(world.ec2.world, slot.id, 1)
    await world.sleep(20)  # until the slot is counted
    await drift_all(world)
    return slot


async def _assert_no_launch_was_refused(world: AppWorld, slot: Reservation) -> None:
    await world.until_running(1, "web")
    await world.until_running(1, "more")

    async def settled() -> bool:
        return all(map(is_new, await world.nodes())) and world.in_reservation(slot) == 1

    await world.until(settled, within_s=600)
    assert await world.events("InsufficientCapacityError") == []
    assert len(world.machines) == 2


@pytest.mark.parametrize("later_s", range(0, 14, 2))
def test_concurrent_plans_never_choose_the_same_slot(later_s: int) -> None:
    """Provisioning and disruption plan at the same time, each with its own snapshot."""

    async def program(world: AppWorld) -> None:
        slot = await _drifted_node_and_free_slot(world)
        await world.sleep(later_s)
        await world.deploy("more", 1, **ONE_PER_NODE)
        await _assert_no_launch_was_refused(world, slot)

    app_world.run(program, plans_take_s=3)
