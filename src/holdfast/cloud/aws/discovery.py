"""The reading part of the Cloud port: instance types, reservations, and the status of an EC2NodeClass.

All values come from caches that one schedule refreshes. So the number of calls depends on time alone: a few per minute,
for any size of the cluster. A failed read keeps the last value. Reservations are read only if there is a demand
(`reservations.demand`). The class status, the catalog, the counts and the metrics of reservations are functions of one
reading, which no other read changes.
"""

import asyncio
import operator
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from holdfast import errors, names, ports
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import builder, offering_gauges, price_list, type_listing
from holdfast.cloud.aws.catalog.builder import BuiltTypes, Supply
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.catalog.observed_memory import ObservedMemory
from holdfast.cloud.aws.catalog.offering_gauges import Gauges
from holdfast.cloud.aws.catalog.unavailable import HoldDowns, Unavailable
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.sources import Schedule, Source
from holdfast.cloud.aws.launch.addresses import Addresses
from holdfast.cloud.aws.nodeclass import network, resolve
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.nodeclass.identity import Identity
from holdfast.cloud.aws.nodeclass.images import Images
from holdfast.cloud.aws.nodeclass.placement_groups import PlacementGroups
from holdfast.cloud.aws.nodeclass.profiles import Profiles
from holdfast.cloud.aws.reservations import capacity_reservation, reader, selection
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.cloud.aws.reservations.demand import ReservationDemand
from holdfast.cloud.aws.reservations.reader import Reading
from holdfast.data.ec2 import Zone
from holdfast.model import resources
from holdfast.model.offerings import InstanceType
from holdfast.model.prices import PriceRange
from holdfast.model.reservations import Reservation, launches_into
from holdfast.model.resources import Resources
from holdfast.ports import NOT_READ, ReservationCounts
from holdfast.runtime.cache import Caches

