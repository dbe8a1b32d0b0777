"""Status, conditions, events and hash of NodePools."""

from typing import Any

import pytest

from aws_environment import ZONE_A
from builders import nodepool_document, requirement
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.ec2 import control
from holdfast.state.conversion import times
from nodeclass_environment import NodeClassEnvironment, run
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
    async def test(env: NodeClassEnvironment) -> None:
        pool = await env.pool()
        await env.settle()
        assert await env.verdict(pool, "NodeClassReady") == ("False", "NodeClassNotFound")
        assert await env.verdict(pool, "Ready") == ("False", "UnhealthyDependents")
        assert "NodeClassNotFound" in {reason for reason, _ in await env.events(pool)}
        node_class = await env.node_class()
        await env.settle()
        found = await env.read(pool)
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
    async def test(env: NodeClassEnvironment) -> None:
        await env.node_class()
        good = await env.pool("good")
        bad = await env.pool(
            "bad", requirements=[requirement("topology.kubernetes.io/zone", "In", "mars-1a")]
        )
        await env.settle()
        message = dict(await env.events(bad))["NeverLaunches"]
        assert "mars-1a" in message
        assert "can never launch with EC2NodeClass/default" in message
        assert "NeverLaunches" not in dict(await env.events(good))

    run(test)


TYPES = "InstanceTypesReady"


@pytest.mark.fact("C-2")
@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (requirement("node.kubernetes.io/instance-type", "In", "m5.none"), "NoCompatibleInstanceTypes"),
        (requirement("topology.kubernetes.io/zone", "In", "mars-1a"), "NeverLaunches"),
        (capacity_types("reserved")[0], "NeverLaunches"),  # the class has no terms for reservations
    ],
)
def test_nodepool_that_no_instance_type_suits_is_not_ready(wanted: dict[str, Any], reason: str) -> None:
    async def test(env: NodeClassEnvironment) -> None:
        await env.node_class()
        pool = await env.pool(requirements=[wanted])
        await env.settle()
        assert await env.verdict(pool, TYPES) == ("False", reason)
        ready = await env.condition(pool, "Ready")
        assert ready is not None
        assert (ready.status, ready.message) == ("False", f"{TYPES}=False")
        assert reason in dict(await env.events(pool))
        written = len(env.wire.writes)
        await env.settle(10 * MINUTE)
        assert len(env.wire.writes) == written
        await env.change(pool, {"spec": {"template": {"spec": {"requirements": []}}}})
        assert await env.verdict(pool, TYPES) is None
        assert await env.verdict(pool, "Ready") == ("True", "Ready")

    run(test)


@pytest.mark.fact("aws-1.4.1", "aws-1.4.3")
def test_only_a_reserved_nodepool_is_not_ready_when_its_class_selects_no_reservation() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        slots = env.aws.reserve()
        node_class = await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        both = await env.pool("both", requirements=capacity_types("reserved", "on-demand"))
        reserved = await env.pool("reserved", requirements=capacity_types("reserved"))
        await env.settle()
        for ready in (node_class, both, reserved):
            assert await env.verdict(ready, "Ready") == ("True", "Ready")
        control.set_state(env.aws.ec2.region, slots.id, "cancelled")
        await env.settle(2 * MINUTE)
        assert await env.verdict(node_class, "CapacityReservationsReady") == (
            "False",
            "NoCapacityReservations",
        )
        assert await env.verdict(node_class, "Ready") == ("True", "Ready")
        assert await env.verdict(both, "Ready") == ("True", "Ready")
        assert await env.verdict(reserved, "Ready") == ("False", "UnhealthyDependents")
        assert await env.verdict(reserved, TYPES) is not None

    run(test)


def test_static_nodepool_is_not_ready_and_states_that_it_is_not_acted_on() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        await env.node_class()
        document = nodepool_document("static")
        document["spec"]["replicas"] = 2
        pool = await env.write(document, NodePool)
        await env.settle()
        found = await env.condition(pool, "ValidationSucceeded")
        assert found is not None
        assert (found.status, found.reason) == ("False", "StaticNodePoolNotSupported")
        assert "spec.replicas is set" in (found.message or "")
        assert await env.verdict(pool, "Ready") == ("False", "UnhealthyDependents")
        assert dict(await env.events(pool))["StaticNodePoolNotSupported"] == found.message

    run(test)


