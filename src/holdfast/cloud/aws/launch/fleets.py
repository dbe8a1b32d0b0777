"""CreateFleet: its request from a choice and its templates, and what its answer means. Pure.

The rules: an `instant` fleet and never a usage strategy, so that EC2 never falls back behind our
back (Q-23); reservations by `lowest-price`, on demand in the order of the choice, since EC2 knows list prices only; only
templates of one market (Q-36); an answer with fewer instances than asked for and no error is survived, and tried again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.client import answers, error_codes
from holdfast.cloud.aws.client.error_codes import Meaning
from holdfast.cloud.aws.launch import template_data
from holdfast.cloud.aws.launch.choice import Choice, Market
from holdfast.cloud.aws.launch.templates import Template

CAPACITY_MAX: Final = 1000  # instances in one request
_NANO: Final = 10**9
_TAGGED: Final = ("instance", "volume", "fleet")
_SPOT_STRATEGY: Final = "price-capacity-optimized"
_LOWEST_PRICE: Final = {"OnDemandOptions": {"AllocationStrategy": "lowest-price"}}
# What EC2 calls what is launched, and the options that go with it.
_MARKETS: Final[dict[Market, tuple[str, dict[str, Any]]]] = {
    Market.ON_DEMAND: ("on-demand", {"OnDemandOptions": {"AllocationStrategy": "prioritized"}}),
    Market.RESERVATION: ("on-demand", _LOWEST_PRICE),
    Market.SPOT: ("spot", {"SpotOptions": {"AllocationStrategy": _SPOT_STRATEGY}}),
    Market.BLOCK: ("capacity-block", {}),
    Market.INTERRUPTIBLE: (
        "reserved-capacity",
        {"ReservedCapacityOptions": {"ReservationTypes": [Market.INTERRUPTIBLE.value]}},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to ask for, apart from where it may come from."""

    count: int
    client_token: str
    tags: Mapping[str, str]
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """One instance of an answer."""

    instance_id: str
    instance_type: str
    zone: str
    subnet_id: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One error of an answer: what could not be had, and why. What it is about may be missing."""

    code: str
    message: str
    instance_type: str | None = None
    zone: str | None = None
    subnet_id: str | None = None

    @property
    def meaning(self) -> Meaning:
        return error_codes.meaning(self.code)


@dataclass(frozen=True, slots=True)
class Answer:
    launched: tuple[Launched, ...]
    failures: tuple[Failure, ...]


def request(
    choice: Choice, templates: Iterable[Template], subnets: Mapping[str, str], order: Order
) -> dict[str, Any]:
    """InsufficientCapacity when no zone of the choice has a subnet that can take an instance."""
    assert 1 <= order.count <= CAPACITY_MAX, "a fleet has a bound"
    configs = [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": template.name, "Version": "$Latest"},
            "Overrides": overrides,
        }
        for template in templates
        if (overrides := _overrides(choice, template, subnets))
    ]
    if not configs:
        raise errors.InsufficientCapacity("no subnet is left in the zones of what could be launched")
    target, options = _MARKETS[choice.market]
    return {
        "Type": "instant",
        "ClientToken": order.client_token,
        "LaunchTemplateConfigs": configs,
        "TargetCapacitySpecification": {
            "DefaultTargetCapacityType": target,
            "TotalTargetCapacity": order.count,
        },
        "TagSpecifications": template_data.tag_specifications(_TAGGED, order.tags),
        **options,
        **({"Context": order.context} if order.context else {}),
    }


def _overrides(choice: Choice, template: Template, subnets: Mapping[str, str]) -> list[dict[str, Any]]:
    priorities = _priorities(choice)
    return [
        {
            "InstanceType": option.instance_type.name,
            "SubnetId": subnets[option.offering.zone],
            "AvailabilityZone": option.offering.zone,
            "ImageId": template.image_id,
            **priorities.get((option.instance_type.name, option.offering.zone), {}),
        }
        for option in template.options
        if option.offering.zone in subnets
    ]


def _priorities(choice: Choice) -> dict[tuple[str, str], dict[str, float]]:
    """By type and zone; the lowest is launched first. On demand it is the index in the choice, else the price, if known,
    which EC2 looks at in none of the other markets."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for index, option in enumerate(choice.options):
        key = (option.instance_type.name, option.offering.zone)
        price = option.offering.price_nano_usd_per_hour
        if choice.market is Market.ON_DEMAND:
            found[key] = {"Priority": float(index)}
        elif price:
            found[key] = {"Priority": price / _NANO}
    return found


