"""Status, conditions, events and hash of NodePools."""

from typing import Any

import pytest

from aws_world import ZONE_A
from builders import requirement
from class_world import ClassWorld, run
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.ec2 import control
from holdfast.state.conversion import times
from objects import node, nodeclaim
from sim_aws import On

MINUTE = 60
HASH = "karpenter.sh/nodepool-hash"
VERSION = "karpenter.sh/nodepool-hash-version"
SLOTS = "CapacityReservationAvailable"
POOL = {"karpenter.sh/nodepool": "default"}
CAPACITY = {"cpu": "4", "memory": "16Gi", "pods": "58", "nvidia.com/gpu": "0"}


def capacity_types(*values: str) -> list[dict[str, Any]]:
    return [requirement("karpenter.sh/capacity-type", "In", *values)]


def condition(type_: str, status: str, since_s: int, reason: str = "") -> dict[str, Any]:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": times.text(since_s)}


# --- Readiness --------------------------------------------------------------------------------------


@pytest.mark.fact("P-16", "C-2", "C-1")
def test_a_pool_is_ready_when_it_is_valid_and_its_class_is_ready() -> None:
    async def test(world: ClassWorld) -> None:
        pool = await world.pool()
        await world.settle()
        assert await world.verdict(pool, "NodeClassReady") == ("False", "NodeClassNotFound")
        assert await world.verdict(pool, "Ready") == ("False", "UnhealthyDependents")
        assert "NodeClassNotFound" in {reason for reason, _ in await world.events(pool)}
        node_class = await world.node_class()
        await world.settle()
        found = await world.read(pool)
        assert [(c.type, c.status) for c in found.status.conditions] == [
            ("ValidationSucceeded", "True"),
            ("NodeRegistrationHealthy", "Unknown"),
            ("NodeClassReady", "True"),
            ("Ready", "True"),
        ]
        assert found.status.node_class_observed_generation == node_class.metadata.generation

    run(test)


@pytest.mark.fact("Q-44")
def test_nodepool_that_can_never_launch_gets_an_event_before_any_pod_exists() -> None:
    async def test(world: ClassWorld) -> None:
        await world.node_class()
        good = await world.pool("good")
        bad = await world.pool(
            "bad", requirements=[requirement("topology.kubernetes.io/zone", "In", "mars-1a")]
        )
        await world.settle()
        message = dict(await world.events(bad))["NeverLaunches"]
        assert "mars-1a" in message
        assert "can never launch with EC2NodeClass/default" in message
        assert "NeverLaunches" not in dict(await world.events(good))

    run(test)


@pytest.mark.fact("P-16")
def test_nodeclass_ready_condition_names_the_problem_of_the_class() -> None:
    async def test(world: ClassWorld) -> None:
        world.aws.endpoint.faults = On("DescribeSubnets", ApiError("InternalError", "try later", 500))
        node_class, pool = await world.node_class(), await world.pool()
        await world.settle(MINUTE)
        assert await world.verdict(pool, "NodeClassReady") == ("False", "NodeClassReadinessUnknown")
        world.aws.endpoint.faults = NoFaults()
        await world.settle(2 * MINUTE)
        assert await world.verdict(pool, "NodeClassReady") == ("True", "NodeClassReady")
        await world.change(node_class, {"spec": {"subnetSelectorTerms": [{"id": "subnet-none"}]}})
        found = await world.condition(pool, "NodeClassReady")
        assert found is not None
        assert (found.status, found.reason) == ("False", "UnhealthyDependents")
        assert "SubnetsReady=False" in (found.message or "")
        await world.kube.create(nodeclaim("user"))
        await world.kube.delete(node_class)
        await world.settle()
        assert await world.verdict(pool, "NodeClassReady") == ("False", "NodeClassTerminating")
        assert await world.verdict(pool, "Ready") == ("False", "UnhealthyDependents")

    run(test)


