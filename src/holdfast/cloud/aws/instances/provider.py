"""Describes, tags, reboots and terminates instances, and checks them for drift.

DescribeInstances and TerminateInstances are batched, so the number of calls does not grow with nodes. Each operation is
idempotent. A new instance that EC2 does not describe yet does not count as terminated.
"""

import contextlib
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from holdfast import errors, ports
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.client import calls, descriptions
from holdfast.cloud.aws.client.batching import Batcher
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.instances import drift, ec2_instances
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance, Selected
from holdfast.cloud.aws.instances.parsed_groups import ParsedGroups
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType

V = TypeVar("V")

TERMINATION_FAILURES: Final = "karpenter_cloudprovider_instance_termination_failures_total"
JUST_S: Final = 5.0  # how long a listing is used for instances that are terminating
LISTED_S: Final = 120.0  # how long a listing is used to show that nothing has drifted
A_PAGE_S: Final = 20.0  # a listing is reused for this time per page beyond the first
LAG_S: Final = 120.0  # EC2 may not describe a new instance for this long
_DESCRIBE: Final = "DescribeInstances"
_TERMINATED: Final = "terminated"


class InstanceProvider:
    def __init__(
        self,
        api: Calls,
        *,
        cluster: Cluster,
        clock: ports.Clock,
        recorder: ports.Recorder,
        selected: Selected,
    ) -> None:
        def batcher(name: str, call: Callable[[Sequence[str]], Awaitable[Mapping[str, V]]]) -> Batcher[V]:
            return Batcher(call, clock=clock, recorder=recorder, name=name, most=ec2_instances.IDS_MAX)

        self._aws = api
        self._cluster = cluster
        self._clock = clock
        self._selected = selected
        self._recorder = recorder
        self._new: dict[str, float] = {}  # launch time by instance id
        self._listed: dict[str, EC2Instance] = {}  # the last listing, by id
        self._listed_s = -math.inf
        self._instances: tuple[Instance, ...] = ()  # of the last listing
        self._reasons = drift.Reasons()
        self._parsed = ParsedGroups(cluster.ownership.kind.label)
        self._described = batcher("describe_instances", self._describe)
        self._ended = batcher("terminate_instances", self._terminate)

    def launched(self, instance_id: str) -> None:
        """Records a launch: the instance exists even while DescribeInstances does not list it."""
        now_s = self._clock.monotonic_s()
        self._new = {known: at_s for known, at_s in self._new.items() if now_s - at_s < LAG_S}
        self._new[instance_id] = now_s

    async def by_provider_id(self, provider_id: str) -> EC2Instance:
        """Raises NotFound when the instance is terminated."""
        return await self.described(ec2_instances.instance_id(provider_id))

    async def described(self, instance_id: str) -> EC2Instance:
        try:
            found = await self._described.get(instance_id)
        except errors.NotFound:
            if self._clock.monotonic_s() - self._new.get(instance_id, -LAG_S) < LAG_S:
                raise errors.NotReady(f"{instance_id} was just launched and is not described yet") from None
            raise
        if found.instance.state is InstanceState.GONE:
            raise errors.NotFound(f"{instance_id} is terminated")
        return found

    async def instance(self, provider_id: str) -> Instance:
        return (await self.by_provider_id(provider_id)).instance

    async def all(self, max_age_s: float = 0) -> tuple[EC2Instance, ...]:
        """Every instance of this cluster, sorted by provider id. A listing of many pages is reused for longer, so that
        the rate of calls does not grow with the nodes."""
        await self._list(max_age_s)
        return tuple(self._listed.values())

    async def instances(self, max_age_s: float = 0) -> tuple[Instance, ...]:
        """The same as values of the model; the same tuple, if it is of the same listing."""
        await self._list(max_age_s)
        return self._instances

    async def _list(self, max_age_s: float) -> None:
        now_s, pages = self._clock.monotonic_s(), math.ceil(len(self._listed) / ec2_instances.PAGE)
        if now_s - self._listed_s >= max(max_age_s, (pages - 1) * A_PAGE_S):
            listed = await self._read(ec2_instances.all_of(self._cluster))
            found = [one for one in listed if self._cluster.ownership.is_ours(one.tags)]
            found.sort(key=lambda one: one.instance.provider_id)
            self._listed, self._listed_s = {one.id: one for one in found}, now_s
            self._instances = tuple([one.instance for one in found])
            self._reasons.forget_all_but(self._listed.keys())

    async def launched_with(self, tokens: Sequence[str]) -> list[EC2Instance]:
        """The instances that calls with these tokens launched, oldest first."""
        found: list[EC2Instance] = []
        for start in range(0, len(tokens), ec2_instances.IDS_MAX):
            some = tokens[start : start + ec2_instances.IDS_MAX]
            found += await self._read(ec2_instances.launched_with(some, self._cluster))
        return sorted(found, key=lambda one: (one.instance.launched_s, one.id))

    async def terminate(self, provider_id: str) -> None:
        """Raises NotFound when the instance is terminated. Sends no call for one that is shutting down (aws-6.7.1)."""
        id_ = ec2_instances.instance_id(provider_id)
        with contextlib.suppress(errors.NotReady):  # EC2 does not list it yet, but can terminate it
            if await self._state(id_) is InstanceState.ENDING:
                return
        if await self._ended.get(id_) == _TERMINATED:
            raise errors.NotFound(f"{provider_id} has ended")

    async def _state(self, id_: str) -> InstanceState:
        """A controller that waits for a termination calls this every few seconds, so a recent listing is enough."""
        is_young = self._clock.monotonic_s() - self._listed_s < JUST_S
        listed = self._listed.get(id_) if is_young else None
        return (listed or await self.described(id_)).instance.state

    async def reboot(self, provider_id: str, operation: str) -> None:
        """Tags the instance with the operation first. After a crash between the two calls the instance is not rebooted,
        and the reboot controller detects that; it could not detect a second reboot."""
        found = await self.by_provider_id(provider_id)
        if found.tags.get(ec2_instances.REBOOT_TAG) == operation:
            return
        tags = descriptions.tag_list({ec2_instances.REBOOT_TAG: operation})
        await self._aws.call(calls.EC2, "CreateTags", Resources=[found.id], Tags=tags)
        await self._aws.call(calls.EC2, "RebootInstances", InstanceIds=[found.id])

    async def tag(self, claim: NodeClaim) -> None:
        """Tags the instance with its claim and node. Each instance needs its own call, because the values differ.
        Existing tags are kept (aws-6.6.1)."""
        assert claim.status.provider_id is not None, "only what was launched can be tagged"
        found = await self.by_provider_id(claim.status.provider_id)
        wanted = {
            aws.NAME_TAG: claim.status.node_name,
            aws.NODECLAIM_TAG: claim.metadata.name,
            aws.CLUSTER_NAME_TAG: self._cluster.name,
        }
        missing = {key: value for key, value in wanted.items() if value and key not in found.tags}
        if missing:
            tags = descriptions.tag_list(missing)
            await self._aws.call(calls.EC2, "CreateTags", Resources=[found.id], Tags=tags)

    async def drifted(
        self, claim: NodeClaim, node_class: EC2NodeClass, types: Mapping[str, InstanceType]
    ) -> str | None:
        """The reason of the drift, or None. A recent listing is enough to show that nothing has drifted, so many nodes
        need no calls; a drift is confirmed with a new read (aws-6.3.3)."""
        assert claim.status.provider_id is not None, "only what was launched can drift"
        if self.undrifted((claim,), node_class, types):
            return None
        return self._reason(claim, node_class, types, await self.by_provider_id(claim.status.provider_id))

    def undrifted(
        self, claims: Iterable[Object], node_class: EC2NodeClass, types: Mapping[str, InstanceType]
    ) -> Collection[str]:
        """The uids of the claims whose instances have not drifted by a recent listing."""
        if self._clock.monotonic_s() - self._listed_s >= LISTED_S:
            return ()
        found = set()
        for claim in claims:
            assert isinstance(claim, NodeClaim)
            with contextlib.suppress(errors.InvalidInput, errors.NotReady):
                listed = self._listed.get(ec2_instances.instance_id(claim.status.provider_id or ""))
                if listed is not None and self._reason(claim, node_class, types, listed) is None:
                    found.add(claim.metadata.uid)
        return found

    def _reason(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        types: Mapping[str, InstanceType],
        found: EC2Instance,
    ) -> str | None:
        known = types.get(found.instance.instance_type)
        return self._reasons.reason(claim, node_class, found, instance_type=known)

    async def _describe(self, ids: Sequence[str]) -> Mapping[str, EC2Instance]:
        return {one.id: one for one in await self._read(ec2_instances.by_id(ids))}

    async def _read(self, request: Mapping[str, Any]) -> list[EC2Instance]:
        parse = self._parsed.parser(self._selected, self._aws.ec2_clock.ahead_s)
        found = await self._aws.pages(calls.EC2, _DESCRIBE, "Reservations", parse=parse, **request)
        return [one for group in found for one in group]

    async def _terminate(self, ids: Sequence[str]) -> Mapping[str, str]:
        """The previous state of each instance. EC2 rejects a call with an unknown id; then each id is sent alone. A
        response without one of the ids is an error: otherwise that instance could run without a NodeClaim."""

        def states(answer: Mapping[str, Any]) -> dict[str, str]:
            found = {
                change["InstanceId"]: change["PreviousState"]["Name"]
                for change in answer["TerminatingInstances"]
            }
            return {key: found[key] for key in ids}

        try:
            return await self._aws.read(calls.EC2, "TerminateInstances", states, InstanceIds=list(ids))
        except errors.NotFound:
            if len(ids) == 1:
                return {}
            return {key: state for one in ids for key, state in (await self._terminate([one])).items()}
        except errors.HoldfastError:
            self._recorder.count(TERMINATION_FAILURES, {}, len(ids))
            raise
