"""The AWS implementation of `ports.Cloud`. It passes each call to `discovery`, the launcher or the instance
provider."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast import names, ports
from holdfast.api import aws as aws_names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.cloud.aws.catalog import labels
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.measured_calls import MeasuredCalls
from holdfast.cloud.aws.discovery import Discovery
from holdfast.cloud.aws.instances import repair
from holdfast.cloud.aws.instances.instance_status import Statuses
from holdfast.cloud.aws.instances.provider import InstanceProvider
from holdfast.cloud.aws.instances.queue import Queue
from holdfast.cloud.aws.launch.bookkeeping import Bookkeeping
from holdfast.cloud.aws.launch.launcher import Launcher
from holdfast.cloud.aws.launch.probes import Probes
from holdfast.cloud.aws.launch.templates import LaunchContext
from holdfast.cloud.aws.nodeclass import class_hash, preflight
from holdfast.cloud.aws.notices import Notices
from holdfast.cloud.aws.reservations import selection
from holdfast.core.disruption.repair import RepairPolicy
from holdfast.model.instance_status import InstanceStatus
from holdfast.model.instances import Instance
from holdfast.model.notices import Notice
from holdfast.model.offerings import InstanceType
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CloudLabels
from holdfast.ports import LaunchRequest, NodeClassTerms, ReservationCounts

_LISTED_S: Final = 90.0  # max age of the listing; unused objects are kept for longer
_TAGGED: Final = {aws_names.TAGGED: "true", aws_names.CLUSTER_NAME_TAGGED: "true"}


class Aws:
    def __init__(
        self,
        aws: Calls,
        discovery: Discovery,
        context: LaunchContext,
        *,
        clock: ports.Clock,
        ids: ports.Ids,
        recorder: ports.Recorder,
        queue: Queue | None = None,
    ) -> None:
        self.discovery = discovery
        self._measured = MeasuredCalls(clock=clock, recorder=recorder)
        self._node_classes = NodeClassTerms(
            kind=context.cluster.ownership.kind,
            finalizer=aws_names.TERMINATION_FINALIZER,
            hash_key=aws_names.EC2NODECLASS_HASH,
            hash_version_key=aws_names.EC2NODECLASS_HASH_VERSION,
            hash_version=class_hash.VERSION,
            label=context.cluster.ownership.kind.label,
        )
        self._instances = InstanceProvider(
            aws,
            cluster=context.cluster,
            clock=clock,
            recorder=recorder,
            selected=discovery.demand.selected_by,
        )
        self._launcher = Launcher(
            aws,
            context=context,
            clock=clock,
            ids=ids,
            provider=self._instances,
            books=Bookkeeping(
                discovery.unavailable,
                discovery.hold_downs,
                discovery.addresses,
                clock=clock,
                recorder=recorder,
            ),
            counts=discovery.count_again,
        )

        self._probes = Probes(
            aws, context=context, store=self._launcher.templates, types=discovery.instance_types
        )
        self._statuses = Statuses(aws)
        self._notices = Notices(
            queue, provider=self._instances, discovery=discovery, clock=clock, ec2_clock=aws.ec2_clock
        )

    @property
    def labels(self) -> CloudLabels:
        return labels.CLOUD_LABELS

    @property
    def node_classes(self) -> NodeClassTerms:
        return self._node_classes

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        return repair.REPAIR_POLICIES

    def fingerprint(self, node_class: Object) -> str:
        assert isinstance(node_class, EC2NodeClass)
        return class_hash.of(node_class)

    def never(self, pool: Object, node_class: Object) -> Sequence[str]:
        assert isinstance(pool, NodePool)
        assert isinstance(node_class, EC2NodeClass)
        return [found.message for found in preflight.problems(pool, node_class)]

    def selected_reservations(self, node_class: Object, *, upcoming: bool = False) -> Collection[str]:
        assert isinstance(node_class, EC2NodeClass)
        started = selection.active(node_class)
        if not upcoming:
            return started
        return {*started, *(one.id for one in node_class.status.upcoming_capacity_reservations)}

    def list_prices(self) -> Mapping[str, int]:
        return self.discovery.list_prices()

    async def instance_types(
        self, node_class: Object, counts: ReservationCounts | None = None
    ) -> tuple[InstanceType, ...]:
        with self._measured.call("GetInstanceTypes"):
            return await self.discovery.instance_types(node_class, counts)

    async def reservations(self, *, max_age_s: float | None = None) -> ReservationCounts:
        return await self.discovery.reservations(max_age_s=max_age_s)

    async def resolve(self, node_class: Object) -> Mapping[str, Any]:
        return await self.discovery.resolve(node_class, self._probes.problem)

    async def release(self, node_class: Object) -> None:
        await self._launcher.templates.delete_all(node_class.metadata.name)
        await self.discovery.release(node_class)

    async def launch(
        self, requests: Sequence[LaunchRequest], *, owned: Collection[str] = ()
    ) -> Sequence[Instance | Exception]:
        with self._measured.call("Create"):
            results = await self._launcher.launch(requests, owned)
        for request, result in zip(requests, results, strict=True):
            if isinstance(result, Exception):
                self._measured.failed("Create", result, _pool(request.claim))
        return results

    async def instance(self, provider_id: str) -> Instance:
        with self._measured.call("Get"):
            return await self._instances.instance(provider_id)

    async def instances(self, *, max_age_s: float = 0) -> tuple[Instance, ...]:
        with self._measured.call("List"):
            return await self._instances.instances(max_age_s)

    async def tag(self, claim: Object) -> Mapping[str, str]:
        assert isinstance(claim, NodeClaim)
        if not _TAGGED.items() <= claim.metadata.annotations.items():
            await self._instances.tag(claim)
        return _TAGGED

    async def record_capacity(self, claim: Object, node_class: Object, capacity: Resources) -> None:
        assert isinstance(claim, NodeClaim)
        assert isinstance(node_class, EC2NodeClass)
        self.discovery.record_capacity(claim, node_class, capacity)

    async def drift(self, claim: Object, node_class: Object) -> str | None:
        assert isinstance(claim, NodeClaim)
        assert isinstance(node_class, EC2NodeClass)
        with self._measured.call("IsDrifted", _pool(claim)):
            types = await self.discovery.last_types(node_class)
            return await self._instances.drifted(claim, node_class, types)

    async def undrifted(self, claims: Sequence[Object], node_class: Object) -> Collection[str]:
        assert isinstance(node_class, EC2NodeClass)
        with self._measured.call("IsDrifted"):
            types = await self.discovery.last_types(node_class)
            return self._instances.undrifted(claims, node_class, types)

    async def terminate(self, provider_id: str) -> None:
        with self._measured.call("Delete"):
            await self._instances.terminate(provider_id)

    async def reboot(self, provider_id: str, operation: str) -> None:
        with self._measured.call("Reboot"):
            await self._instances.reboot(provider_id, operation)

    async def notices(self) -> Sequence[Notice]:
        return await self._notices.next()

    async def acknowledge(self, notice: Notice) -> None:
        await self._notices.acknowledge(notice)

    async def instance_statuses(self) -> Sequence[InstanceStatus]:
        return await self._statuses.read()

    async def collect(self, node_classes: Iterable[Object], claims: Iterable[Object]) -> None:
        listed = await self._instances.all(_LISTED_S)
        used = {claim.metadata.annotations.get(aws_names.INSTANCE_PROFILE_NAME, "") for claim in claims}
        used |= {one.profile for one in listed}
        for node_class in node_classes:
            assert isinstance(node_class, EC2NodeClass)
            used.add(node_class.status.instance_profile or "")
        launched_from = {one.tags.get(aws_names.LAUNCH_TEMPLATE_TAG, "") for one in listed}
        await self._launcher.templates.collect(launched_from)
        await self.discovery.collect_profiles(used)


def _pool(claim: Object) -> str:
    return claim.metadata.labels.get(names.NODEPOOL, "")