@pytest.mark.fact("P-16")
def test_ready_condition_of_an_older_generation_of_the_class_does_not_count() -> None:
    async def test(world: ClassWorld) -> None:
        node_class, pool = await world.node_class(), await world.pool()
        await world.settle()
        assert await world.verdict(pool, "Ready") == ("True", "Ready")
        await world.stop()
        await world.start(without="nodeclass.status")
        await world.change(node_class, {"spec": {"userData": "echo"}})
        assert await world.verdict(node_class, "Ready") == ("True", "Ready")
        assert await world.verdict(pool, "NodeClassReady") == ("False", "NodeClassReadinessUnknown")

    run(test)


@pytest.mark.fact("P-16", "C-4")
def test_unusable_spec_that_the_api_server_accepts_fails_validation() -> None:
    async def test(world: ClassWorld) -> None:
        await world.node_class()
        taint = {"key": "example.com/team", "effect": "NoSchedule"}
        pool = await world.pool(taints=[taint], startupTaints=[taint])
        await world.settle()
        found = await world.condition(pool, "ValidationSucceeded")
        assert found is not None
        assert (found.status, found.reason) == ("False", "NodePoolValidationFailed")
        assert "example.com/team:NoSchedule is there before" in (found.message or "")
        assert await world.verdict(pool, "Ready") == ("False", "UnhealthyDependents")
        await world.change(pool, {"spec": {"template": {"spec": {"startupTaints": []}}}})
        assert await world.verdict(pool, "Ready") == ("True", "Ready")

    run(test)


@pytest.mark.fact("C-11")
def test_nodepool_of_another_nodeclass_kind_is_ignored() -> None:
    async def test(world: ClassWorld) -> None:
        reference = {"group": "example.com", "kind": "OtherClass", "name": "default"}
        pool = await world.pool(nodeClassRef=reference)
        await world.node_class()
        await world.settle(MINUTE)
        assert await world.read(pool) == pool

    run(test)


# --- Resources --------------------------------------------------------------------------------------


