"""Random catalogs: instance types with their offerings, and reservations in every state."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from checker.dice import Dice
from holdfast import names
from holdfast.api import aws

Document: TypeAlias = dict[str, Any]

ZONES: Final = ("us-west-2a", "us-west-2b", "us-west-2c", "us-west-2d")
OWNERS: Final = ("111122223333", "444455556666")
TEAMS: Final = ("ml", "web")
GPU: Final = "nvidia.com/gpu"
NOW: Final = "2026-11-15T10:00:00Z"


class Family(NamedTuple):
    name: str
    category: str
    generation: str
    arch: str
    memory_per_cpu: int
    cents_per_cpu: int
    gpu: bool = False


FAMILIES: Final = (
    Family("m5", "m", "5", "amd64", 4, 5),
    Family("c5", "c", "5", "amd64", 2, 4),
    Family("r5", "r", "5", "amd64", 8, 6),
    Family("c6a", "c", "6", "amd64", 2, 4),
    Family("m6g", "m", "6", "arm64", 4, 4),
    Family("r7g", "r", "7", "arm64", 8, 5),
    Family("g5", "g", "5", "amd64", 4, 25, gpu=True),
    Family("p4d", "p", "4", "amd64", 12, 40, gpu=True),
)
SIZES: Final = {"medium": 1, "large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16, "8xlarge": 32}


def catalog(dice: Dice) -> Document:
    zones = ZONES[: dice.number(2, 4)]
    every = [(family, size) for family in FAMILIES for size in SIZES]
    count = dice.number(5, 40)
    types = [_instance_type(dice, family, size, zones) for family, size in dice.shuffled(every)[:count]]
    listed = [
        _reservation(dice, index, _worth_reserving(dice, types))
        for index in range(dice.pick((0, 1, 3, 5, 8, 8)))
    ]
    spec: Document = {"now": NOW, "settings": _settings(dice), "instanceTypes": types, "reservations": []}
    for reservation in listed:
        if dice.chance(0.15):
            _write_inline(types, reservation)
        else:
            spec["reservations"].append(reservation)
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Catalog",
        "metadata": {"name": "generated"},
        "spec": spec,
    }


def _settings(dice: Dice) -> Document:
    settings: Document = {"packing": dice.pick(("cost", "cost", "karpenter")), "packingCandidates": 4}
    if dice.chance(0.2):
        settings["reservedBeforeWeight"] = False
    if dice.chance(0.1):
        settings["reservationWait"] = dice.pick(("60s", "5m"))
    if dice.chance(0.15):
        settings["preferencePolicy"] = "Ignore"
    if dice.chance(0.15):
        settings["minValuesPolicy"] = "BestEffort"
    return settings


def _instance_type(dice: Dice, family: Family, size: str, zones: tuple[str, ...]) -> Document:
    cpu = SIZES[size]
    capacity = {
        "cpu": str(cpu),
        "memory": f"{cpu * family.memory_per_cpu}Gi",
        "pods": str(4 + cpu * 4),
        "ephemeral-storage": "20Gi",
    }
    if family.gpu:
        capacity[GPU] = str(max(1, cpu // 4))
    return {
        "name": f"{family.name}.{size}",
        "labels": _labels(family, size, cpu),
        "capacity": capacity,
        "overhead": {"cpu": f"{60 + 10 * cpu}m", "memory": f"{200 + 40 * cpu}Mi"},
        "offerings": list(_offerings(dice, cpu * family.cents_per_cpu, dice.some(zones))),
    }


def _labels(family: Family, size: str, cpu: int) -> Document:
    return {
        names.ARCH: family.arch,
        names.OS: "linux",
        aws.INSTANCE_CATEGORY: family.category,
        aws.INSTANCE_FAMILY: family.name,
        aws.INSTANCE_GENERATION: family.generation,
        aws.INSTANCE_SIZE: size,
        aws.INSTANCE_CPU: str(cpu),
        aws.INSTANCE_MEMORY: str(cpu * family.memory_per_cpu * 1024),
    }


def _offerings(dice: Dice, cents: int, zones: list[str]) -> Iterator[Document]:
    for zone in zones:
        yield _offering(dice, zone, names.ON_DEMAND, cents * 100)
        if dice.chance(0.7):
            yield _offering(dice, zone, names.SPOT, cents * dice.number(25, 95))


def _offering(dice: Dice, zone: str, capacity_type: str, price: int) -> Document:
    """Price in hundredths of a cent."""
    found: Document = {"zone": zone, "zoneID": f"usw2-az{zone[-1]}", "capacityType": capacity_type}
    if not dice.chance(0.003):
        found["price"] = f"{price // 10_000}.{price % 10_000:04}"
    if dice.chance(0.1):
        found["available"] = dice.pick((0, "unlimited", 4294967295))
    if dice.chance(0.03):
        found["healthy"] = False
    return found


def _reservation(dice: Dice, index: int, instance_type: Document) -> Document:
    total = dice.pick((0, 1, 1, 2, 3, 5))
    found: Document = {
        "id": f"cr-{index:017x}",
        "instanceType": instance_type["name"],
        "zone": dice.pick([offering["zone"] for offering in instance_type["offerings"]]),
        "type": dice.pick(("default", "default", "capacity-block")),
        "ownerID": dice.pick(OWNERS),
        "instanceMatchCriteria": dice.pick(("open", "targeted")),
        "total": total,
        "available": dice.pick((total, total, total, dice.number(0, total), 0)),
    }
    if dice.chance(0.7):
        found["tags"] = {"team": dice.pick(TEAMS)}
    if dice.chance(0.1):
        found["interruptible"] = True
    return found | _lifetime(dice, found["type"])


def _worth_reserving(dice: Dice, types: list[Document]) -> Document:
    """The larger of two: users reserve large instance types, and small nodes hold few pods."""
    return max((dice.pick(types), dice.pick(types)), key=lambda one: int(one["capacity"]["cpu"]))


def _lifetime(dice: Dice, kind: str) -> Document:
    """Most are open; the others have not started, drain, have ended, or were cancelled."""
    started, soon, later = "2026-11-14T00:00:00Z", "2026-11-15T10:20:00Z", "2026-11-20T00:00:00Z"
    match dice.number(0, 15):
        case 0:
            return {"start": "2026-11-16T00:00:00Z", "end": later, "state": "scheduled"}
        case 1:
            return {"start": started, "end": soon}
        case 2:
            return {"start": started, "end": "2026-11-15T09:00:00Z", "state": "expired"}
        case 3:
            return {
                "start": started,
                "end": later,
                "state": dice.pick(("cancelled", "failed", "payment-pending")),
            }
        case _:
            return {"start": started, "end": later} if kind == "capacity-block" or dice.chance(0.3) else {}


def _write_inline(types: list[Document], reservation: Document) -> None:
    """The same reservation as an offering of its type."""
    found = next(one for one in types if one["name"] == reservation["instanceType"])
    inside = {key: value for key, value in reservation.items() if key not in ("instanceType", "zone")}
    zone = reservation["zone"]
    found["offerings"].append(
        {"zone": zone, "zoneID": f"usw2-az{zone[-1]}", "capacityType": names.RESERVED, "reservation": inside}
    )
