"""DisruptionCommands: validation, execution, rollback, and provisioning at the same time."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, condition_of, drift_all, is_new, pool, tainted
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
OF_DRIFT = {"decision": "replace", "reason": "drifted", "consolidation_type": ""}


async def one_node(env: AppEnvironment) -> NodeClaim:
    """The NodeClaim of an on-demand node with one pod."""
    await pool(env, kinds=("on-demand",))
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    (claim,) = await env.claims()
    return claim


def has_replacement(env: AppEnvironment, old: NodeClaim) -> Callable[[], Awaitable[bool]]:
    async def exists() -> bool:
        return any(claim.metadata.name != old.metadata.name for claim in await env.claims())

    return exists


def replaced(env: AppEnvironment, old: NodeClaim) -> Callable[[], Awaitable[bool]]:
    async def is_done() -> bool:
        nodes = await env.nodes()
        return await env.is_deleted(NodeClaim, old.metadata.name) and len(nodes) == 1 and is_new(nodes[0])

    return is_done


async def taint_and_condition(env: AppEnvironment, claim: NodeClaim) -> tuple[bool, Any]:
    """Whether the node has the disruption taint, and the DisruptionReason condition of its NodeClaim."""
    found = await env.kube.get(NodeClaim, claim.metadata.name)
    (node,) = [one for one in await env.nodes() if one.metadata.name == found.status.node_name]
    return tainted(node), condition_of(found, DISRUPTION_REASON)


NOT_DISRUPTED = (False, None)


# --- Validation ---------------------------------------------------------------------------------------


@pytest.mark.fact("D-39", "D-44", "E-2")
def test_command_that_fails_validation_is_rejected_and_no_other_command_replaces_it() -> None:
    async def program(env: AppEnvironment) -> None:
        await pool(env, types=("m5.xlarge",), kinds=("on-demand",))
        await env.deploy("web", 4, cpu="1700m")
        await env.until_running(4)
        await env.scale("web", 2)
        before = {claim.metadata.name for claim in await env.claims()}
        assert len(before) == 2

        async def all_consolidatable() -> bool:
            return all(condition_of(claim, "Consolidatable") for claim in await env.claims())

        await env.until(all_consolidatable)
        await env.sleep(11)  # the command is decided and not validated yet
        await env.forbid_evictions()
        await env.sleep(120)
        rejections = {event.message.partition(",")[0] for event in await env.events("ConsolidationRejected")}
        assert rejections == {"Consolidation rejected: churn"}
        counted = [
            env.app.metrics.value(REJECTED, {"reason": "churn", "consolidation_type": kind})
            for kind in ("single", "multi")
        ]
        assert any(counted)
        assert {claim.metadata.name for claim in await env.claims()} == before
        assert not any(map(tainted, await env.nodes()))
        assert len(env.all_ec2_instances()) == 2
        await env.kube.delete((await env.kube.list(PodDisruptionBudget)).items[0])

        async def fewer() -> bool:
            return len(await env.claims()) == 1

        await env.until(fewer)
        await env.until_running(2)

    app_environment.run(program)


# --- Execution ----------------------------------------------------------------------------------------


@pytest.mark.fact("D-45", "D-46", "E-2", "E-3", "X-5")
def test_node_is_tainted_and_deleted_only_after_its_replacement_is_initialized() -> None:
    async def program(env: AppEnvironment) -> None:
        old = await one_node(env)
        await drift_all(env)
        await env.until(has_replacement(env, old))
        waited = 0
        while (await env.kube.get(NodeClaim, old.metadata.name)).metadata.deletion_timestamp is None:
            assert await taint_and_condition(env, old) == (True, ("True", "Drifted"))
            assert len(await env.claims()) == 2  # no second command for the node
            assert len(await env.running()) == 1
            waited += 1
            await env.sleep(1)
        assert waited > 5  # until the replacement boots
        (new,) = [claim for claim in await env.claims() if claim.metadata.name != old.metadata.name]
        assert condition_of(new, "Initialized") == ("True", "Initialized")
        for reason in ("DisruptionLaunching", "DisruptionWaitingReadiness"):
            assert {e.involved_object.name for e in await env.events(reason)} == {new.metadata.name}
        assert {e.involved_object.kind for e in await env.events("DisruptionTerminating")} == {
            "Node",
            "NodeClaim",
        }
        await env.until(replaced(env, old))
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("D-48")
def test_slow_drain_does_not_delay_the_replacement_of_other_nodes() -> None:
    async def program(env: AppEnvironment) -> None:
        old = await one_node(env)
        slow = {"annotations": {"sim.holdfast.dev/stops-after": "900"}, "terminationGracePeriodSeconds": 900}
        await env.deploy("slow", 1, **ONE_PER_NODE, **slow)
        await env.until_running(1, "slow")
        (other,) = [claim for claim in await env.claims() if claim.metadata.name != old.metadata.name]
        await drift_all(env)

        async def draining() -> bool:
            return bool(
                (await env.kube.get(NodeClaim, other.metadata.name)).metadata.deletion_timestamp
            ) and await env.is_deleted(NodeClaim, old.metadata.name)

        await env.until(draining, within_s=600)
        await env.until_running(1)
        assert not await env.is_deleted(NodeClaim, other.metadata.name)  # its pod is still terminating
        await env.sleep(900)
        assert await env.is_deleted(NodeClaim, other.metadata.name)

    app_environment.run(program)


# --- Rollback -----------------------------------------------------------------------------------------


@pytest.mark.fact("D-46", "D-47")
def test_deleted_replacement_rolls_the_command_back_and_it_is_retried() -> None:
    async def program(env: AppEnvironment) -> None:
        old = await one_node(env)
        await drift_all(env)
        await env.until(has_replacement(env, old))
        (new,) = [claim for claim in await env.claims() if claim.metadata.name != old.metadata.name]
        await env.kube.delete(new)

        async def rolled_back() -> bool:
            return await taint_and_condition(env, old) == NOT_DISRUPTED

        await env.until(rolled_back, within_s=30)
        assert env.app.metrics.value(FAILURES, OF_DRIFT) == 1
        assert await env.events("DisruptionFailed")
        await env.until(replaced(env, old))
        await env.until_running(1)

    app_environment.run(program)


@pytest.mark.fact("D-45")
def test_node_is_not_deleted_while_its_replacement_cannot_be_created() -> None:
    async def program(env: AppEnvironment) -> None:
        old = await one_node(env)
        refused = api_faults.Refuse("Forbidden")
        env.line.add(refused, _creates_a_claim, times=1000)
        await drift_all(env)

        async def failed() -> bool:
            return bool(await env.events("DisruptionFailed"))

        await env.until(failed)
        for _ in range(60):
            await env.sleep(1)
            found = await env.kube.get(NodeClaim, old.metadata.name)
            assert found.metadata.deletion_timestamp is None
        assert len(await env.claims()) == 1 == len(await env.running())
        env.line.clear()
        await env.until(replaced(env, old))
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program)


def _creates_a_claim(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/nodeclaims")


@pytest.mark.fact("D-47")
def test_command_fails_if_its_replacement_is_not_ready_within_ten_minutes() -> None:
    async def program(env: AppEnvironment) -> None:
        old = await one_node(env)
        env.ec2.region.faults.add(faults.NeverBoots(times=1))
        await drift_all(env)
        await env.until(has_replacement(env, old))
        (new,) = [claim for claim in await env.claims() if claim.metadata.name != old.metadata.name]
        for _ in range(9):
            await env.sleep(60)
            assert await taint_and_condition(env, old) == (True, ("True", "Drifted"))
        await env.sleep(75)
        assert env.app.metrics.value(FAILURES, OF_DRIFT) == 1
        assert len(await env.running()) == 1
        assert not await env.is_deleted(NodeClaim, new.metadata.name)  # a launched replacement remains
        await env.until(replaced(env, old), within_s=1200)
        await env.until_running(1)
        assert await env.is_deleted(NodeClaim, new.metadata.name)

    app_environment.run(program)


@pytest.mark.fact("D-1")
def test_disruption_taint_and_condition_without_a_command_are_removed() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await one_node(env)
        (node,) = await env.nodes()
        taint = {"key": names.DISRUPTED_TAINT, "effect": "NoSchedule"}
        await env.kube.patch(node, {"spec": {"taints": [taint]}}, only_if_unchanged=True)
        await set_disruption_reason(env, claim)
        assert await taint_and_condition(env, claim) == (True, ("True", "Underutilized"))
        await env.restart()
        await env.sleep(60)
        assert await taint_and_condition(env, claim) == NOT_DISRUPTED
        await set_disruption_reason(env, claim)  # as after a crash between the two writes
        await env.restart()
        await env.sleep(60)
        assert await taint_and_condition(env, claim) == NOT_DISRUPTED
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program)


async def set_disruption_reason(env: AppEnvironment, claim: NodeClaim) -> None:
    found = await env.kube.get(NodeClaim, claim.metadata.name)
    now = times.text(env.clock.now_s())
    condition = {
        "type": DISRUPTION_REASON,
        "status": "True",
        "reason": "Underutilized",
        "lastTransitionTime": now,
    }
    others = msgspec.to_builtins(found.status.conditions)
    await env.kube.patch(
        found, {"status": {"conditions": [*others, condition]}}, status=True, only_if_unchanged=True
    )


# --- Concurrent provisioning --------------------------------------------------------------------------


def _taints_a_node(request: Request) -> bool:
    return request.method == "PATCH" and "/api/v1/nodes/" in request.path


@pytest.mark.fact("W-9")
def test_command_does_not_use_a_slot_that_provisioning_took_meanwhile() -> None:
    """Disruption and provisioning plan with the same free slot. The command is delayed, so its NodeClaim would be the
    second one in the slot."""

    async def program(env: AppEnvironment) -> None:
        slot = await _drifted_node_and_free_slot(env)
        env.line.add(api_faults.Delay(8), _taints_a_node, times=1)

        async def is_tainted() -> bool:
            return any(map(tainted, await env.nodes()))

        await env.until(is_tainted)
        await env.deploy("more", 1, **ONE_PER_NODE)
        await _assert_no_launch_was_refused(env, slot)

    app_environment.run(program)


def test_command_that_could_not_be_started_delays_no_later_one() -> None:
    """Consolidation does not evict a pod twice within ten minutes. A pod that was created after a command was abandoned
    is not one that consolidation evicted."""

    async def program(env: AppEnvironment) -> None:
        slot = env.reserve(total=1, elsewhere=1)
        await pool(env, slot)
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        (before,) = await env.pods()
        refused: list[Request] = []

        def is_first_taint(request: Request) -> bool:
            if refused or not _taints_a_node(request) or names.DISRUPTED_TAINT.encode() not in request.body:
                return False
            refused.append(request)
            return True

        env.line.add(api_faults.Refuse("NotFound"), is_first_taint)
        control.give(env.ec2.region, slot.id, 1)

        async def is_abandoned() -> bool:
            return bool(refused)

        await env.until(is_abandoned, within_s=300)
        control.take(env.ec2.region, slot.id, 1)
        await env.kube.delete(before)
        await env.sleep(120)
        await env.until_running(1)
        assert env.in_reservation(slot) == 0
        control.give(env.ec2.region, slot.id, 1)

        async def moved() -> bool:
            return env.in_reservation(slot) == 1

        await env.until(moved, within_s=300)

    app_environment.run(program)


@pytest.mark.fact("W-9")
def test_a_slot_is_held_for_one_claim_at_a_time_while_claims_are_written() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await pool(env, slots)
        await env.sleep(20)  # until the slots are counted
        holding, two = env.app.cluster_state.holding, Counter({slots.id: 2})
        with holding(two) as first, holding(two) as second, holding(two) as third:
            assert [held[slots.id] for held in (first, second, third)] == [2, 1, 0]
        with holding(two) as again:
            assert again == two
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.until_running(2)
        with holding(two) as rest:
            assert rest[slots.id] == 1

    app_environment.run(program)


async def _drifted_node_and_free_slot(env: AppEnvironment) -> Reservation:
    """A drifted on-demand node with a pod, and a slot that became free after its launch."""
    slot = env.reserve(total=1)
    control.take(env.ec2.region, slot.id, 1)
    await pool(env, slot)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    control.give(env.ec2.region, slot.id, 1)
    await env.sleep(20)  # until the slot is counted
    await drift_all(env)
    return slot


async def _assert_no_launch_was_refused(env: AppEnvironment, slot: Reservation) -> None:
    await env.until_running(1, "web")
    await env.until_running(1, "more")

    async def settled() -> bool:
        return all(map(is_new, await env.nodes())) and env.in_reservation(slot) == 1

    await env.until(settled, within_s=600)
    assert await env.events("InsufficientCapacityError") == []
    assert len(env.ec2_instances) == 2


@pytest.mark.parametrize("later_s", range(0, 14, 2))
def test_concurrent_plans_never_choose_the_same_slot(later_s: int) -> None:
    """Provisioning and disruption plan at the same time, each with its own snapshot."""

    async def program(env: AppEnvironment) -> None:
        slot = await _drifted_node_and_free_slot(env)
        await env.sleep(later_s)
        await env.deploy("more", 1, **ONE_PER_NODE)
        await _assert_no_launch_was_refused(env, slot)

    app_environment.run(program, plans_take_s=3)
