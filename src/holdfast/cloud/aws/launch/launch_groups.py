"""Groups launches into fleets, derives their client tokens, and assigns instances of earlier calls. Pure.

Claims with equal requests share a call. Its client token is derived from the token on the claims and from the request,
so that a retry after a crash is the same call. A claim takes a matching instance of an earlier call before anything is
launched (decision 24).
"""

import dataclasses
import hashlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.catalog import type_labels
from holdfast.cloud.aws.catalog.labels import CLOUD_LABELS, WELL_KNOWN_LABELS
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.launch import fleets
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.model.resources import NOTHING
from holdfast.model.snapshot import ClaimView
from holdfast.ports import LaunchRequest
from holdfast.state.conversion import claims, times

CLIENT_TOKEN_MAX: Final = 64
INSTANCE_LABELS: Final = WELL_KNOWN_LABELS | {aws.CAPACITY_RESERVATION_SETTING, type_labels.NITRO_SANDBOX}
"""Labels that a claim gets from its instance. If a plan sets one, the requirements have it as well."""

_DIGITS: Final = 12
_CLOCKS_DIFFER_S: Final = 60  # at most, those of EC2 and of the API server


@dataclass(frozen=True, slots=True)
class Member:
    """One claim of a launch; `index` is its position in the results."""

    index: int
    request: LaunchRequest
    claim: NodeClaim
    node_class: EC2NodeClass
    wanted: ClaimView


@dataclass(frozen=True, slots=True)
class Group:
    """Claims with equal requests, at most as many as one fleet can have."""

    key: str
    members: tuple[Member, ...]

    @property
    def first(self) -> Member:
        return self.members[0]


def member(index: int, request: LaunchRequest) -> Member:
    assert isinstance(request.claim, NodeClaim), "what is launched is a NodeClaim"
    assert isinstance(request.node_class, EC2NodeClass), "AWS launches from an EC2NodeClass"
    wanted = claims.view(request.claim, CLOUD_LABELS)
    wanted = dataclasses.replace(wanted, reservation_id=request.reservation_id)
    return Member(index, request, request.claim, request.node_class, wanted)


def groups(members: Iterable[Member]) -> list[Group]:
    by_key: dict[str, list[Member]] = {}
    for one in members:
        by_key.setdefault(_key(one), []).append(one)
    most = fleets.CAPACITY_MAX
    return [
        Group(f"{key}/{start // most}", tuple(alike[start : start + most]))
        for key, alike in by_key.items()
        for start in range(0, len(alike), most)
    ]


def by_gang(members: Iterable[Member]) -> tuple[list[Member], list[list[Member]]]:
    """The members in no gang, and those of each gang."""
    found: dict[str, list[Member]] = {"": []}
    for one in members:
        found.setdefault(one.request.gang, []).append(one)
    return found.pop(""), list(found.values())


def in_order(of_gang: Iterable[Group]) -> list[Group]:
    """The groups of a gang in the order of their launch: first into reservations, whose slots another cluster may take,
    and the largest first."""
    return sorted(of_gang, key=lambda one: (one.first.request.reservation_id is None, -len(one.members)))


def client_token(group: Group, attempt: int) -> str:
    token = group.first.request.token
    named = f"{token}-{_digest(group.key, str(attempt))}"
    return named if len(named) <= CLIENT_TOKEN_MAX else _digest(named)


def adopted(members: Sequence[Member], ec2_instances: Iterable[EC2Instance]) -> dict[int, EC2Instance]:
    """The instances of earlier calls, by the index of the member that takes each. Members of one group have equal
    requests, so the same instances match all of them."""
    waiting = [(group.first, deque(group.members)) for group in groups(members)]
    found: dict[int, EC2Instance] = {}
    for ec2_instance in ec2_instances:
        takes = (members for first, members in waiting if members and _suits(first, ec2_instance))
        takers = next(takes, None)
        if takers:
            found[takers.popleft().index] = ec2_instance
    return found


def type_of(request: LaunchRequest, name: str) -> InstanceType | None:
    return next((known for known in request.instance_types if known.name == name), None)


def _suits(one: Member, ec2_instance: EC2Instance) -> bool:
    """Whether the instance was launched for the claim, matches one of its offerings and is not terminating."""
    instance, known = ec2_instance.instance, type_of(one.request, ec2_instance.instance.instance_type)
    if known is None or not _launched_for(one, instance):
        return False
    if instance.state not in (InstanceState.STARTING, InstanceState.RUNNING):
        return False
    reserved = instance.reservation_id if instance.capacity_type == names.RESERVED else None
    # The plan decided before the launch that the pods fit.
    wanted = dataclasses.replace(one.wanted, requests=NOTHING, reservation_id=None)
    return any(
        (o.zone, o.capacity_type, o.reservation_id) == (instance.zone, instance.capacity_type, reserved)
        and wanted.suits(known, o, CLOUD_LABELS)
        for o in known.offerings
    )


def _launched_for(one: Member, instance: Instance) -> bool:
    """Whether the instance has the claim's token. Karpenter's instances have none: Karpenter launched one without a token
    for a NodeClaim of its NodePool, and was stopped before it wrote the result."""
    if instance.launch_token is not None:
        return instance.launch_token == one.request.token
    claim, labels = one.claim.metadata, dict(instance.labels)
    return (
        labels.get(names.NODEPOOL) == claim.labels.get(names.NODEPOOL)
        and labels.get(one.node_class.label) == one.node_class.metadata.name
        and instance.claim in (None, claim.name)
        and claim.creation_timestamp is not None
        and instance.launched_s >= times.epoch_s(claim.creation_timestamp) - _CLOCKS_DIFFER_S
    )


def _key(one: Member) -> str:
    """A hash of the fields that decide the launch. Without prices, counts and subnets, which change by themselves, and
    without labels of an instance, which a claim may have from before a crash."""
    claim = one.claim
    labels = {key: value for key, value in claim.metadata.labels.items() if key not in INSTANCE_LABELS}
    return _digest(
        one.request.token,
        one.node_class.metadata.name,
        one.request.reservation_id or "",
        msgspec.json.encode(claim.spec, order="deterministic").decode(),
        claim.metadata.labels.get(names.NODEPOOL, ""),
        msgspec.json.encode(labels, order="deterministic").decode(),
        claim.metadata.annotations.get(names.MIN_VALUES_RELAXED, ""),
        claim.metadata.annotations.get(names.PREFERRED_ZONE, ""),
        *(known.name for known in one.request.instance_types),
    )


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_DIGITS]
