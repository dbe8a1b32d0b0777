"""What AWS calls things, for commands that read scenarios.

`state` knows no cloud; a command that plans hands these to it.
"""

from typing import Final

from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws import preflight
from holdfast.model.snapshot import CloudLabels
from holdfast.state.catalog import CloudTerms, RegionTypes, ReservationKind

_MINUTE_S: Final = 60

TERMS: Final = CloudTerms(
    labels=CloudLabels(
        well_known=preflight.WELL_KNOWN_LABELS,
        reservation_id=aws.CAPACITY_RESERVATION_ID,
        reserved=frozenset(aws.RESERVED_CAPACITY_LABELS),
    ),
    reservation_type=aws.CAPACITY_RESERVATION_TYPE,
    reservation_interruptible=aws.CAPACITY_RESERVATION_INTERRUPTIBLE,
    zone_id=aws.ZONE_ID,
    kinds=(
        # On a tie the block goes first: it ends, and it is paid for whether it is used or not.
        ReservationKind("capacity-block", 0, drain_lead_s=40 * _MINUTE_S, reclaim_lead_s=30 * _MINUTE_S),
        ReservationKind("default", 1),
    ),
    node_classes=frozenset({(aws.GROUP, EC2NodeClass.kind)}),
    key_aliases={"topology.ebs.csi.aws.com/zone": names.ZONE},  # as the EBS driver spells it
)

# Regions whose instance types and prices are shipped, by name.
REGIONS: Final[dict[str, RegionTypes]] = {}
