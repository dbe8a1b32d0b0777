"""Checks with dry runs whether the account may launch instances of a class.

The dry runs are the calls that a launch makes, also into a reservation if the class has one (Karpenter's do not include
that, AW-18). A result is cached for half an hour, while class and status do not change. A missing permission is a
result; any other error is not. The dry run uses the launch template of real launches.
"""

import functools
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast import errors, names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import ObjectMeta
from holdfast.api.nodeclaim import NodeClaim, NodeClaimSpec, NodeClassReference
from holdfast.cloud.aws.catalog import labels
from holdfast.cloud.aws.client import calls
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.sources import Answers
from holdfast.cloud.aws.launch import fleets, template_data, templates
from holdfast.cloud.aws.launch.choice import Choice, choose
from holdfast.cloud.aws.launch.fleets import Order
from holdfast.cloud.aws.launch.template_store import TemplateStore
from holdfast.cloud.aws.launch.templates import LaunchContext, Template
from holdfast.cloud.aws.nodeclass.class_checks import Problem
from holdfast.model import requirements
from holdfast.model.offerings import InstanceType
from holdfast.model.snapshot import ClaimView

ALLOWED_TTL_S: Final = 1800.0
FORBIDDEN_TTL_S: Final = 300.0  # short: the class becomes Ready soon after a user grants the permission
_PROFILE_WORDS: Final = "IAM Instance Profile"  # EC2 has no error code for an unknown profile
TRIED: Final = (names.ON_DEMAND, names.RESERVED)
TAGGED: Final = ("instance", "network-interface", "volume")  # resources that RunInstances creates
_REFUSED: Final = (errors.Unauthorized, errors.Rejected)

Types = Callable[[EC2NodeClass], Awaitable[tuple[InstanceType, ...]]]


def trial(
    node_class: EC2NodeClass, types: tuple[InstanceType, ...], context: LaunchContext, capacity_type: str
) -> tuple[Choice, Template] | None:
    """The launch that a class is tried out with: the cheapest offering of a capacity type. None: it has no offering that
    could be launched. InvalidInput: its user data is too long."""
    wanted = ClaimView("probe", None, requirements.of(labels.one_of(names.CAPACITY_TYPE, capacity_type)))
    try:
        choice = choose(types, wanted)
        template = templates.templates(choice, _claim(node_class), node_class, context)[0]
    except errors.InsufficientCapacity:
        return None
    return Choice(choice.market, template.options[:1]), template


class Probes:
    def __init__(self, aws: Calls, *, context: LaunchContext, store: TemplateStore, types: Types) -> None:
        self._aws = aws
        self._context = context
        self._store = store
        self._types = types
        self._verdicts = Answers[str, Problem | None](aws.clock)

    async def problem(self, node_class: EC2NodeClass) -> Problem | None:
        """The problem, or None. Raises an error if the dry run had no result."""
        if not self._context.dry_runs:
            return None
        return await self._verdicts.get(
            _identity(node_class),
            lambda found: FORBIDDEN_TTL_S if found else ALLOWED_TTL_S,
            lambda: self._probe(node_class),
        )

    async def _probe(self, node_class: EC2NodeClass) -> Problem | None:
        types, context = await self._types(node_class), await self._context.now()
        for capacity_type in TRIED:
            launch = functools.partial(trial, node_class, types, context, capacity_type)
            try:
                tried = await self._aws.executor.run(launch)
            except errors.InvalidInput as error:
                return Problem("UserDataSizeLimitExceeded", str(error))
            found = await self._try(node_class, *tried) if tried else None
            if found is not None:
                return found
        return None

    async def _try(self, node_class: EC2NodeClass, choice: Choice, template: Template) -> Problem | None:
        try:
            await self._store.ensure([template])
        except _REFUSED as error:
            return Problem("CreateLaunchTemplateAuthCheckFailed", str(error))
        order = Order(count=1, client_token="", tags=template.tags)
        subnets = fleets.zonal_subnets(node_class)
        request = fleets.request(choice, [template], subnets, order)
        del request["ClientToken"]  # a dry run launches nothing
        try:
            await self._dry_run("CreateFleet", request)
            return await self._run(node_class, choice, template)
        except errors.Unauthorized as error:
            return Problem("CreateFleetAuthCheckFailed", str(error))
        except errors.NotFound:  # the template may have been deleted: create it the next time
            self._store.discard([template])
            raise

    async def _run(self, node_class: EC2NodeClass, choice: Choice, template: Template) -> Problem | None:
        """Tries the subnets of the zone until one passes."""
        option, found = choice.options[0], None
        for subnet in node_class.status.subnets:
            if subnet.zone != option.offering.zone:
                continue
            request = {
                "LaunchTemplate": {"LaunchTemplateName": template.name, "Version": "$Latest"},
                "InstanceType": option.instance_type.name,
                "SubnetId": subnet.id,
                "MinCount": 1,
                "MaxCount": 1,
                "TagSpecifications": template_data.tag_specifications(TAGGED, template.tags),
            }
            try:
                await self._dry_run("RunInstances", request)
            except errors.Unauthorized as error:
                found = Problem("RunInstancesAuthCheckFailed", str(error))
            except errors.Rejected as error:
                if _PROFILE_WORDS not in str(error):
                    raise
                if not node_class.spec.instance_profile:  # a new profile may not be in EC2 yet
                    raise errors.NotReady(str(error)) from error
                return Problem("InstanceProfileNotFound", str(error))
            else:
                return None
        return found

    async def _dry_run(self, operation: str, request: Mapping[str, Any]) -> None:
        """Returns if the call is allowed, even without capacity."""
        try:
            await self._aws.call(calls.EC2, operation, DryRun=True, **request)
        except errors.InsufficientCapacity:
            return


def _claim(node_class: EC2NodeClass) -> NodeClaim:
    """A NodeClaim without requirements."""
    ref = NodeClassReference(
        group=node_class.api_version.partition("/")[0], kind=node_class.kind, name=node_class.metadata.name
    )
    return NodeClaim(
        metadata=ObjectMeta(name="probe"), spec=NodeClaimSpec(node_class_ref=ref, requirements=())
    )


def _identity(node_class: EC2NodeClass) -> str:
    """A hash of the inputs of the result, without the order of subnets, which changes by itself."""
    status = node_class.status
    parts = (
        node_class.metadata.name,
        node_class.metadata.annotations,
        node_class.spec,
        sorted(one.id for one in status.subnets),
        sorted(one.id for one in status.security_groups),
        sorted(one.id for one in status.amis),
        sorted(one.id for one in status.capacity_reservations),
        status.instance_profile,
    )
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()
