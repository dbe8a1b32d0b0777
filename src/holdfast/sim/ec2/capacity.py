"""The sources of capacity for a launch: reservations, on-demand and spot, drawn pool by pool.

CreateFleet and RunInstances draw before they launch. A draw only records its counts, so that a plan below its minimum
leaves the region unchanged. An exhausted source is an error of the pool. A launch that targets a reservation by id
never uses on-demand capacity outside it.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from holdfast.sim.ec2 import faults, reservations
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, INTERRUPTIBLE, ONLY_RESERVED, Reservation, Spec
from holdfast.sim.ec2.region_state import RegionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One (type, zone) of a request, with the spec of its instances."""

    instance_type: str
    zone_id: str
    subnet_id: str
    spec: Spec
    price: int  # nano-USD per hour in the requested market; unknown prices are last
    priority: float = float("inf")
    answer: dict[str, Any] = field(default_factory=dict)  # LaunchTemplateAndOverrides


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a pool has fewer instances than requested."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Part:
    """Instances of one pool from one source."""

    pool: Pool
    count: int
    market: str  # on-demand, spot, capacity-block or interruptible-capacity-reservation
    reservation_id: str = ""


FULL = Failure(
    "ReservationCapacityExceeded",
    "The requested reservation does not have sufficient compatible and available capacity.",
)


