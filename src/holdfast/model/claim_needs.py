"""What a NodeClaim requires, and which offerings satisfy it.

The view of NodeClaims in flight, launches and the adoption of instances share this code, so that a NodeClaim is launched
as the plan expects.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from holdfast import names
from holdfast.model import prices
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import CloudLabels

_AS_LISTED: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimNeeds:
    requirements: Requirements
    requests: Resources = NOTHING  # of its pods and DaemonSets
    reservation_id: str | None = None  # the reservation whose slot it holds
    preferred_zone: str | None = None  # among zones of equal cost, the one to launch in

    def suits_type(self, known: InstanceType) -> bool:
        """Whether a node of the instance type satisfies the claim, independent of prices and counts."""
        return self._has_type(known) and self.requests.fits(known.allocatable)

    def suits(self, known: InstanceType, offering: Offering, labels: CloudLabels) -> bool:
        """Whether a node of the offering satisfies the claim, available or not."""
        return self._has_type(known) and self._has_offering(known, offering, labels)

    def is_available(self, offering: Offering) -> bool:
        """Whether the offering can be launched for the claim. The count of free slots does not include the slot that the
        claim holds, so the count is ignored for a claim with a slot."""
        return offering.launchable if self.reservation_id is None else offering.healthy

    def offerings(
        self, types: Iterable[InstanceType], labels: CloudLabels, free: Mapping[str, int] = _AS_LISTED
    ) -> list[tuple[InstanceType, Offering]]:
        """The offerings that the claim can be launched as, cheapest first. `free` holds counts of reservations that are
        newer than those of the offerings."""
        found = [
            (known, offering)
            for known in types
            if self._has_type(known)
            for offering in (_recounted(listed, free) for listed in known.offerings)
            if self.is_available(offering) and self._has_offering(known, offering, labels)
        ]
        return sorted(found, key=self._order)

    def _has_type(self, known: InstanceType) -> bool:
        allowed = self.requirements.get(names.INSTANCE_TYPE)
        return allowed.has(known.name) and self.requirements.intersects(known.requirements)

    def _has_offering(self, known: InstanceType, offering: Offering, labels: CloudLabels) -> bool:
        return (
            self.reservation_id in (None, offering.reservation_id)
            and self.requirements.compatible(offering.requirements, labels.well_known)
            and labels.are_asked_for(offering.requirements, self.requirements)
            and self.requests.fits(known.allocatable_of(offering))
        )

    def _order(self, one: tuple[InstanceType, Offering]) -> tuple[prices.OrderKey, str, bool, str]:
        known, offering = one
        return known.order_key(offering), known.name, offering.zone != self.preferred_zone, offering.zone


def _recounted(offering: Offering, free: Mapping[str, int]) -> Offering:
    if offering.reservation_id is None or offering.reservation_id not in free:
        return offering
    return dataclasses.replace(offering, count=free[offering.reservation_id])
