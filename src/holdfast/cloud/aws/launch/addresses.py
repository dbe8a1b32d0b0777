"""Counts the free IP addresses of each subnet, less those that launches will use.

EC2's count of a subnet is up to a minute old, and the pods of a new node take their addresses while it starts. So a
launch is charged one address per pod: before the call in every zone that it may use, after it in the zones of its
instances. A charge ends with a reading of the subnets that began well after it (aws-5.4.1).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import ports
from holdfast.cloud.aws.client.sources import Source
from holdfast.cloud.aws.launch.choice import Choice
from holdfast.cloud.aws.launch.fleets import Answer
from holdfast.cloud.aws.nodeclass.network import Subnet
from holdfast.model import resources

LAG_S: Final = 120.0  # a reading that begins this long after a launch includes its addresses


@dataclass(slots=True)
class Charge:
    """The addresses of one launch."""

    addresses: Mapping[str, int]  # by subnet
    at_s: float


class Addresses:
    def __init__(self, subnets: Source[tuple[Subnet, ...]], clock: ports.Clock) -> None:
        self._subnets = subnets
        self._clock = clock
        self._charges: list[Charge] = []

    def free(self) -> dict[str, int]:
        """Free addresses by subnet. A subnet that no reading has is missing, or negative by its charges."""
        read_s = self._clock.monotonic_s() - (self._subnets.age_s or 0.0)
        self._charges = [one for one in self._charges if one.addresses and read_s < one.at_s + LAG_S]
        left = {subnet.id: subnet.free_addresses for subnet in self._subnets.last or ()}
        for one in self._charges:
            for subnet_id, used in one.addresses.items():
                left[subnet_id] = left.get(subnet_id, 0) - used
        return left

    def charge(self, choice: Choice, subnets: Mapping[str, str], count: int) -> Charge:
        """Charges a launch in every zone of the choice, with the smallest node of each."""
        smallest: dict[str, int] = {}
        for option in choice.options:
            subnet_id = subnets.get(option.offering.zone)
            if subnet_id:
                pods = option.instance_type.capacity[resources.PODS]
                smallest[subnet_id] = min(pods, smallest.get(subnet_id, pods))
        charge = Charge({key: pods * count for key, pods in smallest.items()}, self._clock.monotonic_s())
        self._charges.append(charge)
        return charge


def launched_addresses(choice: Choice, answer: Answer) -> dict[str, int]:
    """The addresses of the launched instances, by subnet."""
    found: Counter[str] = Counter()
    for one in answer.launched:
        option = choice.option(one.instance_type, one.zone)
        if option is not None and one.subnet_id:
            found[one.subnet_id] += option.instance_type.capacity[resources.PODS]
    return dict(found)
