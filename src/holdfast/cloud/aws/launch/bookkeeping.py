"""Records the results of a CreateFleet call for the catalog and the metrics.

A pool without capacity is unavailable for a while, but only for on-demand and spot launches (Q-43, decision 12). A
reservation is held down only if EC2 reports it full or without capacity. A quota or a subnet without addresses does not
hold it down.
"""

from collections.abc import Iterable
from typing import Final

from holdfast import names, ports
from holdfast.cloud.aws.catalog.unavailable import HoldDowns, Unavailable
from holdfast.cloud.aws.client import batching
from holdfast.cloud.aws.client.error_codes import Meaning
from holdfast.cloud.aws.launch.addresses import Addresses
from holdfast.cloud.aws.launch.choice import Choice
from holdfast.cloud.aws.launch.fleets import Answer, Failure

LAUNCH_FAILURES: Final = "karpenter_cloudprovider_instance_launch_failures_total"
UNKNOWN_CODES: Final = "holdfast_aws_unknown_error_codes_total"
LAUNCHES: Final = "holdfast_reservation_launches_total"
REFUSALS: Final = "holdfast_reservation_launch_refusals_total"
_OUT_OF_STOCK: Final = (Meaning.NO_CAPACITY, Meaning.QUOTA)


class Bookkeeping:
    def __init__(
        self,
        unavailable: Unavailable,
        hold_downs: HoldDowns,
        addresses: Addresses,
        *,
        clock: ports.Clock,
        recorder: ports.Recorder,
    ) -> None:
        self.addresses = addresses
        self._unavailable = unavailable
        self._hold_downs = hold_downs
        self._clock = clock
        self._recorder = recorder

    def observe_batch_size(self, claims: int) -> None:
        """Records how many claims one fleet is for."""
        self._recorder.observe(batching.BATCH_SIZE, {"batcher": "create_fleet"}, claims)

    def blocked_subnets(self) -> frozenset[str]:
        return self._unavailable.subnets.members(self._clock.monotonic_s())

    def full(self, reservation_ids: Iterable[str]) -> None:
        """EC2 rejected launches into these reservations, and their counts show no free slot."""
        self._hold_downs.full(reservation_ids, self._clock.monotonic_s())

    def refused(self, reservation_ids: Iterable[str]) -> None:
        """EC2 rejected several launches into these reservations, and their counts show free slots."""
        self._hold_downs.refused(reservation_ids, self._clock.monotonic_s())

    def answered(self, choice: Choice, answer: Answer, *, into_target: bool) -> None:
        """`into_target`: direct mode, where a full target does not make the on-demand pool unavailable."""
        for one in answer.launched:
            option = choice.option(one.instance_type, one.zone)
            if option is not None and option.offering.reservation_id is not None:
                self._hold_downs.succeeded(option.offering.reservation_id)
                self._recorder.count(LAUNCHES, {"reservation": option.offering.reservation_id})
        for failure in answer.failures:
            self._failed(choice, failure, into_target=into_target)

    def _failed(self, choice: Choice, failure: Failure, *, into_target: bool) -> None:
        now_s, meaning = self._clock.monotonic_s(), failure.meaning
        self._count(choice, failure)
        if meaning is Meaning.NO_ADDRESSES and failure.subnet_id:
            self._unavailable.subnets.add(failure.subnet_id, now_s)
        elif meaning is Meaning.NO_SPOT_ROLE:
            self._unavailable.capacity_types.add(names.SPOT, now_s)
        elif meaning is Meaning.NO_CAPACITY and choice.capacity_type == names.RESERVED:
            option = choice.option(failure.instance_type or "", failure.zone or "")
            if option is not None and option.offering.reservation_id is not None:
                self._hold_downs.refused([option.offering.reservation_id], now_s)
        elif meaning in _OUT_OF_STOCK and choice.capacity_type != names.RESERVED and not into_target:
            pool = (failure.instance_type or "", failure.zone or "", choice.capacity_type)
            self._unavailable.pools.add(pool, now_s)

    def _count(self, choice: Choice, failure: Failure) -> None:
        option = choice.option(failure.instance_type or "", failure.zone or "")
        about = {
            "zone": failure.zone or "",
            "zone_id": (option and option.zone_id) or "",
            "capacity_type": choice.capacity_type,
            "reason": failure.code,
        }
        self._recorder.count(LAUNCH_FAILURES, about)
        if option is not None and option.offering.reservation_id is not None:
            refused = {"reservation": option.offering.reservation_id, "reason": failure.code}
            self._recorder.count(REFUSALS, refused)
        if failure.meaning is Meaning.UNKNOWN:
            self._recorder.count(UNKNOWN_CODES, {"code": failure.code})
