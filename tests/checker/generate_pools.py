"""Random NodePools and EC2NodeClasses over a catalog."""

from collections.abc import Iterator
from typing import Any, Final

from checker import generate_catalog
from checker.dice import Dice
from checker.generate_catalog import Document
from holdfast import names
from holdfast.api import aws

RACK: Final = "example.com/rack"
TEAM: Final = "example.com/team"
RACKS: Final = ("r1", "r2", "r3")
TAINT: Final = "example.com/dedicated"


def pools(dice: Dice, catalog: Document) -> list[Document]:
    spec = catalog["spec"]
    inline = [o["reservation"] for t in spec["instanceTypes"] for o in t["offerings"] if "reservation" in o]
    ids = [one["id"] for one in spec["reservations"] + inline]
    classes = [_class(dice, f"class-{index}", ids) for index in range(dice.number(1, 3))]
    chosen = [one["metadata"]["name"] for one in classes]
    if dice.chance(0.03):
        chosen.append("missing")
    found = [_pool(dice, f"pool-{index}", dice.pick(chosen)) for index in range(dice.number(1, 4))]
    if dice.chance(0.5):
        _generalize(found[0])
    return classes + found


def _generalize(pool: Document) -> None:
    """Makes the NodePool usable by all pods, as most clusters have one: otherwise too few pods fit anywhere."""
    template = pool["spec"]["template"]["spec"]
    template.pop("taints", None)
    template["requirements"] = [one for one in template["requirements"] if one["key"] == RACK]


def _class(dice: Dice, name: str, ids: list[str]) -> Document:
    spec: Document = {
        "role": "KarpenterNodeRole-generated",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "generated"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "generated"}}],
    }
    terms = list(_terms(dice, ids)) if dice.chance(0.85) else []
    if terms:
        spec["capacityReservationSelectorTerms"] = terms
    metadata = {"name": name}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": spec}


def _terms(dice: Dice, ids: list[str]) -> Iterator[Document]:
    if ids and dice.chance(0.6):
        yield from ({"id": one} for one in dice.some(ids))
    if dice.chance(0.5):
        yield {"tags": {"team": dice.pick((*generate_catalog.TEAMS, "*"))}}
    if dice.chance(0.2):
        yield {"ownerID": dice.pick(generate_catalog.OWNERS), "tags": {"team": dice.pick(("ml", "*"))}}
    if dice.chance(0.1):
        yield {"ownerID": dice.pick(generate_catalog.OWNERS)}


def _pool(dice: Dice, name: str, node_class: str) -> Document:
    reference = {"group": aws.GROUP, "kind": "EC2NodeClass", "name": node_class}
    template: Document = {
        "metadata": {"labels": _labels(dice)},
        "spec": {"nodeClassRef": reference, "requirements": list(_requirements(dice))},
    }
    taints = list(_taints(dice))
    if taints:
        template["spec"]["taints"] = taints
    spec: Document = {"template": template}
    if dice.chance(0.5):
        spec["weight"] = dice.pick((1, 10, 10, 100))
    if dice.chance(0.2):
        spec["limits"] = dice.pick(LIMITS)
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


LIMITS: Final = (
    {"cpu": "20"},
    {"cpu": "64", "memory": "200Gi"},
    {"nodes": "3"},
    {"nodes": "6", "cpu": "100"},
    {generate_catalog.GPU: "2"},
)


def _labels(dice: Dice) -> Document:
    return {TEAM: dice.pick(generate_catalog.TEAMS)} if dice.chance(0.4) else {}


def _requirements(dice: Dice) -> Iterator[Document]:
    mixes: tuple[tuple[str, ...], ...] = (
        (names.RESERVED,),
        (names.ON_DEMAND,),
        (names.RESERVED, names.ON_DEMAND),
        (names.SPOT, names.ON_DEMAND),
        (names.RESERVED, names.SPOT, names.ON_DEMAND),
    )
    if dice.chance(0.6):
        yield wanted(names.CAPACITY_TYPE, "In", *dice.pick(mixes))
    if dice.chance(0.3):
        yield wanted(names.ZONE, "In", *dice.some(generate_catalog.ZONES))
    if dice.chance(0.3):
        yield wanted(names.ARCH, "In", *dice.some(("amd64", "arm64")))
    if dice.chance(0.25):
        yield wanted(RACK, "In", *dice.some(RACKS))
    if dice.chance(0.1):
        yield wanted(aws.INSTANCE_CPU, dice.pick(("Gt", "Lt")), "7")
    if dice.chance(0.1):
        yield wanted(aws.INSTANCE_FAMILY, "NotIn", "m5", "g5")
    if dice.chance(0.1):
        key = dice.pick((names.INSTANCE_TYPE, aws.INSTANCE_GENERATION))
        yield wanted(key, "Exists") | {"minValues": dice.number(2, 4)}


def wanted(key: str, operator: str, *values: str) -> dict[str, Any]:
    found: dict[str, Any] = {"key": key, "operator": operator}
    return found | {"values": list(values)} if values else found


def _taints(dice: Dice) -> Iterator[Document]:
    if dice.chance(0.2):
        yield {"key": TAINT, "value": dice.pick(generate_catalog.TEAMS), "effect": "NoSchedule"}
    if dice.chance(0.08):
        yield {"key": "example.com/slow", "effect": "PreferNoSchedule"}