@pytest.mark.fact("ST-14", "C-1")
def test_nodepool_counts_launched_nodeclaims_that_are_not_deleting() -> None:
    async def test(world: ClassWorld) -> None:
        await world.node_class()
        pool = await world.pool()
        await world.settle()
        assert (await world.read(pool)).status.nodes == 0

        held = {"labels": POOL, "finalizers": ["karpenter.sh/termination"]}
        launched = {"providerID": "aws:///a/i-1", "capacity": CAPACITY}
        first = await world.create(nodeclaim("first", held, launched))
        second = await world.create(nodeclaim("second", held, launched | {"providerID": "aws:///a/i-2"}))
        await world.create(nodeclaim("in-flight", held))
        other = launched | {"providerID": "aws:///a/i-3"}
        await world.create(nodeclaim("not-ours", {"labels": {"karpenter.sh/nodepool": "other"}}, other))
        labels = POOL | {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
        status = {"capacity": {"cpu": "4", "memory": "15Gi"}}
        await world.create(node("n1", {"labels": labels}, spec={"providerID": "aws:///a/i-1"}, status=status))
        await world.settle(10)
        counted = (await world.read(pool)).status
        assert (counted.nodes, dict(counted.resources)) == (
            2,
            {"cpu": "8", "memory": "31Gi", "pods": "58", "nodes": "2"},
        )

        await world.kube.delete(second)
        await world.settle(10)
        counted = (await world.read(pool)).status
        assert (counted.nodes, dict(counted.resources)) == (1, {"cpu": "4", "memory": "15Gi", "nodes": "1"})
        await world.kube.delete(first)
        await world.settle(10)
        counted = (await world.read(pool)).status
        assert (counted.nodes, dict(counted.resources)) == (0, {})
        assert await world.verdict(pool, "Ready") == ("True", "Ready")

    run(test)


# --- Registration health ------------------------------------------------------------------------------


class Launches:
    """Creates NodeClaims of one NodePool that register or fail."""

    def __init__(self, world: ClassWorld, pool: NodePool) -> None:
        self.world = world
        self.pool = pool
        self._count = 0

    async def registers(self) -> None:
        claim = await self._launch(launched="True")
        await self._set(
            claim, condition("Launched", "True", self._now_s), condition("Registered", "True", self._now_s)
        )

    async def never_registers(self) -> None:
        claim = await self._launch(launched="True")
        await self.world.settle(15 * MINUTE)
        await self.world.kube.delete(claim)
        await self.world.settle()

    async def never_launches(self, reason: str) -> None:
        claim = await self._launch(launched="Unknown", reason=reason)
        await self.world.settle(5 * MINUTE)
        await self.world.kube.delete(claim)
        await self.world.settle()

    async def fails_at_once(self) -> None:
        """As after an insufficient capacity error."""
        claim = await self._launch(launched="Unknown", reason="LaunchFailed")
        await self.world.kube.delete(claim)
        await self.world.settle()

    async def health(self) -> tuple[str, str] | None:
        return await self.world.verdict(self.pool, "NodeRegistrationHealthy")

    @property
    def _now_s(self) -> int:
        return self.world.clock.now_s()

    async def _launch(self, launched: str, reason: str = "") -> NodeClaim:
        self._count += 1
        meta = {"labels": POOL, "finalizers": ["karpenter.sh/termination"]}
        claim = await self.world.kube.create(nodeclaim(f"claim-{self._count}", meta))
        await self._set(
            claim,
            condition("Launched", launched, self._now_s, reason),
            condition("Registered", "Unknown", self._now_s),
        )
        return claim

    async def _set(self, claim: NodeClaim, *found: dict[str, Any]) -> None:
        await self.world.change(claim, {"status": {"conditions": list(found)}}, status=True)


@pytest.mark.fact("P-17")
def test_two_failures_in_the_last_four_launches_make_node_registration_unhealthy() -> None:
    async def test(world: ClassWorld) -> None:
        node_class, pool = await world.node_class(), await world.pool()
        await world.settle()
        launches = Launches(world, pool)
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")
        await launches.fails_at_once()
        await launches.fails_at_once()
        await launches.never_registers()
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")
        await launches.registers()
        assert await launches.health() == ("True", "NodeRegistrationHealthy")
        await launches.never_launches("UnauthorizedOperation")
        assert await launches.health() == ("False", "UnauthorizedOperation")
        assert await world.verdict(pool, "Ready") == ("True", "Ready")
        await launches.registers()
        assert await launches.health() == ("False", "UnauthorizedOperation")  # still two of four
        await launches.registers()
        await launches.registers()
        assert await launches.health() == ("True", "NodeRegistrationHealthy")
        await launches.never_registers()
        await launches.never_registers()
        assert await launches.health() == ("False", "RegistrationFailed")

        await world.stop()
        await world.start()
        assert await launches.health() == ("False", "RegistrationFailed")
        await launches.registers()
        assert await launches.health() == ("False", "RegistrationFailed")

        await world.change(node_class, {"spec": {"userData": "echo mended"}})
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")
        await launches.registers()
        assert await launches.health() == ("True", "NodeRegistrationHealthy")
        await world.change(pool, {"spec": {"weight": 7}})
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")

    run(test)


# --- Reservations -------------------------------------------------------------------------------------


@pytest.mark.fact("Q-42")
def test_full_reservation_sets_limit_exceeded_and_the_nodepool_stays_ready() -> None:
    async def test(world: ClassWorld) -> None:
        reserved = world.aws.reserve(total=2, zone_id=ZONE_A)
        other = world.aws.reserve("c5.large", total=1, zone_id=ZONE_A)
        terms = [{"id": reserved.id}, {"id": other.id}]
        node_class = await world.node_class(capacityReservationSelectorTerms=terms)
        everything = await world.pool("everything")
        only_m5 = await world.pool(
            "only-m5", requirements=[requirement("node.kubernetes.io/instance-type", "In", "m5.large")]
        )
        without_reserved = await world.pool("bought", requirements=capacity_types("spot", "on-demand"))
        await world.settle()

        async def slot_reasons() -> list[str | None]:
            found = [
                await world.verdict(obj, SLOTS) for obj in (node_class, everything, only_m5, without_reserved)
            ]
            return [None if one is None else one[1] for one in found]

        assert await slot_reasons() == ["Available", "Available", "Available", None]
        control.take(world.aws.ec2.world, reserved.id, 2)
        await world.settle(2 * MINUTE)
        assert await slot_reasons() == ["Available", "Available", "LimitExceeded", None]
        control.take(world.aws.ec2.world, other.id, 1)
        await world.settle(2 * MINUTE)
        assert await slot_reasons() == ["LimitExceeded", "LimitExceeded", "LimitExceeded", None]
        for pool in (everything, only_m5, without_reserved):
            assert await world.verdict(pool, "Ready") == ("True", "Ready")
        assert "LimitExceeded" in {reason for reason, _ in await world.events(only_m5)}
        control.give(world.aws.ec2.world, reserved.id, 1)
        await world.settle(2 * MINUTE)
        assert await slot_reasons() == ["Available", "Available", "Available", None]
        await world.change(node_class, {"spec": {"capacityReservationSelectorTerms": None}})
        await world.settle(MINUTE)
        assert await slot_reasons() == [None, None, None, None]

    run(test)


def test_unreadable_counts_do_not_change_capacity_reservation_available() -> None:
    async def test(world: ClassWorld) -> None:
        reserved = world.aws.reserve(total=1)
        await world.node_class(capacityReservationSelectorTerms=[{"id": reserved.id}])
        pool = await world.pool()
        await world.settle()
        before = await world.condition(pool, SLOTS)
        assert before is not None
        broken = ApiError("InternalError", "try later", 500)
        world.aws.endpoint.faults = On("DescribeCapacityReservations", broken)
        control.take(world.aws.ec2.world, reserved.id, 1)
        await world.settle(10 * MINUTE)
        assert await world.condition(pool, SLOTS) == before
        world.aws.endpoint.faults = NoFaults()
        await world.settle(2 * MINUTE)
        assert await world.verdict(pool, SLOTS) == ("False", "LimitExceeded")

    run(test)


# --- Hash ---------------------------------------------------------------------------------------------


@pytest.mark.fact("P-15", "X-2")
def test_nodeclaims_with_another_nodepool_hash_version_are_migrated() -> None:
    async def test(world: ClassWorld) -> None:
        await world.stop()
        old_hash = {HASH: "14253671", VERSION: "v3"}
        drifted = {"conditions": [condition("Drifted", "True", world.clock.now_s())]}
        plain = await world.create(nodeclaim("plain", {"annotations": old_hash, "labels": POOL}))
        drifted_claim = await world.create(
            nodeclaim("drifted", {"annotations": old_hash, "labels": POOL}, drifted)
        )
        pool = await world.pool()
        await world.change(pool, {"metadata": {"annotations": old_hash}})
        await world.start()
        pool_annotations = (await world.read(pool)).metadata.annotations
        new_hash = {key: pool_annotations[key] for key in (HASH, VERSION)}
        assert new_hash[VERSION] != "v3"
        of_plain = (await world.read(plain)).metadata.annotations
        assert {key: of_plain[key] for key in (HASH, VERSION)} == new_hash
        of_drifted = (await world.read(drifted_claim)).metadata.annotations
        assert {key: of_drifted[key] for key in (HASH, VERSION)} == {
            HASH: old_hash[HASH],
            VERSION: new_hash[VERSION],
        }

        await world.change(pool, {"spec": {"template": {"metadata": {"labels": {"team": "ml"}}}}})
        changed = (await world.read(pool)).metadata.annotations
        assert changed[HASH] != new_hash[HASH]
        assert changed[VERSION] == new_hash[VERSION]
        assert (await world.read(plain)).metadata.annotations[HASH] == new_hash[HASH]

    run(test)