SUBNETS_PERIOD_S: Final = 60.0
SECURITY_GROUPS_PERIOD_S: Final = 300.0
FIRST_COUNTS_S: Final = 60.0  # how long after a start a class waits for the first counts of reservations

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Settings of discovery."""

    cluster: Cluster  # its name and tags; `identity` reads the rest
    kubernetes: Callable[[], str]  # the current minor version, such as "1.34"
    settings: Settings = field(default_factory=Settings)
    isolated_vpc: bool = False  # only EC2, SSM and EKS are reachable
    offering_metrics: bool = True  # a series for each offering: tens of thousands
    identity: Identity | None = None  # None: the settings have all of it
    profiles: Profiles | None = None  # None: those that create and delete instance profiles


class Discovery:
    def __init__(
        self, aws: Calls, setup: Setup, *, caches: Caches, clock: ports.Clock, recorder: ports.Recorder
    ) -> None:
        self._aws = aws
        self._setup = setup
        self._clock = clock
        self._recorder = recorder
        self.unavailable = Unavailable()
        self.hold_downs = HoldDowns()
        self._memory = ObservedMemory()
        self._needed_s: float | None = None  # when counts were first needed
        self.demand = ReservationDemand(
            caches, setup.cluster.ownership.kind, reserved_capacity=setup.settings.reserved_capacity
        )
        self._built: dict[str, tuple[BuiltTypes, asyncio.Lock]] = {}
        self._types_of: dict[str, dict[str, InstanceType]] = {}  # by class and name, as last built
        self._reader = reader.Reader(aws, clock)
        self._converted: tuple[Reading, object, int, tuple[CapacityReservation, ...]] | None = None
        self._reservations = Source(
            "reservations",
            self._read_reservations,
            period_s=reader.PERIOD_S,
            clock=clock,
            is_needed=lambda: self.demand.exists,
        )
        self._subnets = self._source("subnets", lambda: network.read_subnets(aws), SUBNETS_PERIOD_S)
        self.addresses = Addresses(self._subnets, clock)
        self._security_groups = self._source(
            "security-groups", lambda: network.read_security_groups(aws), SECURITY_GROUPS_PERIOD_S
        )
        self._types = self._source("instance-types", lambda: type_listing.read(aws), type_listing.PERIOD_S)
        self._on_demand = self._source("on-demand-prices", self._read_on_demand, price_list.PERIOD_S)
        self._spot = self._source(
            "spot-prices", lambda: price_list.read_spot(aws, aws.ec2_clock.now_s()), price_list.PERIOD_S
        )
        self._gauges = self._source("offering-gauges", self._record_offerings, offering_gauges.PERIOD_S)
        for later in (self._subnets, self._security_groups):
            later.wanted = False  # until a class needs them
        self._gauges.wanted = setup.offering_metrics
        self._on_demand.wanted = price_list.has_price_list(aws.region) and not setup.isolated_vpc
        self._profiles = setup.profiles or Profiles(aws, clock, setup.cluster)
        self._parts = resolve.Parts(
            subnets=self._subnets,
            security_groups=self._security_groups,
            images=Images(aws, clock),
            profiles=self._profiles,
            placement_groups=PlacementGroups(aws, clock),
            reservations=self._visible_to,
            kubernetes=setup.kubernetes,
            clock=clock,
            recorder=recorder,
            reserved_capacity=setup.settings.reserved_capacity,
            identity=setup.identity,
        )
        self.schedule = Schedule(
            (
                self._types,
                self._on_demand,
                self._spot,
                self._subnets,
                self._security_groups,
                self._reservations,
                self._gauges,
            ),
            clock=clock,
            recorder=recorder,
        )

    # --- The port -------------------------------------------------------------------------------------

    async def instance_types(
        self, node_class: Object, counts: ReservationCounts | None = None
    ) -> tuple[InstanceType, ...]:
        assert isinstance(node_class, EC2NodeClass)
        if not node_class.status.subnets:
            raise errors.NotReady(f"EC2NodeClass/{node_class.metadata.name} has no subnets in its status yet")
        observed_memory = self._memory.of(_images(node_class), self._clock.monotonic_s())
        selected, supply = await self._selected(node_class, counts), await self._supply(observed_memory)
        built, lock = self._built.setdefault(node_class.metadata.name, (BuiltTypes(), asyncio.Lock()))
        async with lock:  # the first build would block the event loop
            now_s = self._clock.now_s()
            # The claims of one plan call this one after the other. Time alone changes only whether a reservation can be
            # launched into.
            is_open = tuple(launches_into(one, now_s) for one in selected)
            inputs = (supply, node_class, selected, is_open)
            if built.inputs != inputs:
                types = await self._aws.executor.run(
                    lambda: builder.build(
                        supply, node_class, selected, now_s=now_s, settings=self._setup.settings, built=built
                    )
                )
                built.inputs = inputs
                if not _are_same(
                    types, built.types
                ):  # what is derived from them is kept as long as the tuple is
                    built.types = types
                    self._types_of[node_class.metadata.name] = {known.name: known for known in types}
        return built.types

    async def last_types(self, node_class: EC2NodeClass) -> Mapping[str, InstanceType]:
        """The last built types, by name. Their availability may have changed since."""
        if node_class.metadata.name not in self._types_of:
            await self.instance_types(node_class)
        return self._types_of[node_class.metadata.name]

    async def reservations(self, *, max_age_s: float | None = None) -> ReservationCounts:
        """Without demand for reservations, EC2 is not called."""
        if not self.demand.exists:
            return ReservationCounts((), self._clock.now_s())
        return self._counts(await self._newest(max_age_s))

    async def count_again(self) -> ReservationCounts:
        """Reads the counts again, because EC2 reported a reservation as full."""
        return self._counts(await self._reservations.read())

    async def resolve(self, node_class: Object, probe: resolve.Probe | None = None) -> Mapping[str, Any]:
        assert isinstance(node_class, EC2NodeClass)
        self._subnets.wanted = self._security_groups.wanted = True
        return await resolve.resolve(node_class, self._parts, probe)

    async def read_once(self) -> dict[str, errors.HoldfastError]:
        """Reads what a plan needs, for a program that does not run the schedule. Returns the failures by source."""
        self._subnets.wanted, self._gauges.wanted = True, False
        return await self.schedule.read_once()

    async def release(self, node_class: Object) -> None:
        """Deletes the AWS objects of a class that is being deleted. Idempotent."""
        assert isinstance(node_class, EC2NodeClass)
        self._built.pop(node_class.metadata.name, None)
        self._types_of.pop(node_class.metadata.name, None)
        if not self._setup.isolated_vpc:
            await self._profiles.release(node_class)

    # --- For the part that launches, and for reports ----------------------------------------------------

    def list_prices(self) -> Mapping[str, int]:
        """The on-demand price by instance type: the account's own, or the shipped ones until they are read."""
        return self._on_demand.last or price_list.shipped(self._aws.region)

    async def price_range(self) -> PriceRange:
        """The range of current prices. The near-zero prices of slots are derived from it (decision 2)."""
        return (await self._supply()).price_range

    async def collect_profiles(self, in_use: AbstractSet[str]) -> None:
        """Deletes instance profiles of this cluster that neither a class nor a claim uses."""
        if not self._setup.isolated_vpc:
            await self._profiles.collect(in_use)

    def record_capacity(self, claim: NodeClaim, node_class: EC2NodeClass, capacity: Resources) -> None:
        """Only for a node with an image that its class still launches: with another image the memory may differ."""
        images = _images(node_class)
        instance_type = claim.metadata.labels.get(names.INSTANCE_TYPE)
        if instance_type and claim.status.image_id in images and capacity[resources.MEMORY]:
            now_s = self._clock.monotonic_s()
            self._memory.record(instance_type, images, capacity[resources.MEMORY], now_s)

    # --- Inside -----------------------------------------------------------------------------------------

    def _source(self, name: str, read: Callable[[], Awaitable[T]], period_s: float) -> Source[T]:
        return Source(name, read, period_s=period_s, clock=self._clock)

    async def _supply(self, observed_memory: Mapping[str, int] = MappingProxyType({})) -> Supply:
        listing, now_s = await self._types.get(), self._clock.monotonic_s()
        return Supply(
            region=self._aws.region,
            types=listing.types,
            zones=tuple(
                Zone(name, zone_id) for zone_id, name in network.zone_names(self._subnets.last or ()).items()
            ),
            zones_by_type=listing.zones_by_type,
            on_demand=self.list_prices(),
            spot=self._spot.last,
            exhausted=self.unavailable.pools.members(now_s),
            forbidden=self.unavailable.capacity_types.members(now_s),
            full_subnets=self.unavailable.subnets.members(now_s),
            held_down=self.hold_downs.held(now_s),
            observed_memory=observed_memory,
        )

    async def _selected(
        self, node_class: EC2NodeClass, counts: ReservationCounts | None
    ) -> tuple[Reservation, ...]:
        """The reservations that the class's status lists, with these counts, or with those of the last reading if None.
        A reservation that the status does not list cannot be used."""
        listed = selection.listed(node_class) if self.demand.has_terms(node_class) else frozenset()
        if not listed:
            return ()
        try:
            if counts is None:
                counts = self._counts(await self._reservations.get())
            elif counts == NOT_READ:
                raise errors.NotReady("EC2's capacity reservations are not read yet")
        except errors.HoldfastError as error:
            self._wait_for_counts(node_class, error)
            return ()
        return tuple(one for one in counts.reservations if one.id in listed)

    def _wait_for_counts(self, node_class: EC2NodeClass, error: errors.HoldfastError) -> None:
        """Raises the error until FIRST_COUNTS_S have passed since the first call; then the class is used without
        reservations. Without counts a plan could use an occupied slot, but the class must not wait for ever."""
        now_s = self._clock.monotonic_s()
        if self._needed_s is None:
            self._needed_s = now_s
        if now_s - self._needed_s < FIRST_COUNTS_S:
            raise error
        message = (
            f"no count of capacity reservations since {FIRST_COUNTS_S:.0f} s; going on without them: {error}"
        )
        self._recorder.event(node_class, "ReservationCountsUnknown", message, warning=True)

    async def _visible_to(self, node_class: EC2NodeClass) -> Sequence[CapacityReservation]:
        """The reservations that the terms of a class are matched against. Reads again if an id of a term is in neither
        list."""
        ids = {term.id for term in node_class.spec.capacity_reservation_selector_terms if term.id}
        reading = await self._newest()
        if reading.without(ids):
            reading = await self._reservations.read()
        return self._localized(reading)

    async def _newest(self, max_age_s: float | None = None) -> Reading:
        """A reading from before the start of a reservation is read again: its slots would be idle for another minute.
        So is one from before the start of a drain: the reservation may have a new end."""
        ec2_clock = self._aws.ec2_clock
        reading, now_s = await self._reservations.fresh(max_age_s), ec2_clock.now_s()
        turned_s = reading.last_turn_s(now_s)
        if turned_s is None or ec2_clock.to_program_s(turned_s) <= reading.read_began_s:
            return reading
        return await self._reservations.fresh(now_s - turned_s)

    def _localized(self, reading: Reading) -> tuple[CapacityReservation, ...]:
        """Converts the reservations of a reading once. Status, catalog and counts use the result."""
        zones, ahead_s = self._subnets.last or (), self._aws.ec2_clock.ahead_s
        if self._converted is None or self._converted[:3] != (reading, zones, ahead_s):
            found = capacity_reservation.localized(reading.reservations, network.zone_names(zones), ahead_s)
            self._converted = reading, zones, ahead_s, found
        return self._converted[3]

    def _counts(self, reading: Reading) -> ReservationCounts:
        return ReservationCounts(tuple(one.model for one in self._localized(reading)), reading.read_began_s)

    async def _read_reservations(self) -> Reading:
        began_s = self._clock.monotonic_s()
        reading = await self._reader.read(self.demand.ids)
        self.hold_downs.counted({one.id: one.available for one in reading.reservations}, began_s)
        self._record_reservations(reading)
        return reading

    def _record_reservations(self, reading: Reading) -> None:
        for name, series in reader.gauges(reading).items():
            self._recorder.replace(name, series)
        before = self._reservations.last
        found = {one.id for one in reading.reservations}
        for one in before.reservations if before is not None else ():
            if one.id not in found:
                self._recorder.forget("reservation", one.id)

    async def _record_offerings(self) -> Gauges:
        types = [known for of_class in self._types_of.values() for known in of_class.values()]
        known, before = await self.price_range(), self._gauges.last or {}
        now = await self._aws.executor.run(lambda: offering_gauges.of(types, known))
        changed = await self._aws.executor.run(lambda: offering_gauges.changed(now, before))
        await offering_gauges.record(changed, self._recorder, self._clock)
        listed = self._types.last.types if self._types.last is not None else ()
        self._recorder.replace(offering_gauges.CORES, {(one.name,): one.vcpus for one in listed})
        self._recorder.replace(
            offering_gauges.MEMORY, {(one.name,): one.memory_mib * 2**20 for one in listed}
        )
        return now

    async def _read_on_demand(self) -> Mapping[str, int]:
        """Keeps the known price of a type that the new list does not have."""
        return {**self.list_prices(), **await price_list.read_on_demand(self._aws)}


def _images(node_class: EC2NodeClass) -> frozenset[str]:
    return frozenset(ami.id for ami in node_class.status.amis)


def _are_same(some: Sequence[InstanceType], others: Sequence[InstanceType]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))
