"""Launches the instance of a NodeClaim.

Runs while the claim is not Launched. A claim that holds a slot is launched into it. If the cloud reports that
reservation as full, the claim takes a free slot of another reservation that it lists, and its annotation is changed
before the launch (decision 13). If there is none, the claim is deleted and its pods are planned again. A claim that
waits for an instance to terminate is not launched before the count shows the slot as free. If another instance took the
slot, the claim keeps waiting, since the claim itself is the hold (decision 22). NodeClaims of gangs are launched all or
none (`gang_launches`); they move to no other reservation, and the gang is planned again.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Final

import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim import launched_claim
from holdfast.controllers.nodeclaim.gang_launches import GangLaunches, RolledBack
from holdfast.controllers.nodeclaim.launch_batch import LaunchBatcher
from holdfast.controllers.nodeclaim.subreconciler import Delete
from holdfast.core.disruption import waiting_replacements
from holdfast.model import prices
from holdfast.model.decisions import DecisionType
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType
from holdfast.model.snapshot import CloudLabels
from holdfast.ports import LaunchRequest, Ports
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.results import RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import claims, gang_launches, nodes, reservation_condition, times
from holdfast.state.conversion.gang_launches import GangLaunch

_MOVES_MAX: Final = 8  # to another reservation in one reconcile
_BACKOFF: Final = Backoff(base_s=1, cap_s=60)
_SLOT_CHECK_S: Final = 5.0
_COUNT_AGE_S: Final = 10.0  # maximum age of the counts while a claim waits for its slot
_REMEMBERED: Final = 10_000  # claims with a failed launch


@dataclass(frozen=True, slots=True)
class _Failed:
    """The launch failed and is repeated, with back-off."""

    error: Exception


@dataclass(frozen=True, slots=True)
class _Failures:
    in_a_row: int
    until_s: float  # no launch before this time: our own writes trigger reconciles


class Launch:
    def __init__(
        self, *, cluster_state: ClusterState, launching: LaunchBatcher, gangs: GangLaunches, ports: Ports
    ) -> None:
        self._cluster_state = cluster_state
        self._launching = launching
        self._gangs = gangs
        self._cloud = ports.cloud
        self._kube = ports.kube
        self._clock = ports.clock
        self._ids = ports.ids
        self._recorder = ports.recorder
        self._moving = asyncio.Lock()  # two claims must not move to one slot
        self._failures: dict[str, _Failures] = {}  # by uid
        self._suitable = _Suitable(ports.cloud.labels)
        self._log = structlog.get_logger().bind(controller="nodeclaim.lifecycle")

    async def run(self, draft: Draft) -> RequeueAfter | Delete | None:
        if draft.conditions.holds(claim_conditions.LAUNCHED):
            self._failures.pop(draft.claim.metadata.uid, None)
            return None
        if (left_s := self._back_off_s(draft.claim.metadata.uid)) > 0:
            return RequeueAfter(left_s, "back-off after a failed launch")
        if names.LAUNCH_TOKEN not in draft.annotations and self._cluster_state.nominations.is_void(
            draft.name
        ):
            return Delete("not_needed", "the pods that it was written for run on other nodes, or are deleted")
        if _waits(draft) and not await self._is_its_turn(draft):
            return _waiting(draft, "its slot is not free yet")
        request = await self._request(draft.claim)
        if isinstance(request, Delete):
            return request
        if isinstance(request, errors.HoldfastError):
            return self._answered(draft, (), _Failed(request))
        gang = gang_launches.of(draft.claim)
        outcome = await (self._launched(draft, request) if gang is None else self._with_gang(draft, gang))
        return self._answered(draft, request.instance_types, outcome)

    async def _request(self, claim: NodeClaim) -> LaunchRequest | Delete | errors.HoldfastError:
        """Made before the batch: a claim that cannot be launched must not fail the others."""
        node_class = self._cluster_state.node_class(claim.spec.node_class_ref)
        if node_class is None or node_class.metadata.deletion_timestamp is not None:
            return Delete("nodeclass_not_ready", "its node class is not there, or is being deleted")
        try:
            known = await self._cloud.instance_types(node_class)
        except (errors.NotReady, errors.InvalidInput) as error:
            return Delete("nodeclass_not_ready", str(error))
        try:
            nodes.claim_taints(claim)
            types = self._suitable.types(claim, known)
        except errors.InvalidInput as error:
            return error
        return LaunchRequest(
            claim, node_class, "", claims.held_reservation(claim.metadata.annotations), types
        )

    async def _with_gang(self, draft: Draft, gang: GangLaunch) -> Instance | _Failed | RequeueAfter | Delete:
        outcome = await self._gangs.outcome(draft, gang, self._request)
        match outcome:
            case RolledBack(instance, end, error):
                if instance is not None:
                    draft.fill(provider_id=instance.provider_id)  # so that its termination is certain
                held = claims.held_reservation(draft.annotations)
                if isinstance(error, errors.ReservationExhausted) and held in error.reservation_ids:
                    return _full(draft, error)
                return end
            case errors.HoldfastError():
                return _Failed(outcome)
        return outcome

    async def _launched(
        self, draft: Draft, request: LaunchRequest
    ) -> Instance | _Failed | RequeueAfter | Delete:
        for _ in range(_MOVES_MAX):
            reservation_id = claims.held_reservation(draft.annotations)
            request = replace(request, claim=draft.claim, reservation_id=reservation_id)
            claim, outcome = await self._launching.launch(request)
            draft.refresh(claim)
            match outcome:
                case Instance():
                    return outcome
                case errors.InsufficientCapacity() if names.WAITS_FOR_INSTANCE in draft.annotations:
                    await self._spend_token(draft)
                    return _waiting(draft, str(outcome))
                case errors.ReservationExhausted() if reservation_id is not None:
                    if not await self._move(draft, reservation_id):
                        return _full(draft, outcome)
                case errors.ReservationExhausted():
                    return _full(draft, outcome)
                case errors.InsufficientCapacity():
                    return Delete("insufficient_capacity", str(outcome))
                case errors.Unreachable() | errors.Conflict() | errors.NotReady():
                    return _Failed(outcome)  # the call may have launched an instance: the token stays
                case errors.HoldfastError():
                    await self._spend_token(draft)
                    return _Failed(outcome)
                case _:
                    raise outcome
        return Delete("insufficient_capacity", "every slot it moved to was taken meanwhile")

    def _answered(
        self,
        draft: Draft,
        types: tuple[InstanceType, ...],
        outcome: Instance | _Failed | RequeueAfter | Delete,
    ) -> RequeueAfter | Delete | None:
        match outcome:
            case Instance():
                self._launched_with(draft, outcome, types)
                return None
            case RequeueAfter() | Delete():
                return outcome
            case _Failed(error):
                self._recorder.decision(
                    DecisionType.LAUNCH_FAILED,
                    draft.claim,
                    f"Launch of NodeClaim {draft.name} failed: {error}",
                )
                draft.conditions.put(
                    claim_conditions.LAUNCHED, conditions.UNKNOWN, "LaunchFailed", str(error)
                )
                return RequeueAfter(self._failed(draft.claim.metadata.uid), f"launch failed: {error}")

    def _launched_with(self, draft: Draft, instance: Instance, types: tuple[InstanceType, ...]) -> None:
        offering = launched_claim.fill(draft, instance, types, self._cloud.labels.well_known)
        price = offering.price_nano_usd_per_hour if offering is not None else None
        self._report_launched(draft, instance)
        self._log.info(
            "launched nodeclaim",
            nodeclaim=draft.name,
            provider_id=instance.provider_id,
            instance_id=instance.provider_id.rpartition("/")[2],
            instance_type=instance.instance_type,
            zone=instance.zone,
            capacity_type=instance.capacity_type,
            reservation=instance.reservation_id,
            price_usd_per_hour=prices.text(price) if price is not None else None,
        )

    def _report_launched(self, draft: Draft, instance: Instance) -> None:
        where = f"{instance.instance_type} in {instance.zone}"
        paid = f"reserved in {instance.reservation_id}" if instance.reservation_id else instance.capacity_type
        id_ = instance.provider_id.rpartition("/")[2]
        self._recorder.decision(
            DecisionType.LAUNCHED, draft.claim, f"Launched {id_} for NodeClaim {draft.name}: {where}, {paid}"
        )

    def _back_off_s(self, uid: str) -> float:
        """How long not to launch, after a failure. The launch of a gang may have succeeded meanwhile."""
        failures = self._failures.get(uid)
        if failures is None or self._gangs.has_outcome(uid):
            return 0.0
        return failures.until_s - self._clock.monotonic_s()

    def _failed(self, uid: str) -> float:
        """Returns the back-off in seconds."""
        known = self._failures.get(uid)
        in_a_row = known.in_a_row + 1 if known is not None else 1
        wait_s = _BACKOFF.delay_s(in_a_row, self._ids)
        if len(self._failures) >= _REMEMBERED:
            self._failures.clear()  # most of these claims are deleted
        self._failures[uid] = _Failures(in_a_row, self._clock.monotonic_s() + wait_s)
        return wait_s

    # --- Slots ----------------------------------------------------------------------------------------

    async def _move(self, draft: Draft, full: str) -> bool:
        """Moves the claim to a free slot of another listed reservation, and removes its token. False: there is none."""
        key = self._cloud.labels.reservation_id
        wanted = claims.requirements_of(draft.claim).get(key or "")
        async with self._moving:
            entries = await self._cluster_state.ledger()
            free = [
                id_
                for id_, entry in entries.items()
                if id_ != full and entry.free > 0 and id_ in wanted.values and not wanted.complement
            ]
            if not free:
                return False
            annotations = {**claims.holding(free[0]), names.LAUNCH_TOKEN: None}
            draft.refresh(
                await self._kube.patch(
                    draft.claim, {"metadata": {"annotations": annotations}}, only_if_unchanged=True
                )
            )
        return True

    async def _spend_token(self, draft: Draft) -> None:
        """Removes the token: the cloud answered, so the next call needs a new token."""
        change = {"metadata": {"annotations": {names.LAUNCH_TOKEN: None}}}
        draft.refresh(await self._kube.patch(draft.claim, change, only_if_unchanged=True))

    async def _is_its_turn(self, draft: Draft) -> bool:
        """Whether the slot is free. Once the instance terminated, counts are read more often: an idle slot is paid for."""
        gone = any(
            one.name == draft.name for one in waiting_replacements.freed(await self._cluster_state.slots())
        )
        await self._write_instance_gone(draft, gone=gone)
        return gone and waiting_replacements.may_launch(
            await self._cluster_state.slots(max_age_s=_COUNT_AGE_S), draft.name
        )

    async def _write_instance_gone(self, draft: Draft, *, gone: bool) -> None:
        """Writes when the instance was terminated; if it is listed again, removes the time. The bound on the wait
        counts from this time (`waiting_replacements.overdue`), so it is an annotation: a time in memory would be lost
        with each restart."""
        known = times.moment_s(draft.annotations.get(names.INSTANCE_GONE)) is not None
        if known is not gone:
            written = times.text(self._clock.now_s()) if gone else None
            change = {"metadata": {"annotations": {names.INSTANCE_GONE: written}}}
            draft.refresh(await self._kube.patch(draft.claim, change, only_if_unchanged=True))


def _waits(draft: Draft) -> bool:
    """Whether the claim may have to wait for its slot. After a launch call its own instance may already use the slot: a
    crash may have lost the answer, and the token finds the instance."""
    return names.WAITS_FOR_INSTANCE in draft.annotations and names.LAUNCH_TOKEN not in draft.annotations


def _waiting(draft: Draft, why: str) -> RequeueAfter:
    draft.conditions.put(claim_conditions.LAUNCHED, conditions.UNKNOWN, "WaitsForSlot", why)
    return RequeueAfter(_SLOT_CHECK_S, why)


class _Suitable:
    """Finds the instance types of a claim. Caches the last result: claims in a row often have equal requirements."""

    def __init__(self, labels: CloudLabels) -> None:
        self._labels = labels
        self._required: tuple[object, ...] = ()
        self._known: tuple[InstanceType, ...] = ()
        self._answer: tuple[InstanceType, ...] = ()

    def types(self, claim: NodeClaim, known: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        required = (claim.spec.requirements, claim.spec.resources)
        # Compared by value: the tuple is rebuilt, from the same objects.
        if self._known != known or self._required != required:
            self._required, self._known, self._answer = required, known, self._find(claim, known)
        return self._answer

    def _find(self, claim: NodeClaim, known: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
        """Sorted by name and not by price: prices change, and a repeated call must have the same parameters."""
        wanted = claims.view(claim, self._labels)
        if wanted.invalid:
            raise errors.InvalidInput(wanted.invalid)
        return tuple(sorted(filter(wanted.suits_type, known), key=lambda one: one.name))


def _full(draft: Draft, error: errors.ReservationExhausted) -> Delete:
    draft.conditions.put(
        reservation_condition.TYPE, conditions.FALSE, reservation_condition.LIMIT_EXCEEDED, str(error)
    )
    return Delete("insufficient_capacity", str(error))
