"""Launches instances for NodeClaims: each claim gets one instance or one error, and never two instances.

It lists the instances of earlier calls, selects offerings (`choice`, `templates`, `fleets`), creates launch templates
and fleets, and records the results (`bookkeeping`).

- A claim adopts an instance of an earlier call with its token before anything is launched, and a retry has the same
  client token (decision 24). A claim of Karpenter adopts an instance without a token that Karpenter launched for its
  NodePool, so that nothing is launched twice when Holdfast takes over. A token must not be used again after a response: that is after any error other than
  Unreachable and NotReady. So a call that cannot be sent now raises Unreachable, for any cause.
- If EC2 reports a reservation as full, its count is read again at once. While the count shows free slots, the launch is
  retried. Otherwise another reservation of the claim is tried, unless the claim holds a slot of this one: only the
  controller writes a new hold (decision 13).
- A launch into reservations never falls back to on-demand or spot capacity.
- NodeClaims of a gang with equal requests share a call that launches all or none. Several calls are made one after
  another, those into reservations first, and none after a failure.
"""

import asyncio
import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast import errors, names, ports
from holdfast.cloud.aws.catalog.labels import one_of
from holdfast.cloud.aws.client import calls, error_codes
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.instances.provider import InstanceProvider
from holdfast.cloud.aws.launch import (
    addresses,
    fleets,
    launch_groups,
    launched_instances,
    readiness,
    runs,
    templates,
)
from holdfast.cloud.aws.launch.bookkeeping import Bookkeeping
from holdfast.cloud.aws.launch.choice import Choice, choose
from holdfast.cloud.aws.launch.fleets import Answer, Launched, Order
from holdfast.cloud.aws.launch.launch_groups import Group, Member
from holdfast.cloud.aws.launch.template_store import TemplateStore
from holdfast.cloud.aws.launch.templates import LaunchContext, Template
from holdfast.model.instances import Instance
from holdfast.model.reservations import launches_into
from holdfast.model.snapshot import ClaimView
from holdfast.ports import LaunchRequest, ReservationCounts

ATTEMPTS: Final = 4
PAUSE_S: Final = 0.2  # before the first retry; doubled for each further one
# Pauses between searches for the instances of an earlier call with the same client token and other parameters.
SETTLES_S: Final = (1.0, 2.0, 4.0, 8.0)
DEALT_MAX: Final = 10_000
ANSWERED_MAX: Final = 1000

Outcome = Instance | errors.HoldfastError
Why = Callable[[], errors.HoldfastError]
"""Returns a new error for each claim without an instance."""
Counts = Callable[[], Awaitable[ReservationCounts]]
"""Reads all reservations, beginning after the call."""


@dataclass(slots=True, kw_only=True)
class _Launch:
    """The launch of one group: the claims without an instance, and the counts of reservations."""

    group: Group
    owned: Collection[str]
    left: list[Member]
    wanted: ClaimView
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()  # full reservations of the last response
    context: LaunchContext

    def settle(self, outcomes: Mapping[int, Outcome]) -> None:
        self.outcomes |= outcomes
        self.left = [member for member in self.left if member.index not in self.outcomes]

    def give_up(self, why: Why) -> None:
        self.settle({member.index: why() for member in self.left})