@pytest.mark.fact("P-16")
def test_nodeclass_ready_condition_names_the_problem_of_the_class() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        env.aws.endpoint.faults = On("DescribeSubnets", ApiError("InternalError", "try later", 500))
        node_class, pool = await env.node_class(), await env.pool()
        await env.settle(MINUTE)
        assert await env.verdict(pool, "NodeClassReady") == ("False", "NodeClassReadinessUnknown")
        env.aws.endpoint.faults = NoFaults()
        await env.settle(2 * MINUTE)
        assert await env.verdict(pool, "NodeClassReady") == ("True", "NodeClassReady")
        await env.change(node_class, {"spec": {"subnetSelectorTerms": [{"id": "subnet-none"}]}})
        found = await env.condition(pool, "NodeClassReady")
        assert found is not None
        assert (found.status, found.reason) == ("False", "UnhealthyDependents")
        assert "SubnetsReady=False" in (found.message or "")
        await env.kube.create(nodeclaim("user"))
        await env.kube.delete(node_class)
        await env.settle()
        assert await env.verdict(pool, "NodeClassReady") == ("False", "NodeClassTerminating")
        assert await env.verdict(pool, "Ready") == ("False", "UnhealthyDependents")

    run(test)


@pytest.mark.fact("P-16")
def test_ready_condition_of_an_older_generation_of_the_class_does_not_count() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        node_class, pool = await env.node_class(), await env.pool()
        await env.settle()
        assert await env.verdict(pool, "Ready") == ("True", "Ready")
        await env.stop()
        await env.start(without="nodeclass.status")
        await env.change(node_class, {"spec": {"userData": "echo"}})
        assert await env.verdict(node_class, "Ready") == ("True", "Ready")
        assert await env.verdict(pool, "NodeClassReady") == ("False", "NodeClassReadinessUnknown")

    run(test)


@pytest.mark.fact("P-16", "C-4")
def test_unusable_spec_that_the_api_server_accepts_fails_validation() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        await env.node_class()
        taint = {"key": "example.com/team", "effect": "NoSchedule"}
        pool = await env.pool(taints=[taint], startupTaints=[taint])
        await env.settle()
        found = await env.condition(pool, "ValidationSucceeded")
        assert found is not None
        assert (found.status, found.reason) == ("False", "NodePoolValidationFailed")
        assert "example.com/team:NoSchedule is there before" in (found.message or "")
        assert await env.verdict(pool, "Ready") == ("False", "UnhealthyDependents")
        await env.change(pool, {"spec": {"template": {"spec": {"startupTaints": []}}}})
        assert await env.verdict(pool, "Ready") == ("True", "Ready")

    run(test)


@pytest.mark.fact("C-11")
def test_nodepool_of_another_nodeclass_kind_is_ignored() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        reference = {"group": "example.com", "kind": "OtherClass", "name": "default"}
        pool = await env.pool(nodeClassRef=reference)
        await env.node_class()
        await env.settle(MINUTE)
        assert await env.read(pool) == pool

    run(test)


# --- Resources --------------------------------------------------------------------------------------


