"""Status, conditions, events and hash of EC2NodeClasses."""

from collections.abc import Mapping
from typing import Any

import pytest

from aws_environment import ZONE_B
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import NoFaults
from holdfast.sim.ec2 import control
from nodeclass_environment import TERMS, NodeClassEnvironment, listed, run
from objects import nodeclaim

MINUTE = 60
HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"
FINALIZER = "karpenter.k8s.aws/termination"
MATCHES_NOTHING = [{"tags": {"nobody": "has-this"}}]
CONDITIONS = [
    "AMIsReady",
    "CapacityReservationsReady",
    "PlacementGroupReady",
    "SubnetsReady",
    "SecurityGroupsReady",
    "InstanceProfileReady",
    "ValidationSucceeded",
    "Ready",
]


class Broken(NoFaults):
    """Some operations fail; with `paged` only from their second page on."""

    def __init__(self, *operations: str, paged: bool = False) -> None:
        self._operations = operations
        self._paged = paged

    def fault(self, _: str, operation: str, params: Mapping[str, Any]) -> ApiError | None:
        hit = operation in self._operations and (not self._paged or "NextToken" in params)
        return ApiError("InternalError", "try later", 500) if hit else None


# --- Resolution -------------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.4.1", "aws-1.3.4")
def test_class_whose_selectors_all_match_becomes_ready() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        made = await env.node_class()
        await env.settle()
        found = await env.read(made)
        assert [(c.type, c.status) for c in found.status.conditions] == [(c, "True") for c in CONDITIONS]
        assert {c.observed_generation for c in found.status.conditions} == {found.metadata.generation}
        assert found.status.subnets
        assert found.status.security_groups
        assert found.status.amis
        assert found.status.instance_profile in env.profiles()
        assert found.metadata.finalizers == (FINALIZER,)
        assert await env.events(made) == []

    run(test)


@pytest.mark.fact("aws-1.4.2")
def test_unchanged_class_is_not_written_for_an_hour() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        reserved = env.aws.reserve()
        made = await env.node_class(capacityReservationSelectorTerms=[{"id": reserved.id}])
        await env.settle()
        before, writes = await env.read(made), list(env.wire.writes)
        await env.settle(60 * MINUTE)
        assert await env.read(made) == before
        assert env.wire.writes == writes

    run(test)


@pytest.mark.fact("aws-1.4.1")
@pytest.mark.parametrize(
    ("terms", "right", "condition", "reason", "field"),
    [
        ("subnetSelectorTerms", TERMS, "SubnetsReady", "SubnetsNotFound", "subnets"),
        (
            "securityGroupSelectorTerms",
            TERMS,
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            "security_groups",
        ),
        ("amiSelectorTerms", [{"alias": "al2023@latest"}], "AMIsReady", "AMINotFound", "amis"),
    ],
)
def test_selector_that_matches_nothing_sets_a_condition_until_it_is_fixed(
    terms: str, right: list[dict[str, Any]], condition: str, reason: str, field: str
) -> None:
    async def test(env: NodeClassEnvironment) -> None:
        made = await env.node_class(amiFamily="AL2023")
        await env.settle()
        await env.change(made, {"spec": {terms: MATCHES_NOTHING}})
        assert await env.verdict(made, condition) == ("False", reason)
        assert await env.verdict(made, "ValidationSucceeded") == ("False", "DependenciesNotReady")
        assert await env.verdict(made, "Ready") == ("False", "UnhealthyDependents")
        assert getattr((await env.read(made)).status, field) == ()
        assert reason in {event_reason for event_reason, _ in await env.events(made)}
        await env.change(made, {"spec": {terms: right}})
        assert await env.verdict(made, "Ready") == ("True", "Ready")

    run(test)


@pytest.mark.fact("Q-2", "aws-1.4.3", "AW-05")
def test_reservation_terms_without_a_usable_match_cause_an_event_and_the_class_stays_ready() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        windows, unknown = env.aws.reserve(platform="Windows"), "cr-0a1b2c3d4e5f60718"
        terms = [{"id": windows.id}, {"id": unknown}]
        made = await env.node_class(capacityReservationSelectorTerms=terms)
        await env.settle()
        assert await env.verdict(made, "Ready") == ("True", "Ready")
        assert await env.verdict(made, "CapacityReservationAvailable") is None
        found = await env.condition(made, "CapacityReservationsReady")
        assert found is not None
        assert (found.status, found.reason) == ("False", "NoCapacityReservations")
        ((reason, message),) = await env.events(made)
        assert (reason, message) == (found.reason, found.message)
        assert f"{windows.id} cannot be used: it is for Windows" in message
        assert f"EC2 has no reservation {unknown}" in message
        await env.settle(10 * MINUTE)
        assert len(await env.events(made)) == 1

    run(test)


