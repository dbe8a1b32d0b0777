"""The label keys of AWS, as `CloudLabels` for core.

This module imports little on purpose: the command line loads it to check a manifest.
"""

import functools
from types import MappingProxyType
from typing import Final

from holdfast import names
from holdfast.api import aws
from holdfast.model import requirement
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.snapshot import CloudLabels

WELL_KNOWN_LABELS: Final = names.WELL_KNOWN_LABELS | frozenset((*aws.SELECTABLE_LABELS, aws.ZONE_ID))
CLOUD_LABELS: Final = CloudLabels(
    well_known=WELL_KNOWN_LABELS,
    reservation_id=aws.CAPACITY_RESERVATION_ID,
    reserved=frozenset(aws.RESERVED_CAPACITY_LABELS),
    defaults=((aws.INSTANCE_TENANCY, "default"),),
)
# Other keys for the same label: the EBS CSI driver has its own key for the zone.
KEY_ALIASES: Final = MappingProxyType({"topology.ebs.csi.aws.com/zone": names.ZONE})


@functools.lru_cache(maxsize=65536)
def one_of(key: str, *values: str) -> Requirement:
    """Cached, because thousands of offerings share a few hundred requirements. Without values it is DoesNotExist."""
    return requirement.of(key, Operator.IN, values)


def boolean(value: bool) -> str:  # noqa: FBT001 - it spells one
    return "true" if value else "false"