def zonal_subnets(
    node_class: EC2NodeClass, blocked: Iterable[str] = (), free: Mapping[str, int] | None = None
) -> dict[str, str]:
    """By zone, the subnet to launch into: the one with most free addresses, else the first that is listed."""
    found: dict[str, str] = {}
    without, left = frozenset(blocked), free or {}
    for subnet in sorted(node_class.status.subnets, key=lambda one: -left.get(one.id, 0)):
        if subnet.id not in without:
            found.setdefault(subnet.zone, subnet.id)
    return found


def context(claim: NodeClaim, node_class: EC2NodeClass) -> str | None:
    """Not when minValues were relaxed for the claim (aws-5.7.4)."""
    relaxed = claim.metadata.annotations.get(names.MIN_VALUES_RELAXED) == "true"
    return None if relaxed else node_class.spec.context


# --- The answer -------------------------------------------------------------------------------------


def read(answer: Mapping[str, Any]) -> Answer:
    """What EC2 answered. KeyError or ValueError if it does not say that there is a fleet, or which instances are in it, of
    which type and where: then the call may have launched instances, and those are found by their tags."""
    answer["FleetId"]
    launched = []
    for group in answer.get("Instances", ()):
        overrides = _overrides_of(group)
        for instance_id in group["InstanceIds"]:
            instance_type = group.get("InstanceType") or overrides["InstanceType"]
            location = overrides["AvailabilityZone"], overrides.get("SubnetId", "")
            launched.append(Launched(answers.instance_id(instance_id), instance_type, *location))
    failures = []
    for error in answer.get("Errors", ()):
        overrides = _overrides_of(error)
        failures.append(
            Failure(
                error.get("ErrorCode", ""),
                error.get("ErrorMessage", ""),
                overrides.get("InstanceType"),
                overrides.get("AvailabilityZone"),
                overrides.get("SubnetId"),
            )
        )
    return Answer(tuple(launched), tuple(failures))


def all_full(words: str) -> Answer:
    """As if EC2 had answered for each reservation what it answered for the whole request."""
    return Answer((), (Failure("ReservationCapacityExceeded", words),))


def _overrides_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    overrides: Mapping[str, Any] = item.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return overrides


def error(choice: Choice, failures: Sequence[Failure], target: tuple[str, ...] = ()) -> errors.HoldfastError:
    """The error of a claim that got no instance (aws-5.8.8). A new value each time: each claim has its own.

    Something that is no verdict on capacity, such as throttling, may have hidden what could have been had:
    then the launch is tried again. A reservation that is full is only named full by EC2's own word for it.
    `target`: the reservation that direct mode targets. It is in no offering, and pools that do not suit it
    are refused as invalid, which says nothing when the one that does is full.
    """
    if not failures:
        return errors.Retryable("EC2 launched fewer instances than were asked for, and did not say why")
    undecided = [f for f in failures if f.meaning not in error_codes.UNFULFILLABLE]
    full = [f for f in failures if f.meaning is Meaning.RESERVATION_FULL]
    first = (full if full and target else undecided or full or failures)[0]
    return error_codes.error(first.code, _words(failures), full_reservations(choice, failures) or target)


def full_reservations(choice: Choice, failures: Iterable[Failure]) -> tuple[str, ...]:
    """Those that EC2 called full. An error that does not say what it is about is about all."""
    found: set[str | None] = set()
    for failure in failures:
        if failure.meaning is Meaning.RESERVATION_FULL:
            option = choice.option(failure.instance_type or "", failure.zone or "")
            found |= {option.offering.reservation_id} if option else set(choice.reservation_ids)
    return tuple(sorted(reservation_id for reservation_id in found if reservation_id))


def reservation_of(choice: Choice, found: Launched) -> str | None:
    option = choice.option(found.instance_type, found.zone)
    return option.offering.reservation_id if option else None


def _words(failures: Sequence[Failure]) -> str:
    messages = dict.fromkeys(
        f"{f.message or f.code}{f' ({f.instance_type} in {f.zone})' if f.instance_type else ''}"
        for f in failures
    )
    shown = list(messages)[:5]
    more = f"; and {len(messages) - len(shown)} more" if len(messages) > len(shown) else ""
    return "; ".join(shown) + more