# --- Reservations and time --------------------------------------------------------------------------


@pytest.mark.fact("Q-3", "Q-4", "Q-37", "aws-2.5.1", "aws-14.2", "aws-14.3")
def test_status_lists_a_block_as_upcoming_then_active_then_expiring_to_the_second() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        began_s = env.clock.now_s()
        start_s, end_s = began_s + 10 * MINUTE + 17, began_s + 130 * MINUTE + 37
        block = env.aws.reserve(
            "p5.48xlarge",
            kind="capacity-block",
            criteria="targeted",
            zone_id=ZONE_B,
            start_s=start_s,
            end_s=end_s,
        )
        made = await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])

        async def at(moment_s: int) -> tuple[list[str], list[str]]:
            """Ids of the upcoming reservations and states of the usable ones, at this time."""
            await env.settle(moment_s - env.clock.now_s())
            status = (await env.read(made)).status
            upcoming = [entry.id for entry in status.upcoming_capacity_reservations]
            return upcoming, [entry.state for entry in status.capacity_reservations]

        assert await at(began_s + 30) == ([block.id], [])
        assert await at(start_s - 1) == ([block.id], [])
        assert await at(start_s + 1) == ([], ["active"])
        assert await at(end_s - 30 * MINUTE - 1) == ([], ["active"])
        assert await at(end_s - 30 * MINUTE + 1) == ([], ["expiring"])
        assert await at(end_s - 1) == ([], ["expiring"])
        assert await at(end_s + 1) == ([], [])

    run(test)


@pytest.mark.fact("Q-42")
def test_capacity_reservation_available_follows_the_free_slots() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        one, two = env.aws.reserve(total=1), env.aws.reserve("c5.large", total=2)
        made = await env.node_class(capacityReservationSelectorTerms=[{"id": one.id}, {"id": two.id}])
        await env.settle()
        assert await env.verdict(made, "CapacityReservationAvailable") == ("True", "Available")
        ec2 = env.aws.ec2.region
        control.take(ec2, one.id, 1)
        await env.settle(2 * MINUTE)
        assert await env.verdict(made, "CapacityReservationAvailable") == ("True", "Available")
        control.take(ec2, two.id, 2)
        await env.settle(2 * MINUTE)
        assert await env.verdict(made, "CapacityReservationAvailable") == ("False", "LimitExceeded")
        assert await env.verdict(made, "Ready") == ("True", "Ready")
        assert "LimitExceeded" in {reason for reason, _ in await env.events(made)}
        control.give(ec2, two.id, 1)
        await env.settle(2 * MINUTE)
        assert await env.verdict(made, "CapacityReservationAvailable") == ("True", "Available")
        await env.change(made, {"spec": {"capacityReservationSelectorTerms": None}})
        assert await env.verdict(made, "CapacityReservationAvailable") is None
        assert listed(await env.read(made)) == []

    run(test)


# --- When AWS does not answer -----------------------------------------------------------------------


@pytest.mark.fact("Q-4")
def test_incomplete_list_of_reservations_does_not_change_the_status() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        for _ in range(1001):  # a page has a thousand entries
            env.aws.reserve(total=1, tags={"team": "ml"})
        made = await env.node_class(capacityReservationSelectorTerms=[{"tags": {"team": "ml"}}])
        await env.settle()
        before = await env.read(made)
        assert len(listed(before)) == 1001
        env.aws.endpoint.faults = Broken("DescribeCapacityReservations", paged=True)
        for reservation in env.aws.ec2.region.reservations:
            control.set_state(env.aws.ec2.region, reservation.id, "cancelled")
        await env.settle(2 * MINUTE)
        assert (await env.read(made)).status == before.status
        env.aws.endpoint.faults = NoFaults()
        await env.settle(2 * MINUTE)
        assert listed(await env.read(made)) == []

    run(test)


@pytest.mark.fact("aws-1.4.2")
def test_unreadable_resources_do_not_change_the_status_and_cause_an_event() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        made = await env.node_class()
        await env.settle()
        before = await env.read(made)
        env.aws.endpoint.faults = Broken("DescribeSubnets", "DescribeSecurityGroups", "DescribeImages")
        await env.change(made, {"spec": {"tags": {"team": "ml"}, "subnetSelectorTerms": MATCHES_NOTHING}})
        await env.settle(10 * MINUTE)
        found = await env.read(made)
        assert found.status.security_groups == before.status.security_groups
        assert found.status.amis == before.status.amis
        assert "CouldNotRead" in {reason for reason, _ in await env.events(made)}

    run(test)


