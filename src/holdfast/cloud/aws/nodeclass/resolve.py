"""Computes the status of an EC2NodeClass: the results of its selectors, and a condition for each.

Called by `discovery`. Every part is read each time, in Karpenter's order (aws-1.4.2). A part that could not be read is
left out of the patch and its condition is kept, so a failed or incomplete response changes nothing. Conditions and
reasons are Karpenter's; messages state what to do. Two conditions are Holdfast's own. CapacityReservationsReady lists
each reservation that cannot be used, and is False if none can be; then Ready does not depend on it, since on-demand and
spot launches must continue. CapacityReservationAvailable states whether any slot is free (decision 11) and is not part
of Ready.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from holdfast import errors, ports
from holdfast.api import conditions
from holdfast.api.conditions import FALSE, TRUE, UNKNOWN
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass import status as wire
from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.client.sources import Source
from holdfast.cloud.aws.nodeclass import class_checks, network, reservation_status
from holdfast.cloud.aws.nodeclass.class_checks import Problem
from holdfast.cloud.aws.nodeclass.identity import Identity
from holdfast.cloud.aws.nodeclass.images import Images
from holdfast.cloud.aws.nodeclass.network import SecurityGroup, Subnet
from holdfast.cloud.aws.nodeclass.placement_groups import PlacementGroups
from holdfast.cloud.aws.nodeclass.profiles import Profiles
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.state.conversion import reservation_condition

AMIS: Final = "AMIsReady"
SUBNETS: Final = "SubnetsReady"
SECURITY_GROUPS: Final = "SecurityGroupsReady"
INSTANCE_PROFILE: Final = "InstanceProfileReady"
PLACEMENT_GROUP: Final = "PlacementGroupReady"
RESERVATIONS: Final = "CapacityReservationsReady"
VALIDATION: Final = "ValidationSucceeded"

READY_NEEDS: Final = (
    AMIS,
    SUBNETS,
    SECURITY_GROUPS,
    INSTANCE_PROFILE,
    VALIDATION,
    PLACEMENT_GROUP,
)
_VALIDATION_NEEDS: Final = (AMIS, INSTANCE_PROFILE, SECURITY_GROUPS, SUBNETS)
_NOT_READ: Final = "CouldNotRead"


class Verdict(NamedTuple):
    """The result for one part: status fields and a condition."""

    fields: Mapping[str, Any]
    status: str = TRUE
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """The sources of all parts."""

    subnets: Source[tuple[Subnet, ...]]
    security_groups: Source[tuple[SecurityGroup, ...]]
    images: Images
    profiles: Profiles
    placement_groups: PlacementGroups
    reservations: Callable[[EC2NodeClass], Awaitable[Sequence[CapacityReservation]]]
    kubernetes: Callable[[], str]
    clock: ports.Clock
    recorder: ports.Recorder
    reserved_capacity: bool = True
    identity: Identity | None = None


Probe = Callable[[EC2NodeClass], Awaitable[Problem | None]]
"""Returns a permission that a class needs and the account lacks."""


async def resolve(node_class: EC2NodeClass, parts: Parts, probe: Probe | None = None) -> dict[str, Any]:
    """The status as a merge patch. The list of conditions is complete, so write it only if the class has not changed
    since it was read."""
    work = _Resolving(node_class, parts)
    await work.part(AMIS, work.images)
    if parts.reserved_capacity:
        await work.part(RESERVATIONS, work.reservations)
    await work.part(PLACEMENT_GROUP, work.placement_group)
    await work.part(SUBNETS, work.subnets)
    await work.part(SECURITY_GROUPS, work.security_groups)
    await work.part(INSTANCE_PROFILE, work.profile)
    verdict = await work.identity() or work.validation()
    if probe is None or verdict.status != TRUE:
        work.put(VALIDATION, verdict)
    else:
        await work.part(VALIDATION, functools.partial(work.probed, probe))
    return work.patch()


class _Resolving:
    """Resolves one class."""

    def __init__(self, node_class: EC2NodeClass, parts: Parts) -> None:
        self._class = node_class
        self._parts = parts
        self._fields: dict[str, Any] = {}
        self._conditions = conditions.edit(node_class, now_s=parts.clock.now_s())

    async def part(self, condition: str, read: Callable[[], Awaitable[Verdict]]) -> None:
        """A failed read changes only a condition that is Unknown or missing."""
        try:
            verdict = await read()
        except errors.HoldfastError as error:
            self._parts.recorder.event(self._class, _NOT_READ, f"{condition}: {error}", warning=True)
            known = self._conditions.find(condition)
            if known is None or known.status == UNKNOWN:
                self.put(condition, Verdict({}, UNKNOWN, _NOT_READ, str(error)))
            return
        self.put(condition, verdict)

    def put(self, condition: str, verdict: Verdict) -> None:
        self._fields |= verdict.fields
        self._conditions.put(condition, verdict.status, verdict.reason, verdict.message)

    async def images(self) -> Verdict:
        kubernetes = self._parts.kubernetes()
        try:
            found = await self._parts.images.of(self._class, kubernetes)
        except errors.InvalidInput as error:
            return Verdict({}, FALSE, "UnsupportedAlias", str(error))
        if not found:
            return Verdict({"amis": None}, FALSE, "AMINotFound", "amiSelectorTerms select no image")
        return Verdict({"amis": found})

    async def reservations(self) -> Verdict:
        if not self._class.spec.capacity_reservation_selector_terms:
            reservation_condition.put(self._conditions, 0, 0)
            return Verdict({"capacityReservations": None, "upcomingCapacityReservations": None})
        zones = await self._zones()  # first: the subnets have this account's zone names
        found = reservation_status.resolve(
            self._class,
            await self._parts.reservations(self._class),
            zones=zones,
            placement_group=await self._group_name(),
            now_s=self._parts.clock.now_s(),
        )
        self._slots(found)
        fields = {
            "capacityReservations": found.active or None,
            "upcomingCapacityReservations": found.upcoming or None,
        }
        if not found.active and not found.upcoming:
            return Verdict(fields, FALSE, "NoCapacityReservations", found.message)
        return Verdict(fields, TRUE, "" if found.active else "NotStarted", found.message)

    async def placement_group(self) -> Verdict:
        try:
            await self._parts.placement_groups.of(self._class)
        except errors.NotFound as error:
            return Verdict({}, FALSE, "PlacementGroupNotFound", str(error))
        except errors.HoldfastError as error:
            return Verdict({}, FALSE, "PlacementGroupResolutionFailed", str(error))
        return Verdict({})

    async def subnets(self) -> Verdict:
        listed = await self._parts.subnets.fresh()
        found = network.select_subnets(self._class.spec.subnet_selector_terms, listed)
        if not found:
            why = f"subnetSelectorTerms select none of the {len(listed)} subnets that this account sees"
            return Verdict({"subnets": None}, FALSE, "SubnetsNotFound", why)
        return Verdict(
            {"subnets": [wire.Subnet(id=one.id, zone=one.zone, zone_id=one.zone_id) for one in found]}
        )

    async def security_groups(self) -> Verdict:
        listed = await self._parts.security_groups.fresh()
        found = network.select_security_groups(self._class.spec.security_group_selector_terms, listed)
        if not found:
            why = f"securityGroupSelectorTerms select none of the {len(listed)} groups that this account sees"
            return Verdict({"securityGroups": None}, FALSE, "SecurityGroupsNotFound", why)
        return Verdict({"securityGroups": [wire.SecurityGroup(id=one.id, name=one.name) for one in found]})

    async def profile(self) -> Verdict:
        found = await self._parts.profiles.of(self._class)
        if found.problem:
            return Verdict({}, FALSE, "RoleNotFound", found.problem)
        return Verdict({"instanceProfile": found.name})

    async def identity(self) -> Verdict | None:
        """Why instances of the class cannot join the cluster, or None."""
        if self._parts.identity is None:
            return None
        try:
            family = families.of(self._class).name
        except errors.InvalidInput:
            return None  # `validation` reports the reason
        cluster = await self._parts.identity.read()
        problem = cluster.problem(family)
        if problem is None:
            return None
        return Verdict({}, UNKNOWN if cluster.may_recover else FALSE, problem.reason, problem.message)

    def validation(self) -> Verdict:
        problem = class_checks.problem(self._class)
        if problem:
            return Verdict({}, FALSE, problem.reason, problem.message)
        found = {name: self._conditions.find(name) for name in _VALIDATION_NEEDS}
        for status in (FALSE, UNKNOWN):
            waiting = [name for name, one in found.items() if (one.status if one else UNKNOWN) == status]
            if waiting:
                return Verdict({}, status, "DependenciesNotReady", f"{', '.join(waiting)}: {status}")
        return Verdict({})

    async def probed(self, probe: Probe) -> Verdict:
        problem = await probe(self._as_found())
        return Verdict({}, FALSE, problem.reason, problem.message) if problem else Verdict({})

    def _as_found(self) -> EC2NodeClass:
        """The class with its new status."""
        known = {**msgspec.to_builtins(self._class.status), **msgspec.to_builtins(self._fields)}
        status = {key: value for key, value in known.items() if value is not None}
        return msgspec.structs.replace(
            self._class, status=msgspec.convert(status, wire.EC2NodeClassStatus, strict=False)
        )

    def patch(self) -> dict[str, Any]:
        found = self._conditions.find(RESERVATIONS)
        is_needed = self._parts.reserved_capacity and (found is None or found.status != FALSE)
        self._conditions.summarize((*READY_NEEDS, RESERVATIONS) if is_needed else READY_NEEDS)
        patch = msgspec.to_builtins({**self._fields, "conditions": self._conditions.all})
        assert isinstance(patch, dict)
        return patch

    def _slots(self, found: reservation_status.ReservationStatus) -> None:
        reservation_condition.put(self._conditions, len(found.active), found.free)

    async def _zones(self) -> AbstractSet[str] | None:
        try:
            listed = await self._parts.subnets.fresh()
        except errors.HoldfastError:
            return None  # the condition of subnets has the reason
        selected = network.select_subnets(self._class.spec.subnet_selector_terms, listed)
        return frozenset(subnet.zone for subnet in selected)

    async def _group_name(self) -> str:
        """If there is no such group, its own condition has the reason; until then no reservation matches."""
        selector = self._class.spec.placement_group_selector
        if selector is None:
            return ""
        try:
            group = await self._parts.placement_groups.of(self._class)
        except errors.NotFound:
            return selector.name or selector.id or ""
        return group.name if group else ""
