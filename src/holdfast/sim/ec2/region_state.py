"""The state of one simulated region: tables of entities, scheduled changes, costs and events.

Every module of the simulator works on it. All writes pass through it, so that history, costs and the number of writes
stay correct. Its time never goes backwards, even if the clock does. While a scheduled change is applied, the time is
that of the change, so that changes during a jump happen at their own times.
"""

import functools
import hashlib
import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.ports import Ids
from holdfast.sim.ec2 import prices, times
from holdfast.sim.ec2.descriptions import Descriptions
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Fleet, Group, Instance, Reservation, Template
from holdfast.sim.ec2.faults import Faults
from holdfast.sim.ec2.images import Image
from holdfast.sim.ec2.ledger import Charge, Ledger
from holdfast.sim.ec2.setup import Account, Setup, Subnet
from holdfast.sim.ec2.table import Table
from holdfast.sim.ec2.usage import Usage

Event = dict[str, Any]


class Now(Protocol):
    """The part of the Clock port that EC2 uses."""

    def now_s(self) -> int: ...


class RegionState:
    def __init__(
        self,
        *,
        clock: Now,
        ids: Ids,
        setup: Setup,
        faults: Faults,
        sink: Callable[[Event], None],
        planned: Callable[[], None],
    ) -> None:
        self.setup = setup
        self.faults = faults
        self.writes = 0
        self.now_s = clock.now_s()
        self._clock = clock
        self._ids = ids
        self._sink = sink
        self._planned = planned
        self._listeners: list[Callable[[], None]] = []
        self.agenda: list[tuple[int, int, str, str]] = []
        self.entries = 0
        self.given: Counter[str] = Counter()  # every id so far
        self.touched: dict[str, None] = {}  # ids that were written, billed or created since the last check
        self.ledger = Ledger(self._touch)
        self.answers: dict[tuple[str, str, str], tuple[str, bytes]] = {}  # by client token
        self.addresses: Counter[str] = Counter()  # addresses assigned so far, by subnet
        self.pool_limits: dict[tuple[str, str, str], int] = {}  # left by type, zone id and market
        self.usage = Usage()
        self.instances: Table[Instance] = Table(self._moment, self._changed_instance)
        self.descriptions = Descriptions(self.instances)  # of DescribeInstances
        self.statuses = Descriptions(self.instances)  # of DescribeInstanceStatus
        self.reservations: Table[Reservation] = Table(self._moment, self._changed)
        self.templates: Table[Template] = Table(self._moment, self._changed)
        self.groups: Table[Group] = Table(self._moment, self._changed)
        self.fleets: Table[Fleet] = Table(self._moment, self._changed)

    def on_write(self, listener: Callable[[], None]) -> None:
        """Calls the listener at each write, and when a change is scheduled."""
        self._listeners.append(listener)

    # --- Time ---------------------------------------------------------------------------------------

    def at(self, due_s: int, action: str, subject: str) -> None:
        """Schedules a change. The state at that time decides whether it still happens."""
        self.entries += 1
        heapq.heappush(self.agenda, (due_s, self.entries, action, subject))
        self._planned()
        for listener in self._listeners:
            listener()

    def due(self) -> tuple[str, str] | None:
        """The next due change, with the region's time set to its own; without one, sets the clock's time."""
        clock_s = self._clock.now_s()
        if self.agenda and self.agenda[0][0] <= clock_s:
            due_s, _, action, subject = heapq.heappop(self.agenda)
            self.now_s = max(self.now_s, due_s)
            return action, subject
        self.now_s = max(self.now_s, clock_s)
        return None

    # --- Names --------------------------------------------------------------------------------------

    def new_id(self, prefix: str) -> str:
        """A new id in EC2's format: 17 hexadecimal digits, the first of them 0."""
        return self.give_id(
            f"{prefix}-0{hashlib.blake2b(self._ids.token().encode(), digest_size=8).hexdigest()}"
        )

    def give_id(self, id_: str) -> str:
        """Records an id as used."""
        self.given[id_] = self.given.get(id_, 0) + 1
        self._touch(id_)
        return id_

    def has_account(self, account_id: str) -> bool:
        return account_id in self._accounts

    def account(self, account_id: str) -> Account:
        return self._accounts[account_id]

    @functools.cached_property
    def _accounts(self) -> dict[str, Account]:
        return {account.id: account for account in self.setup.accounts}

    @functools.cached_property
    def types(self) -> dict[str, InstanceTypeInfo]:
        return {info.name: info for info in ec2.region(self.setup.region).types}

    @functools.cached_property
    def offered(self) -> dict[str, tuple[str, ...]]:
        """The zone ids of each type, converted from the shipped zone names."""
        shipped = ec2.region(self.setup.region)
        ids = {zone.name: str(zone.id) for zone in shipped.zones}
        return {name: tuple(ids[zone] for zone in zones) for name, zones in shipped.zones_by_type.items()}

    @functools.cached_property
    def subnets(self) -> dict[str, Subnet]:
        return {subnet.id: subnet for subnet in self.setup.subnets}

    @functools.cached_property
    def images(self) -> dict[str, Image]:
        return {image.id: image for image in self.setup.images}

    @functools.cached_property
    def group_names(self) -> dict[str, str]:
        """Names of security groups."""
        return {group.id: group.name for group in self.setup.security_groups}

    def arn(self, account: str, resource: str) -> str:
        return f"arn:aws:ec2:{self.setup.region}:{account}:{resource}"

    # --- Writes -------------------------------------------------------------------------------------

    def put_instance(self, instance: Instance, **changes: Any) -> Instance:
        changed = self.instances.put(replace(instance, **changes) if changes else instance)
        self._book_instance(changed)
        if changed.state != instance.state or not changes:
            detail = {"instance-id": changed.id, "state": changed.state}
            self.emit(
                changed.account,
                "EC2 Instance State-change Notification",
                detail,
                (self.arn(changed.account, f"instance/{changed.id}"),),
            )
        return changed

    def put_reservation(self, reservation: Reservation, **changes: Any) -> Reservation:
        changed = self.reservations.put(replace(reservation, **changes) if changes else reservation)
        self._book_reservation(changed)
        return changed

    def emit(
        self,
        account: str,
        detail_type: str,
        detail: dict[str, Any],
        resources: tuple[str, ...] = (),
        source: str = "aws.ec2",
    ) -> None:
        """Emits an EventBridge event."""
        digits = hashlib.blake2b(self._ids.token().encode(), digest_size=16).hexdigest()
        parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
        self._sink(
            {
                "version": "0",
                "id": "-".join(parts),
                "detail-type": detail_type,
                "source": source,
                "account": account,
                "time": times.text(self.now_s),
                "region": self.setup.region,
                "resources": list(resources),
                "detail": detail,
            }
        )

    def _book_instance(self, instance: Instance) -> None:
        if instance.state != "running":
            self.ledger.stop(instance.id, self.now_s)
            return
        kind, price = "on-demand", prices.on_demand(self.setup, instance.instance_type)
        if instance.reservation_id:
            kind, price = "reserved", 0
        elif instance.lifecycle == "spot":
            kind = "spot"
            price = prices.spot(self.setup, instance.instance_type, instance.zone_id)
        self.ledger.book(
            Charge(
                what=instance.id,
                kind=kind,
                account=instance.account,
                agent=instance.agent,
                tags=instance.tags,
                nano_usd_per_hour=price or 0,
                from_s=self.now_s,
                reservation=instance.reservation_id,
            )
        )

    def _book_reservation(self, reservation: Reservation) -> None:
        """An interruptible reservation costs nothing itself: its slots are paid for in its source."""
        if not reservation.active or reservation.interruptible:
            self.ledger.stop(reservation.id, self.now_s)
            return
        price = prices.on_demand(self.setup, reservation.instance_type) or 0
        self.ledger.book(
            Charge(
                what=reservation.id,
                kind=CAPACITY_BLOCK if reservation.kind == CAPACITY_BLOCK else "reservation",
                account=reservation.owner,
                tags=reservation.tags,
                nano_usd_per_hour=price * reservation.total,
                from_s=self.now_s,
            )
        )

    def _moment(self) -> int:
        return self.now_s

    def _changed(self, key: str, _before: object, _after: object) -> None:
        self.writes += 1
        self._touch(key)
        for listener in self._listeners:
            listener()

    def _changed_instance(self, key: str, before: Instance | None, after: Instance | None) -> None:
        self._changed(key, before, after)
        self.usage.change(before, after)

    def _touch(self, key: str) -> None:
        self.touched[key] = None