def test_class_is_ready_soon_after_aws_answers_again() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        env.aws.endpoint.faults = Broken("DescribeSubnets")
        made = await env.node_class()
        await env.settle(10 * MINUTE)
        assert await env.verdict(made, "SubnetsReady") == ("Unknown", "CouldNotRead")
        assert await env.verdict(made, "Ready") == ("Unknown", "ReconcilingDependents")
        env.aws.endpoint.faults = NoFaults()
        await env.settle(MINUTE + 10)
        assert await env.verdict(made, "Ready") == ("True", "Ready")

    run(test)


# --- Deletion -------------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.6.4")
def test_deleted_class_waits_for_its_nodeclaims_and_its_instance_profile_is_deleted() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        made, other = await env.node_class(), await env.node_class("other")
        await env.settle()
        claim = await env.kube.create(nodeclaim("user"))
        profile = (await env.read(made)).status.instance_profile
        await env.kube.delete(made)
        await env.settle(20 * MINUTE)
        assert not await env.is_deleted(made)
        ((reason, message), *_) = await env.events(made)
        assert (reason, message) == (
            "WaitingOnNodeClaimTermination",
            "Waiting on NodeClaim termination for user",
        )
        assert profile in env.profiles()
        await env.kube.delete(claim)
        await env.settle()
        assert await env.is_deleted(made)
        assert env.profiles() == {(await env.read(other)).status.instance_profile}

    run(test)


@pytest.mark.fact("aws-1.6.4")
def test_deleted_class_remains_until_its_instance_profile_is_deleted() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        made = await env.node_class()
        await env.settle()
        env.aws.endpoint.faults = Broken("ListInstanceProfiles")
        await env.kube.delete(made)
        await env.settle(MINUTE)
        assert not await env.is_deleted(made)
        env.aws.endpoint.faults = NoFaults()
        await env.settle(6 * MINUTE)
        assert await env.is_deleted(made)
        assert env.profiles() == set()

    run(test)


# --- Hash -------------------------------------------------------------------------------------------


@pytest.mark.fact("aws-1.6.1", "aws-1.6.3")
def test_hash_changes_only_with_fields_that_affect_instances() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        made = await env.node_class()
        await env.settle()
        first = (await env.read(made)).metadata.annotations
        claim = await env.kube.create(nodeclaim("c", {"annotations": first}))
        await env.change(made, {"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}})
        assert (await env.read(made)).metadata.annotations == first
        await env.change(made, {"spec": {"userData": "echo"}})
        second = (await env.read(made)).metadata.annotations
        assert second[HASH] != first[HASH]
        assert second[VERSION] == first[VERSION]
        assert (await env.read(claim)).metadata.annotations == first  # so the NodeClaim drifts

    run(test)


@pytest.mark.fact("aws-1.6.2", "aws-1.6.3a", "X-2")
def test_nodeclaims_with_another_hash_version_are_migrated() -> None:
    async def test(env: NodeClassEnvironment) -> None:
        await env.stop()
        old_hash = {HASH: "14253671", VERSION: "v6"}
        drifted = {
            "conditions": [
                {"type": "Drifted", "status": "True", "lastTransitionTime": "2026-11-15T09:00:00Z"}
            ]
        }
        plain = await env.create(nodeclaim("plain", {"annotations": old_hash}))
        drifted_claim = await env.create(nodeclaim("drifted", {"annotations": old_hash}, drifted))
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "another"}
        claim_of_other_class = await env.create(
            nodeclaim("stranger", {"annotations": old_hash}, nodeClassRef=reference)
        )
        made = await env.node_class()
        await env.change(made, {"metadata": {"annotations": old_hash}})
        await env.start()
        new_hash = {key: (await env.read(made)).metadata.annotations[key] for key in (HASH, VERSION)}
        assert new_hash[VERSION] != "v6"
        assert (await env.read(plain)).metadata.annotations == new_hash
        assert (await env.read(drifted_claim)).metadata.annotations == {
            HASH: old_hash[HASH],
            VERSION: new_hash[VERSION],
        }
        assert (await env.read(claim_of_other_class)).metadata.annotations == old_hash
        await env.stop()
        await env.start()
        assert (await env.read(plain)).metadata.annotations == new_hash

    run(test)
