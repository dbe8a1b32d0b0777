"""The simulated EC2: handles one operation, with a result or an error.

Fronts use only `call`. Before a call, scheduled changes up to the clock's time are applied. After a write, and after
time has passed, every checker checks what changed. A repeated client token with the same parameters returns the first
response again.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.ports import Ids
from holdfast.sim.aws.errors import ApiError, LostResponse
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import (
    agenda,
    catalog_calls,
    checkers,
    faults,
    fleet,
    instance_calls,
    interruptible_calls,
    network_calls,
    pages,
    reservation_calls,
    run_instances,
    status_calls,
    table,
    tag_calls,
    templates,
    throttle,
)
from holdfast.sim.ec2.listings import Listings
from holdfast.sim.ec2.region_state import Event, Now, RegionState
from holdfast.sim.ec2.requests import Request, dry_run
from holdfast.sim.ec2.setup import Setup

Operation = Callable[[RegionState, Request], dict[str, Any]]

_TOKENS_LAST_S: Final = 48 * 3600

OPERATIONS: Final[Mapping[str, Operation]] = {
    "CancelCapacityReservation": reservation_calls.cancel,
    "CreateCapacityReservation": reservation_calls.create,
    "CreateFleet": fleet.create,
    "CreateInterruptibleCapacityReservationAllocation": interruptible_calls.lend,
    "CreateLaunchTemplate": templates.create,
    "CreateLaunchTemplateVersion": templates.create_version,
    "CreateTags": tag_calls.create,
    "DeleteLaunchTemplate": templates.delete,
    "DeleteTags": tag_calls.delete,
    "DescribeAvailabilityZones": catalog_calls.zones,
    "DescribeCapacityBlocks": reservation_calls.blocks,
    "DescribeCapacityReservations": reservation_calls.describe,
    "DescribeImages": network_calls.images,
    "DescribeInstanceStatus": status_calls.describe,
    "DescribeInstanceTypeOfferings": catalog_calls.offerings,
    "DescribeInstanceTypes": catalog_calls.types,
    "DescribeInstances": instance_calls.describe,
    "DescribeLaunchTemplateVersions": templates.describe_versions,
    "DescribeLaunchTemplates": templates.describe,
    "DescribePlacementGroups": network_calls.placement_groups,
    "DescribeSecurityGroups": network_calls.security_groups,
    "DescribeSpotPriceHistory": catalog_calls.spot_prices,
    "DescribeSubnets": network_calls.subnets,
    "GetCapacityReservationUsage": reservation_calls.usage,
    "GetGroupsForCapacityReservation": reservation_calls.groups,
    "ModifyCapacityReservation": reservation_calls.modify,
    "ModifyInstanceCapacityReservationAttributes": instance_calls.set_reservation,
    "RebootInstances": instance_calls.reboot,
    "RunInstances": run_instances.run,
    "TerminateInstances": instance_calls.terminate,
    "UpdateInterruptibleCapacityReservationAllocation": interruptible_calls.take_back,
}


class Ec2:
    """One region of EC2, with the accounts of its setup."""

    def __init__(
        self,
        *,
        clock: Now,
        ids: Ids,
        setup: Setup,
        rules: Sequence[faults.Fault] = (),
        sink: Callable[[Event], None] = lambda _: None,
        planned: Callable[[], None] = lambda: None,
        throttled: bool = True,
    ) -> None:
        """Events are sent to `sink`; `planned` is called when a change is scheduled."""
        self.region = RegionState(
            clock=clock, ids=ids, setup=setup, faults=faults.Faults(rules, ids), sink=sink, planned=planned
        )
        self._throttle = throttle.Throttle(on=throttled)
        self._watch = checkers.Watch(self.region)
        self._checked_s = self.region.now_s
        self._listings = Listings(setup.page_size)
        self._answered: deque[tuple[int, tuple[str, str, str]]] = deque()  # when, the oldest first

    def advance(self) -> None:
        """Applies scheduled changes up to the clock's time, for callers that read the region directly."""
        agenda.catch_up(self.region)
        self._check()

    def check_all(self) -> None:
        """Runs every checker on everything, at the end of a test."""
        self._check()
        self._watch.check_all()

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        self.advance()
        run = OPERATIONS.get(operation)
        if run is None:
            raise ApiError("InvalidAction", f"The action {operation} is not valid for this web service.")
        self._admit(operation, params, caller)
        listings = self._listings.at((self.region.writes, self.region.now_s))
        stale_s = self._stale_s(operation)
        request = Request(operation, params, caller.account_id, caller.user_agent, stale_s, listings)
        answer = pages.next_page(request) or self._once(run, request)
        self._check()
        if self.region.faults.strikes_call(faults.Lost, operation, self.region.now_s):
            raise LostResponse(operation)
        return answer

    def _admit(self, operation: str, params: Mapping[str, Any], caller: Caller) -> None:
        region = self.region
        if not region.has_account(caller.account_id):
            raise ApiError("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
        if region.faults.strikes_call(faults.Throttled, operation, region.now_s):
            raise throttle.limit_exceeded()
        self._throttle.charge(caller.account_id, operation, params, region.now_s)
        if region.faults.strikes_call(faults.Denied, operation, region.now_s):
            message = f"You are not authorized to perform this operation: ec2:{operation}."
            raise ApiError("UnauthorizedOperation", message, 403)
        if region.faults.strikes_call(faults.Broken, operation, region.now_s):
            raise ApiError("InternalError", "An internal error has occurred", 500)

    def _once(self, run: Operation, request: Request) -> dict[str, Any]:
        """Runs the operation, or returns the response of an earlier request with this token."""
        token = request.get("ClientToken")
        key = (request.account, request.operation, str(token))
        fingerprint = _fingerprint(request) if token else ""
        if token and key in self.region.answers:
            before, stored = self.region.answers[key]
            if before != fingerprint:
                raise ApiError(
                    "IdempotentParameterMismatch",
                    "The request uses the same client token as a previous, but non-identical request.",
                )
            return dict(msgspec.msgpack.decode(stored))
        writes = self.region.writes
        answer = run(self.region, request)
        if request.dry_run:
            assert self.region.writes == writes, f"a dry run of {request.operation} wrote"
            raise dry_run()
        if token:
            self._remember(key, fingerprint, answer)
        return answer

    def _remember(self, key: tuple[str, str, str], fingerprint: str, answer: Mapping[str, Any]) -> None:
        now_s = self.region.now_s
        self.region.answers[key] = (fingerprint, msgspec.msgpack.encode(answer))
        self._answered.append((now_s, key))
        while self._answered[0][0] <= now_s - _TOKENS_LAST_S:
            self.region.answers.pop(self._answered.popleft()[1], None)

    def _stale_s(self, operation: str) -> int:
        if not operation.startswith("Describe"):
            return 0
        fault = self.region.faults.strikes_call(faults.Stale, operation, self.region.now_s)
        lag_s = fault.lag_s if fault else self.region.setup.timings.stale_s
        assert lag_s <= table.HISTORY_S, f"nothing is remembered for {lag_s} s"
        return lag_s

    def _check(self) -> None:
        if self.region.touched or self.region.now_s != self._checked_s:
            self._watch.check()
            self._checked_s = self.region.now_s


def _fingerprint(request: Request) -> str:
    parameters = {name: value for name, value in request.params.items() if name != "ClientToken"}
    return hashlib.blake2b(msgspec.json.encode(parameters, order="sorted"), digest_size=16).hexdigest()
