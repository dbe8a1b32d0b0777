"""Reads the AWS account as `holdfast run` would at its start. A read that fails is a value of the reading.

Classes are resolved by `Discovery`, with the status left out, so that an old status hides nothing. The client that reads
has a fence that lets no write pass; only `dry_runs` has one without, and sends `DryRun` with every call.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from holdfast import errors, ports
from holdfast.api import kinds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.status import EC2NodeClassStatus
from holdfast.api.meta import Object, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog.capacity import Settings as CapacitySettings
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls, Clients, Executor
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.doctor import queue_reading
from holdfast.cloud.aws.doctor.actions import ACTIONS, Action
from holdfast.cloud.aws.doctor.dry_runs import DryRuns, Refusal
from holdfast.cloud.aws.doctor.queue_reading import QueueReading
from holdfast.cloud.aws.doctor.read_only_profiles import ReadOnlyProfiles
from holdfast.cloud.aws.launch.templates import LaunchContext
from holdfast.cloud.aws.nodeclass import network
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.cloud.aws.reservations.reader import Reader
from holdfast.model.check_results import Read
from holdfast.model.offerings import InstanceType
from holdfast.ports import Change
from holdfast.runtime.cache import Caches
from holdfast.runtime.reads import value_or_error

SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettings:
    """The settings of a run that matter here."""

    given: Given
    kubernetes: str  # the minor version, such as 1.34; empty: not known
    capacity: CapacitySettings
    queue: str = ""  # name; empty: none
    isolated_vpc: bool = False
    dry_runs: bool = True


@dataclass(frozen=True, slots=True)
class Caller:
    account: str
    arn: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassReading:
    node_class: EC2NodeClass  # with the status that Holdfast would write now
    types: Read[tuple[InstanceType, ...]]
    refusal: Refusal | None = None
    unread_role: errors.HoldfastError | None = None  # why the role could not be read


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountReading:
    region: str
    access: Read[None]  # whether EC2 accepts the credentials
    caller: Read[Caller] | None = None
    denied: Mapping[Action, errors.HoldfastError] = field(default_factory=dict)
    cluster: Cluster | None = None
    queue: Read[QueueReading] | None = None  # None: no queue is set
    spot_role: Read[None] = None
    reservations: Read[Sequence[CapacityReservation]] = ()
    classes: Mapping[str, ClassReading] = field(default_factory=dict)  # by name
    ec2_ahead_s: int = 0
    now_s: int = 0


class AccountReader:
    def __init__(
        self,
        clients: Clients,
        settings: AccountSettings,
        *,
        executor: Executor,
        clock: ports.Clock,
        ids: ports.Ids,
    ) -> None:
        self._settings = settings
        self._clock = clock
        recorder = _NoRecorder()
        common: dict[str, Any] = {"executor": executor, "clock": clock, "ids": ids, "recorder": recorder}
        self._aws = Calls(clients, **common, may_write=lambda: False)
        self._identity = Identity(self._aws, settings.given, clock)
        cluster = self._identity.cluster
        self._profiles = ReadOnlyProfiles(self._aws, clock, cluster, isolated_vpc=settings.isolated_vpc)
        self._kind = cluster.ownership.kind
        self._caches = Caches((self._kind, NodeClaim), clock=clock)
        setup = Setup(
            cluster=cluster,
            kubernetes=lambda: settings.kubernetes,
            settings=settings.capacity,
            isolated_vpc=settings.isolated_vpc,
            identity=self._identity,
            profiles=self._profiles,
        )
        self._discovery = Discovery(self._aws, setup, caches=self._caches, clock=clock, recorder=recorder)
        context = LaunchContext(
            cluster=cluster,
            identity=self._identity,
            region=clients.region,
            reserved_capacity=settings.capacity.reserved_capacity,
        )
        self._context = context
        self._writes = Calls(clients, **common)

    async def read(self, node_classes: Sequence[EC2NodeClass]) -> AccountReading:
        aws, settings = self._aws, self._settings
        access, caller = await asyncio.gather(
            value_or_error(aws.read(calls.EC2, "DescribeInstanceTypes", lambda _: None, DryRun=True)),
            value_or_error(aws.read("sts", "GetCallerIdentity", _caller)),
        )
        if isinstance(access, errors.NoCredentials | errors.Unreachable):
            return AccountReading(region=aws.region, access=access, caller=caller)
        denied, queue, spot_role, reservations = await asyncio.gather(
            self._denied(),
            value_or_error(queue_reading.read(aws, settings.queue)) if settings.queue else _nothing(),
            _nothing() if settings.isolated_vpc else value_or_error(self._spot_role()),
            value_or_error(self._reservations()),
        )
        for node_class in node_classes:
            self._caches.of(self._kind).apply(Change("MODIFIED", node_class))
        return AccountReading(
            region=aws.region,
            access=access,
            caller=caller,
            denied=denied,
            cluster=await self._identity.read(),
            queue=queue,
            spot_role=spot_role,
            reservations=reservations,
            classes={one.metadata.name: await self._resolved(one) for one in node_classes},
            ec2_ahead_s=aws.ec2_clock.reported_s,
            now_s=self._clock.now_s(),
        )

    async def _denied(self) -> Mapping[Action, errors.HoldfastError]:
        wanted = [one for one in ACTIONS if not (one.outside_vpc and self._settings.isolated_vpc)]
        found = await asyncio.gather(
            *(
                value_or_error(self._aws.read(a.service, a.operation, lambda _: None, **a.request))
                for a in wanted
            )
        )
        pairs = zip(wanted, found, strict=True)
        return {action: error for action, error in pairs if isinstance(error, errors.Unauthorized)}

    async def _spot_role(self) -> None:
        await self._aws.call(calls.IAM, "GetRole", RoleName=SPOT_ROLE)

    async def _reservations(self) -> Sequence[CapacityReservation]:
        if not self._settings.capacity.reserved_capacity:
            return ()
        reading = await Reader(self._aws, self._clock).read()
        zones = network.zone_names(await network.read_subnets(self._aws))
        return capacity_reservation.localized(reading.reservations, zones, 0)

    async def _resolved(self, node_class: EC2NodeClass) -> ClassReading:
        bare = msgspec.structs.replace(node_class, status=EC2NodeClassStatus())
        status = await self._discovery.resolve(bare)
        body = {**to_wire(bare), "status": {key: one for key, one in status.items() if one is not None}}
        resolved = kinds.from_plain(body, self._kind)
        assert isinstance(resolved, EC2NodeClass)
        types = await value_or_error(self._discovery.instance_types(resolved))
        refusal = None
        if self._settings.dry_runs and not isinstance(types, errors.HoldfastError):
            has_profile = resolved.status.instance_profile in self._profiles.existing
            runs = DryRuns(self._writes, await self._context.now())
            refusal = await runs.refusal(resolved, types, has_profile=has_profile)
        role = (node_class.spec.role or "").rpartition("/")[2]
        return ClassReading(
            node_class=resolved, types=types, refusal=refusal, unread_role=self._profiles.unread.get(role)
        )


class _NoRecorder:
    """The Recorder port without metrics and events."""

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        pass

    def decision(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None:
        pass

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        pass

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        pass

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        pass

    def replace(self, metric: str, series: dict[tuple[str, ...], float]) -> None:
        pass

    def forget(self, label: str, value: str) -> None:
        pass


def _caller(answer: Mapping[str, Any]) -> Caller:
    return Caller(answer["Account"], answer["Arn"])


async def _nothing() -> None:
    return None
