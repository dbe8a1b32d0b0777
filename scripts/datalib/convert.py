"""Converts DescribeInstanceTypeOfferings to the shipped regions.

Called by `generate_data`. Pure. `holdfast.cloud.aws.client.descriptions` converts the instance types.
"""

from holdfast.data import ec2


def region(
    name: str, by_name: dict[str, set[str]], by_id: dict[str, set[str]], known: set[str]
) -> ec2.ShippedRegion:
    """A region from its offerings by zone name and by zone id.

    Both lists are of one account, so a name and an id with exactly the same types are one zone.
    """
    zones = tuple(ec2.Zone(zone, _same(zone, by_name[zone], by_id)) for zone in sorted(by_name))
    offered: dict[str, str] = {}
    for zone in zones:
        if zone.name[:-1] != name:
            raise ValueError(f"zone {zone.name} is not named after its region {name}")
        for of_type in by_name[zone.name] & known:
            offered[of_type] = offered.get(of_type, "") + zone.name[-1]
    return ec2.ShippedRegion(zones, dict(sorted(offered.items())), prices_of="us-east-1")


def _same(zone: str, types: set[str], by_id: dict[str, set[str]]) -> str:
    ids = [zone_id for zone_id, others in by_id.items() if others == types]
    if len(ids) != 1:
        raise ValueError(f"zone {zone} offers the types of {len(ids)} zone ids; exactly one is expected")
    return ids[0]