@pytest.mark.fact("ST-14", "C-1")
def test_nodepool_counts_launched_nodeclaims_that_are_not_deleting() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        await env.node_class()
        pool = await env.pool()
        await env.settle()
        empty = (await env.read(pool)).status
        nothing = dict.fromkeys(("nodes", "cpu", "memory", "pods", "ephemeral-storage"), "0")
        assert (empty.nodes, dict(empty.resources)) == (0, nothing)

        held = {"labels": POOL, "finalizers": ["karpenter.sh/termination"]}
        launched = {"providerID": "aws:///a/i-1", "capacity": CAPACITY}
        first = await env.create(nodeclaim("first", held, launched))
        second = await env.create(nodeclaim("second", held, launched | {"providerID": "aws:///a/i-2"}))
        await env.create(nodeclaim("in-flight", held))
        other = launched | {"providerID": "aws:///a/i-3"}
        await env.create(nodeclaim("not-ours", {"labels": {"karpenter.sh/nodepool": "other"}}, other))
        labels = POOL | {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
        status = {"capacity": {"cpu": "4", "memory": "15Gi"}}
        await env.create(node("n1", {"labels": labels}, spec={"providerID": "aws:///a/i-1"}, status=status))
        await env.settle(10)
        counted = (await env.read(pool)).status
        assert (counted.nodes, dict(counted.resources)) == (
            2,
            nothing | {"cpu": "8", "memory": "31Gi", "pods": "58", "nodes": "2", "nvidia.com/gpu": "0"},
        )

        await env.kube.delete(second)
        await env.settle(10)
        counted = (await env.read(pool)).status
        assert (counted.nodes, dict(counted.resources)) == (
            1,
            nothing | {"cpu": "4", "memory": "15Gi", "nodes": "1", "nvidia.com/gpu": "0"},
        )
        await env.kube.delete(first)
        await env.settle(10)
        counted = (await env.read(pool)).status
        assert (counted.nodes, set(counted.resources.values())) == (0, {"0"})
        assert await env.verdict(pool, "Ready") == ("True", "Ready")

    run(test)


# --- Registration health ------------------------------------------------------------------------------


class Launches:
    """Creates NodeClaims of one NodePool that register or fail."""

    def __init__(self, env: NodeClassEnvironment, pool: NodePool) -> None:
        self.env = env
        self.pool = pool
        self._count = 0

    async def registers(self) -> None:
        claim = await self._launch(launched="True")
        await self._set(
            claim, condition("Launched", "True", self._now_s), condition("Registered", "True", self._now_s)
        )

    async def never_registers(self) -> None:
        claim = await self._launch(launched="True")
        await self.env.settle(15 * MINUTE)
        await self.env.kube.delete(claim)
        await self.env.settle()

    async def never_launches(self, reason: str) -> None:
        claim = await self._launch(launched="Unknown", reason=reason)
        await self.env.settle(5 * MINUTE)
        await self.env.kube.delete(claim)
        await self.env.settle()

    async def fails_at_once(self) -> None:
        """As after an insufficient capacity error."""
        claim = await self._launch(launched="Unknown", reason="LaunchFailed")
        await self.env.kube.delete(claim)
        await self.env.settle()

    async def health(self) -> tuple[str, str] | None:
        return await self.env.verdict(self.pool, "NodeRegistrationHealthy")

    @property
    def _now_s(self) -> int:
        return self.env.clock.now_s()

    async def _launch(self, launched: str, reason: str = "") -> NodeClaim:
        self._count += 1
        meta = {"labels": POOL, "finalizers": ["karpenter.sh/termination"]}
        claim = await self.env.kube.create(nodeclaim(f"claim-{self._count}", meta))
        await self._set(
            claim,
            condition("Launched", launched, self._now_s, reason),
            condition("Registered", "Unknown", self._now_s),
        )
        return claim

    async def _set(self, claim: NodeClaim, *found: dict[str, Any]) -> None:
        await self.env.change(claim, {"status": {"conditions": list(found)}}, status=True)


@pytest.mark.fact("P-17")
def test_two_failures_in_the_last_four_launches_make_node_registration_unhealthy() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        node_class, pool = await env.node_class(), await env.pool()
        await env.settle()
        launches = Launches(env, pool)
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")
        await launches.fails_at_once()
        await launches.fails_at_once()
        await launches.never_registers()
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")
        await launches.registers()
        assert await launches.health() == ("True", "NodeRegistrationHealthy")
        await launches.never_launches("UnauthorizedOperation")
        assert await launches.health() == ("False", "UnauthorizedOperation")
        assert await env.verdict(pool, "Ready") == ("True", "Ready")
        await launches.registers()
        assert await launches.health() == ("False", "UnauthorizedOperation")  # still two of four
        await launches.registers()
        await launches.registers()
        assert await launches.health() == ("True", "NodeRegistrationHealthy")
        await launches.never_registers()
        await launches.never_registers()
        assert await launches.health() == ("False", "RegistrationFailed")

        await env.stop()
        await env.start()
        assert await launches.health() == ("False", "RegistrationFailed")
        await launches.registers()
        assert await launches.health() == ("False", "RegistrationFailed")

        await env.change(node_class, {"spec": {"userData": "echo mended"}})
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")
        await launches.registers()
        assert await launches.health() == ("True", "NodeRegistrationHealthy")
        await env.change(pool, {"spec": {"weight": 7}})
        assert await launches.health() == ("Unknown", "AwaitingReconciliation")

    run(test)


# --- Reservations -------------------------------------------------------------------------------------


@pytest.mark.fact("Q-42")
def test_full_reservation_sets_limit_exceeded_and_the_nodepool_stays_ready() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        reserved = env.aws.reserve(total=2, zone_id=ZONE_A)
        other = env.aws.reserve("c5.large", total=1, zone_id=ZONE_A)
        terms = [{"id": reserved.id}, {"id": other.id}]
        node_class = await env.node_class(capacityReservationSelectorTerms=terms)
        everything = await env.pool("everything")
        only_m5 = await env.pool(
            "only-m5", requirements=[requirement("node.kubernetes.io/instance-type", "In", "m5.large")]
        )
        without_reserved = await env.pool("bought", requirements=capacity_types("spot", "on-demand"))
        await env.settle()

        async def slot_reasons() -> list[str | None]:
            found = [
                await env.verdict(obj, SLOTS) for obj in (node_class, everything, only_m5, without_reserved)
            ]
            return [None if one is None else one[1] for one in found]

        assert await slot_reasons() == ["Available", "Available", "Available", None]
        control.take(env.aws.ec2.region, reserved.id, 2)
        await env.settle(2 * MINUTE)
        assert await slot_reasons() == ["Available", "Available", "LimitExceeded", None]
        control.take(env.aws.ec2.region, other.id, 1)
        await env.settle(2 * MINUTE)
        assert await slot_reasons() == ["LimitExceeded", "LimitExceeded", "LimitExceeded", None]
        for pool in (everything, only_m5, without_reserved):
            assert await env.verdict(pool, "Ready") == ("True", "Ready")
        assert "LimitExceeded" in {reason for reason, _ in await env.events(only_m5)}
        control.give(env.aws.ec2.region, reserved.id, 1)
        await env.settle(2 * MINUTE)
        assert await slot_reasons() == ["Available", "Available", "Available", None]
        await env.change(node_class, {"spec": {"capacityReservationSelectorTerms": None}})
        await env.settle(MINUTE)
        assert await slot_reasons() == [None, None, None, None]

    run(test)


def test_unreadable_counts_do_not_change_capacity_reservation_available() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        reserved = env.aws.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": reserved.id}])
        pool = await env.pool()
        await env.settle()
        before = await env.condition(pool, SLOTS)
        assert before is not None
        broken = ApiError("InternalError", "try later", 500)
        env.aws.endpoint.faults = On("DescribeCapacityReservations", broken)
        control.take(env.aws.ec2.region, reserved.id, 1)
        await env.settle(10 * MINUTE)
        assert await env.condition(pool, SLOTS) == before
        env.aws.endpoint.faults = NoFaults()
        await env.settle(2 * MINUTE)
        assert await env.verdict(pool, SLOTS) == ("False", "LimitExceeded")

    run(test)


# --- Hash ---------------------------------------------------------------------------------------------


@pytest.mark.fact("P-15", "X-2")
def test_nodeclaims_with_another_nodepool_hash_version_are_migrated() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        await env.stop()
        old_hash = {HASH: "14253671", VERSION: "v3"}
        drifted = {"conditions": [condition("Drifted", "True", env.clock.now_s())]}
        plain = await env.create(nodeclaim("plain", {"annotations": old_hash, "labels": POOL}))
        drifted_claim = await env.create(
            nodeclaim("drifted", {"annotations": old_hash, "labels": POOL}, drifted)
        )
        pool = await env.pool()
        await env.change(pool, {"metadata": {"annotations": old_hash}})
        await env.start()
        pool_annotations = (await env.read(pool)).metadata.annotations
        new_hash = {key: pool_annotations[key] for key in (HASH, VERSION)}
        assert new_hash[VERSION] != "v3"
        of_plain = (await env.read(plain)).metadata.annotations
        assert {key: of_plain[key] for key in (HASH, VERSION)} == new_hash
        of_drifted = (await env.read(drifted_claim)).metadata.annotations
        assert {key: of_drifted[key] for key in (HASH, VERSION)} == {
            HASH: old_hash[HASH],
            VERSION: new_hash[VERSION],
        }

        await env.change(pool, {"spec": {"template": {"metadata": {"labels": {"team": "ml"}}}}})
        changed = (await env.read(pool)).metadata.annotations
        assert changed[HASH] != new_hash[HASH]
        assert changed[VERSION] == new_hash[VERSION]
        assert (await env.read(plain)).metadata.annotations[HASH] == new_hash[HASH]

    run(test)