class Capacity:
    """The remaining capacity of one account, less the draws so far."""

    def __init__(self, region: RegionState, account: str) -> None:
        self._region = region
        self._account = account
        self._taken: Counter[str] = Counter()  # by reservation
        self._pools: Counter[tuple[str, str, str]] = Counter()
        self._addresses: Counter[str] = Counter()  # by subnet
        self._vcpus = self._vcpus_left()

    def plain(self, pool: Pool, wanted: int, market: str) -> tuple[list[Part], Failure | None]:
        """Draws from capacity outside reservations."""
        if failure := self._struck(pool, ("", market)):
            return [], failure
        key = (pool.instance_type, pool.zone_id, market)
        limit = self._region.pool_limits.get(key)
        available = wanted if limit is None else min(wanted, limit - self._pools[key])
        count, failure = self._within_quota(pool, available, market)
        count, full = self._addressed(pool, count)
        self._pools[key] += count
        if self._vcpus is not None and market == "on-demand":
            self._vcpus -= count * self._region.types[pool.instance_type].vcpus
        parts = [Part(pool, count, market)] if count else []
        if count == wanted:
            return parts, None
        return parts, full or failure or Failure(
            "InsufficientInstanceCapacity",
            f"We currently do not have sufficient {pool.instance_type} capacity in the Availability Zone you requested.",
        )

    def reserved(
        self, pool: Pool, wanted: int, candidates: Iterable[Reservation]
    ) -> tuple[list[Part], Failure | None]:
        """Draws from those reservations in order, up to their free slots."""
        parts: list[Part] = []
        if failure := self._struck(pool, ("reserved",)):
            return [], failure
        for reservation in candidates:
            left = wanted - sum(part.count for part in parts)
            available = min(left, reservation.available - self._taken[reservation.id])
            if available <= 0:
                continue
            kind = reservation.reservation_type
            market = kind if kind in {CAPACITY_BLOCK, INTERRUPTIBLE} else "on-demand"
            count, failure = self._addressed(pool, available)
            self._taken[reservation.id] += count
            if count:
                parts.append(Part(pool, count, market, reservation.id))
            if failure:
                break
        missing = sum(part.count for part in parts) < wanted
        return parts, (failure or FULL) if missing else None

    def on_demand(self, pool: Pool, wanted: int) -> tuple[list[Part], Failure | None]:
        """Draws as the template requires: from a target, from open reservations, or outside them."""
        spec = pool.spec
        if spec.target_id:
            failure = self.unusable(pool, spec.target_id, "on-demand-capacity-reservation")
            if failure:
                return [], failure
            return self.reserved(pool, wanted, [self._region.reservations[spec.target_id]])
        if spec.preference == "none":
            return self.plain(pool, wanted, "on-demand")
        inside, failure = self.reserved(pool, wanted, self.candidates(pool))
        if spec.preference == ONLY_RESERVED or failure is None:
            return inside, failure
        rest, failure = self.plain(pool, wanted - sum(part.count for part in inside), "on-demand")
        return inside + rest, failure

    def candidates(self, pool: Pool) -> list[Reservation]:
        """The ordinary reservations that an instance of the pool may use: those of its group, or open ones."""
        if pool.spec.target_group:
            group = self._region.groups.get(pool.spec.target_group)
            members = [self._region.reservations[m] for m in group.members] if group else []
            found = [r for r in members if r.reservation_type == "on-demand-capacity-reservation"]
        else:
            found = [r for r in self._region.reservations if reservations.is_open(r)]
        return [r for r in found if self.takes(pool, r)]

    def takes(self, pool: Pool, reservation: Reservation) -> bool:
        return reservations.usable(self._region, reservation) and self._fits(pool, reservation)

    def unusable(self, pool: Pool, reservation_id: str, kind: str) -> Failure | None:
        """Why a launch that targets this reservation fails, independent of its free slots."""
        reservation = self._region.reservations.get(reservation_id)
        if reservation is None or not reservation.visible_to(self._account):
            return Failure(
                "InvalidCapacityReservationId.NotFound",
                f"The Capacity Reservation '{reservation_id}' does not exist",
            )
        if reservation.reservation_type != kind:
            return Failure(
                "InvalidParameterCombination",
                f"'{reservation_id}' is {reservation.reservation_type}, which this market type cannot use",
            )
        if not self._fits(pool, reservation):
            return Failure(
                "InvalidParameterValue",
                f"The attributes of the instance do not match those of the Capacity Reservation '{reservation_id}'",
            )
        if reservation.kind == CAPACITY_BLOCK and not reservations.usable(self._region, reservation):
            return Failure(
                "InsufficientInstanceCapacity",
                f"The Capacity Block '{reservation_id}' cannot be launched into now.",
            )
        if not reservation.active:
            return Failure(
                "InvalidCapacityReservationState",
                f"The Capacity Reservation '{reservation_id}' is {reservation.state}",
            )
        return None

    def _fits(self, pool: Pool, reservation: Reservation) -> bool:
        return reservations.fits(
            self._region,
            reservation,
            pool.spec,
            account=self._account,
            instance_type=pool.instance_type,
            zone_id=pool.zone_id,
        )

    def _struck(self, pool: Pool, markets: tuple[str, ...]) -> Failure | None:
        fault = self._region.faults.strikes(
            faults.NoCapacity,
            self._region.now_s,
            lambda f: (
                f.instance_type in {"", pool.instance_type}
                and f.zone_id in {"", pool.zone_id}
                and f.market in markets
            ),
        )
        if fault is None:
            return None
        return Failure(fault.code, f"{pool.instance_type} cannot be launched there now.")

    def _addressed(self, pool: Pool, wanted: int) -> tuple[int, Failure | None]:
        """The number of instances that the subnet has addresses for; records them as used."""
        used = self._region.usage.addresses[pool.subnet_id] + self._addresses[pool.subnet_id]
        free = max(0, (self._region.subnets[pool.subnet_id].addresses - used) // pool.spec.addresses)
        count = min(max(0, wanted), free)
        self._addresses[pool.subnet_id] += count * pool.spec.addresses
        if count == wanted or free > count:
            return count, None
        return count, Failure(
            "InsufficientFreeAddressesInSubnet",
            f"There are not enough free addresses in subnet '{pool.subnet_id}' to satisfy the requested number of instances.",
        )

    def _within_quota(self, pool: Pool, wanted: int, market: str) -> tuple[int, Failure | None]:
        """The number of instances within the account's on-demand vCPU quota."""
        if self._vcpus is None or market != "on-demand":
            return wanted, None
        vcpus = self._region.types[pool.instance_type].vcpus
        count = min(wanted, max(0, self._vcpus // vcpus))
        if count == wanted:
            return count, None
        return count, Failure(
            "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit allows."
        )

    def _vcpus_left(self) -> int | None:
        """The quota minus all slots of reservations and instances outside them; instances in reservations do not count
        again."""
        limit = self._region.account(self._account).vcpu_limit
        if not limit:
            return None
        types = self._region.types
        outside = self._region.usage.outside
        used = sum(n * types[name].vcpus for (owner, name), n in outside.items() if owner == self._account)
        held = [r for r in self._region.reservations if r.active and r.owner == self._account]
        ordinary = [r for r in held if r.reservation_type == "on-demand-capacity-reservation"]
        return limit - used - sum(r.total * types[r.instance_type].vcpus for r in ordinary)