class Launcher:
    def __init__(
        self,
        aws: Calls,
        *,
        context: LaunchContext,
        clock: ports.Clock,
        ids: ports.Ids,
        provider: InstanceProvider,
        books: Bookkeeping,
        counts: Counts,
    ) -> None:
        self._aws = aws
        self._context = context
        self._clock = clock
        self._provider = provider
        self._books = books
        self._counts = counts
        self.templates = TemplateStore(aws, context.cluster, ids)
        self._dealt: dict[str, Instance] = {}  # by instance id, the instances that were assigned to claims
        self._answered: dict[
            str, None
        ] = {}  # client tokens of calls that launched nothing: EC2 repeats the answer

    async def launch(self, requests: Sequence[LaunchRequest], owned: Collection[str] = ()) -> list[Outcome]:
        """One result per request, in order. `owned`: provider ids of existing claims."""
        members = [launch_groups.member(index, request) for index, request in enumerate(requests)]
        try:
            outcomes = await self._adopt(members, owned)
        except errors.HoldfastError as error:
            return [_unknown(error) for _ in members]
        left = [member for member in members if member.index not in outcomes]
        single, gangs = launch_groups.by_gang(left)
        launches = [
            *(self._launch(group, owned) for group in launch_groups.groups(single)),
            *(self._launch_gang(gang, owned) for gang in gangs),
        ]
        for found in await asyncio.gather(*launches):
            outcomes |= found
        return [outcomes[member.index] for member in members]

    async def _launch_gang(self, members: Sequence[Member], owned: Collection[str]) -> dict[int, Outcome]:
        outcomes: dict[int, Outcome] = {}
        for group in launch_groups.in_order(launch_groups.groups(members)):
            failed = next((one for one in outcomes.values() if isinstance(one, errors.HoldfastError)), None)
            if failed is None:
                outcomes |= await self._launch(group, owned)
            else:
                outcomes |= {one.index: _same(failed) for one in group.members}
        return outcomes

    # --- What was launched before ---------------------------------------------------------------------

    async def _adopt(self, members: Sequence[Member], owned: Collection[str]) -> dict[int, Outcome]:
        """Assigns instances of earlier calls: the one that this process assigned to the claim, even if EC2 does not
        list it yet; else one that no claim owns and that matches."""
        by_name = {member.claim.metadata.name: member for member in members}
        outcomes: dict[int, Outcome] = {
            by_name[dealt.claim].index: dealt
            for dealt in self._dealt.values()
            if dealt.claim in by_name and dealt.launch_token == by_name[dealt.claim].request.token
        }
        left = {member.index: member for member in members if member.index not in outcomes}
        tokens = sorted({member.request.token for member in left.values()})
        launched = [*await self._provider.launched_with(tokens), *await self._without_token()]
        found = (
            ec2_instance
            for ec2_instance in launched
            if ec2_instance.instance.provider_id not in owned and ec2_instance.id not in self._dealt
        )
        for index, ec2_instance in launch_groups.adopted(tuple(left.values()), found).items():
            adopted = launched_instances.completed(ec2_instance.instance, left[index])
            outcomes[index] = self._deal(ec2_instance.id, adopted)
        return outcomes

    async def _without_token(self) -> list[EC2Instance]:
        """The instances that Karpenter launched, oldest first. There are no new ones while Holdfast runs, so the last
        listing is enough."""
        listed = await self._provider.all(max_age_s=math.inf)
        found = [one for one in listed if one.instance.launch_token is None]
        return sorted(found, key=lambda one: (one.instance.launched_s, one.id))

    def _deal(self, instance_id: str, instance: Instance) -> Instance:
        self._dealt[instance_id] = instance
        if len(self._dealt) > DEALT_MAX:
            self._dealt.pop(next(iter(self._dealt)))
        return instance

    # --- What is launched now -------------------------------------------------------------------------

    async def _launch(self, group: Group, owned: Collection[str]) -> dict[int, Outcome]:
        launch = _Launch(
            group=group,
            owned=owned,
            left=list(group.members),
            wanted=group.first.wanted,
            context=await self._context.now(),
        )
        answered = self._answered_attempts(group)
        for attempt in range(ATTEMPTS):
            try:
                why = await self._attempt(launch, answered + attempt)
            except errors.Conflict:
                # A process before a restart made a call with this token, for more or fewer claims.
                await self._find_earlier(launch)
                why = None
            except errors.Throttled as error:
                why = functools.partial(_unknown, error)
            except errors.HoldfastError as error:
                why = functools.partial(_same, error)
            if why is not None:
                launch.give_up(why)
            if not launch.left:
                return launch.outcomes
            if attempt + 1 < ATTEMPTS:
                await self._clock.sleep(PAUSE_S * 2**attempt)
        refused = [key for key in launch.refused if launch.free.get(key)]
        self._books.refused(refused)
        cause = (
            "EC2 refuses although its counts show free slots" if refused else "EC2 repeats earlier responses"
        )
        launch.give_up(lambda: errors.Retryable(f"no instance after {ATTEMPTS} attempts: {cause}"))
        return launch.outcomes

    def _answered_attempts(self, group: Group) -> int:
        """How many earlier calls for the group launched nothing. The requests of a gang keep their token."""
        tokens = (launch_groups.client_token(group, attempt) for attempt in itertools.count())
        return sum(1 for _ in itertools.takewhile(self._answered.__contains__, tokens))

    async def _attempt(self, launch: _Launch, attempt: int) -> Why | None:
        """Makes one call for all claims without an instance. Returns why they get none, or None to try again."""
        first = launch.group.first
        readiness.check(first.node_class)
        choice, launch_templates = await self._aws.executor.run(lambda: self._decide(launch))
        order = Order(
            count=len(launch.left),
            client_token=launch_groups.client_token(launch.group, attempt),
            tags={
                **templates.object_tags(first.claim, first.node_class, self._context.cluster),
                names.LAUNCH_TOKEN: first.request.token,
            },
            context=fleets.context(first.claim, first.node_class),
            whole=bool(first.request.gang),
        )
        answer = await self._create(choice, launch_templates, first, order)
        if not answer.launched:
            self._answered = dict.fromkeys((*list(self._answered)[-ANSWERED_MAX:], order.client_token))
        self._books.answered(choice, answer, into_target=_targets(first))
        repeated = self._assign(launch, answer, choice, launch_templates)
        if not launch.left or repeated or await self._has_free_slots(launch, choice, answer):
            return None
        target = _target_ids(first)
        return lambda: fleets.error(choice, answer.failures, target)

    def _decide(self, launch: _Launch) -> tuple[Choice, tuple[Template, ...]]:
        first = launch.group.first
        choice = choose(
            first.request.instance_types,
            launch.wanted,
            free=launch.free,
            spot=not _targets(first),
            best_effort=self._context.min_values_best_effort,
        )
        return choice, templates.templates(choice, first.claim, first.node_class, launch.context)

    async def _create(
        self, choice: Choice, launch_templates: Sequence[Template], first: Member, order: Order
    ) -> Answer:
        subnets = fleets.zonal_subnets(
            first.node_class, self._books.blocked_subnets(), self._books.addresses.free()
        )
        in_one_run = order.whole and choice.market in runs.MARKETS
        make = runs.request if in_one_run else fleets.request
        request = make(choice, launch_templates, subnets, order)
        self._books.observe_batch_size(order.count)
        charge = self._books.addresses.charge(choice, subnets, order.count)
        try:
            if in_one_run:
                answer = await self._run_instances(request, choice, launch_templates)
            else:
                answer = await self._create_fleet(request, launch_templates)
        except errors.Unreachable:
            raise  # instances may have been launched: keep the charge
        except errors.HoldfastError:
            charge.addresses = {}
            raise
        charge.addresses = addresses.launched_addresses(choice, answer)
        return answer

    async def _create_fleet(self, request: Mapping[str, Any], launch_templates: Sequence[Template]) -> Answer:
        try:
            return await self._with_templates(launch_templates, "CreateFleet", fleets.read, request)
        except errors.ReservationExhausted as error:
            return fleets.all_full(str(error))

    async def _run_instances(
        self, request: Mapping[str, Any], choice: Choice, launch_templates: Sequence[Template]
    ) -> Answer:
        try:
            return await self._with_templates(launch_templates, "RunInstances", runs.read, request)
        except errors.InsufficientCapacity as error:
            return runs.refused(choice, error)

    async def _with_templates(
        self,
        launch_templates: Sequence[Template],
        operation: str,
        read: Callable[[Mapping[str, Any]], Answer],
        request: Mapping[str, Any],
    ) -> Answer:
        """If a launch template was deleted, creates it again, once (aws-5.1.3)."""
        await self.templates.ensure(launch_templates)
        try:
            return await self._aws.read(calls.EC2, operation, read, **request)
        except errors.NotFound:
            self.templates.discard(launch_templates)
            await self.templates.ensure(launch_templates)
        return await self._aws.read(calls.EC2, operation, read, **request)

    def _assign(
        self, launch: _Launch, answer: Answer, choice: Choice, launch_templates: tuple[Template, ...]
    ) -> bool:
        """Assigns one instance to each claim; garbage collection finds surplus instances by their tags and terminates
        them. Returns whether EC2 repeated an earlier response: some of its instances belong to other claims."""
        now_s = self._clock.now_s()
        outcomes: dict[int, Outcome] = {}
        new = [found for found in answer.launched if not self._is_assigned(found, launch)]
        for found, member in zip(new, launch.left, strict=False):
            self._provider.launched(found.instance_id)
            new_one = launched_instances.instance(found, member, choice, launch_templates, now_s=now_s)
            outcomes[member.index] = self._deal(found.instance_id, new_one)
        launch.settle(outcomes)
        return len(new) < len(answer.launched)

    def _is_assigned(self, found: Launched, launch: _Launch) -> bool:
        dealt = self._dealt.get(found.instance_id)
        if dealt is not None:
            return all(dealt.claim != member.claim.metadata.name for member in launch.left)
        return ec2_instances.provider_id(found.zone, found.instance_id) in launch.owned

    async def _has_free_slots(self, launch: _Launch, choice: Choice, answer: Answer) -> bool:
        """Whether a reservation that the launch may use has a free slot, by new counts. The counts may not include the
        instances of this response, so these are subtracted."""
        refused = launch.refused = fleets.full_reservations(choice, answer.failures)
        if not refused or any(f.meaning not in error_codes.UNFULFILLABLE for f in answer.failures):
            return False
        try:
            counts = await self._counts()
        except errors.HoldfastError:
            return False  # EC2 reported it full, and there is no newer count
        used = Counter(fleets.reservation_of(choice, one) for one in answer.launched)
        now_s = self._clock.now_s()
        launch.free |= {
            one.id: max(0, one.available - used[one.id]) if launches_into(one, now_s) else 0
            for one in counts.reservations
        }
        self._books.full([key for key in refused if not launch.free.get(key)])
        if launch.wanted.reservation_id is not None:
            needed = len(launch.left) if launch.group.first.request.gang else 1
            return launch.free.get(launch.wanted.reservation_id, 0) >= needed
        launch.wanted = _only_reserved(launch.wanted)
        try:
            self._decide(launch)
        except errors.InsufficientCapacity:
            return False
        return True

    async def _find_earlier(self, launch: _Launch) -> None:
        """Adopts the instances of an earlier call with the same client token, when EC2 describes them."""
        for pause_s in SETTLES_S:
            launch.settle(await self._adopt(launch.left, launch.owned))
            if not launch.left:
                return
            await self._clock.sleep(pause_s)


def _only_reserved(wanted: ClaimView) -> ClaimView:
    reserved = wanted.requirements.add(one_of(names.CAPACITY_TYPE, names.RESERVED))
    return dataclasses.replace(wanted, requirements=reserved)


def _targets(member: Member) -> bool:
    """Whether the class targets a reservation in direct mode: EC2 launches only into the target, and a full target does
    not make its pool unavailable."""
    return templates.direct_setting(member.node_class) == templates.TARGET


def _target_ids(member: Member) -> tuple[str, ...]:
    direct = member.node_class.spec.capacity_reservation_spec
    target = direct.capacity_reservation_target if direct else None
    return (target.capacity_reservation_id,) if target and target.capacity_reservation_id else ()


def _unknown(error: errors.HoldfastError) -> errors.Unreachable:
    """Without a response, instances may have been launched before."""
    return errors.Unreachable(str(error))


def _same(error: errors.HoldfastError) -> errors.HoldfastError:
    return error
