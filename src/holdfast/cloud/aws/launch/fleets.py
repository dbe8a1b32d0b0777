"""Builds CreateFleet requests from a choice and its templates, and parses the responses. Pure.

A fleet for the NodeClaims of a gang launches all of them or none. EC2 has no such option for capacity blocks and
interruptible reservations, so those are launched by `runs`.

The fleet is `instant` and has no usage strategy, so that EC2 never falls back from a reservation by itself (Q-23).
Reservations use `lowest-price`; on-demand launches use the order of the choice, because EC2 compares list prices only.
All templates of a request have one market (Q-36). A response with fewer instances than requested and without errors is
retried.
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
# EC2's target capacity type and the options of each market.
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
    """The fields of a request that do not depend on the choice."""

    count: int
    client_token: str
    tags: Mapping[str, str]
    context: str | None = None
    whole: bool = False  # all instances or none


@dataclass(frozen=True, slots=True)
class Launched:
    """One instance of a response."""

    instance_id: str
    instance_type: str
    zone: str
    subnet_id: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One error of a response. EC2 may leave out the type, the zone and the subnet."""

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
    """Raises InsufficientCapacity if no zone of the choice has a usable subnet."""
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
    if order.whole:
        options = {key: one | _minimum(choice, order.count) for key, one in options.items()}
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


def _minimum(choice: Choice, count: int) -> dict[str, Any]:
    """Options of a fleet that launches `count` instances or none. EC2 requires that they share a zone or a type."""
    zones = {option.offering.zone for option in choice.options}
    types = {option.instance_type.name for option in choice.options}
    shared = "SingleInstanceType" if len(types) == 1 < len(zones) else "SingleAvailabilityZone"
    return {"MinTargetCapacity": count, shared: True}


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
    """Priorities by type and zone; EC2 launches the lowest first. For on-demand launches it is the index in the choice.
    Elsewhere it is the known price, which EC2 ignores."""
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
    """The subnet to launch into, by zone: the one with most free addresses, else the first in the status."""
    found: dict[str, str] = {}
    without, left = frozenset(blocked), free or {}
    for subnet in sorted(node_class.status.subnets, key=lambda one: -left.get(one.id, 0)):
        if subnet.id not in without:
            found.setdefault(subnet.zone, subnet.id)
    return found


def context(claim: NodeClaim, node_class: EC2NodeClass) -> str | None:
    """None if minValues were relaxed for the claim (aws-5.7.4)."""
    relaxed = claim.metadata.annotations.get(names.MIN_VALUES_RELAXED) == "true"
    return None if relaxed else node_class.spec.context


# --- The answer -------------------------------------------------------------------------------------


def read(answer: Mapping[str, Any]) -> Answer:
    """Parses a response. Raises KeyError or ValueError if it has no fleet id, or an instance without an id, type or
    zone: the call may then have launched instances, which are found by their tags."""
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
    """The response to a request that EC2 rejected as a whole because of full reservations."""
    return Answer((), (Failure("ReservationCapacityExceeded", words),))


def _overrides_of(item: Mapping[str, Any]) -> Mapping[str, Any]:
    overrides: Mapping[str, Any] = item.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    return overrides


def error(choice: Choice, failures: Sequence[Failure], target: tuple[str, ...] = ()) -> errors.HoldfastError:
    """The error of a claim without an instance (aws-5.8.8). A new value for each claim.

    A failure that is not about capacity, such as throttling, may hide free capacity, so the launch is retried. A
    reservation counts as full only with EC2's code for it. `target`: the reservation of direct mode. It is in no
    offering, and EC2 rejects the other pools as invalid; that must not hide a full target.
    """
    if not failures:
        return errors.Retryable("EC2 launched fewer instances than requested and returned no error")
    undecided = [f for f in failures if f.meaning not in error_codes.UNFULFILLABLE]
    full = [f for f in failures if f.meaning is Meaning.RESERVATION_FULL]
    first = (full if full and target else undecided or full or failures)[0]
    return error_codes.error(first.code, _words(failures), full_reservations(choice, failures) or target)


def full_reservations(choice: Choice, failures: Iterable[Failure]) -> tuple[str, ...]:
    """The reservations that EC2 reported as full. An error without a type and a zone applies to all."""
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
