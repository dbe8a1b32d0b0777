"""Interruption notices for `ports.Cloud`, and their effect on the catalog.

A notice is passed on even if its effect on the catalog failed. The pool of an interrupted spot instance is unavailable
for a while (aws-6.4.2). A notice about reservations triggers a new count and changes none itself (Karpenter takes a
single warning as an empty reservation, aws-6.4.7).
"""

import contextlib
from typing import Final

from holdfast import errors, names, ports
from holdfast.cloud.aws.client.ec2_clock import Ec2Clock
from holdfast.cloud.aws.discovery import Discovery
from holdfast.cloud.aws.instances import queue
from holdfast.cloud.aws.instances.interruption import Kind
from holdfast.cloud.aws.instances.provider import InstanceProvider
from holdfast.cloud.aws.instances.queue import Queue, Received
from holdfast.model.notices import Notice

_ENDING: Final = (
    Kind.SPOT_INTERRUPTED,
    Kind.RESERVATION_INTERRUPTED,
    Kind.INSTANCE_STOPPED,
    Kind.INSTANCE_TERMINATED,
    Kind.SCHEDULED_CHANGE,
)
# Karpenter's reasons and messages.
_EVENTS: Final = {
    Kind.SPOT_INTERRUPTED: ("SpotInterrupted", "Spot interruption warning was triggered"),
    Kind.RESERVATION_INTERRUPTED: (
        "CapacityReservationInstanceInterrupted",
        "Capacity Reservation interruption warning was triggered",
    ),
    Kind.REBALANCE: (
        "SpotRebalanceRecommendation",
        "Spot rebalance recommendation was triggered",
    ),
    Kind.INSTANCE_STOPPED: ("InstanceStopping", "Instance is stopping"),
    Kind.INSTANCE_TERMINATED: ("InstanceTerminating", "Instance is terminating"),
    Kind.SCHEDULED_CHANGE: (
        "InstanceUnhealthy",
        "An unhealthy warning was triggered for the instance: AWS has scheduled a change",
    ),
}
_ABOUT_RESERVATIONS: Final = (Kind.RESERVATION_INTERRUPTED, Kind.RESERVATION_CHANGED, Kind.BLOCK_EXPIRING)


class Notices:
    def __init__(
        self,
        from_queue: Queue | None,
        *,
        provider: InstanceProvider,
        discovery: Discovery,
        clock: ports.Clock,
        ec2_clock: Ec2Clock,
    ) -> None:
        self._queue = from_queue
        self._provider = provider
        self._discovery = discovery
        self._clock = clock
        self._ec2_clock = ec2_clock

    async def next(self) -> tuple[Notice, ...]:
        """The notices in the queue, or those that arrive within some seconds. Without a queue it waits as long and
        returns none."""
        if self._queue is None:
            await self._clock.sleep(queue.WAIT_S)
            return ()
        received = await self._queue.receive()
        await self._heed(received)
        return tuple(_ours(one, self._ec2_clock) for one in received)

    async def acknowledge(self, notice: Notice) -> None:
        assert self._queue is not None, "a notice came from a queue"
        await self._queue.delete(notice.receipt)

    async def _heed(self, received: list[Received]) -> None:
        spot = [one.notice for one in received if one.notice.kind is Kind.SPOT_INTERRUPTED]
        for instance_id in sorted({key for notice in spot for key in notice.instance_ids}):
            with contextlib.suppress(errors.HoldfastError):
                found = (await self._provider.described(instance_id)).instance
                pool = (found.instance_type, found.zone, names.SPOT)
                self._discovery.unavailable.pools.add(pool, self._clock.monotonic_s())
        if self._discovery.demand.is_selected and any(
            one.notice.kind in _ABOUT_RESERVATIONS for one in received
        ):
            with contextlib.suppress(errors.HoldfastError):
                await self._discovery.count_again()


def _ours(received: Received, ec2_clock: Ec2Clock) -> Notice:
    notice = received.notice
    event, message = _EVENTS.get(notice.kind, ("", ""))
    return Notice(
        reason=notice.kind.value,
        event=event,
        message=message,
        terminates_instances=notice.kind in _ENDING,
        instance_ids=notice.instance_ids,
        reservation_ids=notice.reservation_ids,
        sent_s=ec2_clock.to_program_s(notice.sent_s),
        ends_s=None if notice.ends_s is None else ec2_clock.to_program_s(notice.ends_s),
        receipt=received.receipt,
    )
