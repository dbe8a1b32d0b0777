"""Small random cases: a few pods, slots, NodePools and instance types, as plain values.

They are the input of the planner (`request_of`) and of the exact solver (`exact`), which share nothing else.
"""

import random
from dataclasses import dataclass, replace
from typing import Any, Final

from holdfast import names
from holdfast.core.scheduling.input.request import Packing, SolveRequest
from holdfast.model import requirements
from holdfast.model.pods import PodTerm, PodView
from planner_builders import instance_type, is_in, pool, request, reservation, selector, shape

ZONES: Final = ("z1", "z2", "z3")
APART, SHARE_NODE, SHARE_ZONE = "apart", "share a node", "share a zone"
OVERHEAD_MILLIS: Final = 100  # of `planner_builders.instance_type`


@dataclass(frozen=True)
class Type:
    name: str
    cpu: int
    price: float


@dataclass(frozen=True)
class Slots:
    id: str
    type: str
    zone: str
    count: int


@dataclass(frozen=True)
class Pool:
    name: str
    types: tuple[str, ...]
    zones: tuple[str, ...]
    capacity_types: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    """Pods of equal shape."""

    name: str
    count: int
    cpu_millis: int
    priority: int
    selects: tuple[tuple[str, str], ...]  # label and value
    relation: str | None  # affinity or anti-affinity among its pods


@dataclass(frozen=True)
class Case:
    types: tuple[Type, ...]
    slots: tuple[Slots, ...]
    pools: tuple[Pool, ...]
    groups: tuple[Group, ...]


def case(seed: int) -> Case:
    dice = random.Random(seed)
    types = tuple(
        Type(f"t{cpu}", cpu, round(0.05 * cpu * dice.uniform(0.9, 1.2), 4))
        for cpu in sorted(dice.sample((2, 4, 8), dice.randint(1, 3)))
    )
    slots = tuple(
        Slots(f"cr-{i}", dice.choice(types).name, dice.choice(ZONES), dice.randint(1, 2))
        for i in range(dice.randint(0, 3))
    )
    pools = tuple(_pool(dice, f"pool-{i}", types) for i in range(dice.randint(1, 2)))
    groups = tuple(_group(dice, f"g{i}", types, pools) for i in range(dice.randint(1, 3)))
    return Case(types, slots, pools, groups)


def one_per_node(seed: int) -> Case:
    """Every pod fills a node, so slots are a matching of pods and reservations across NodePools."""
    dice = random.Random(seed)
    types = tuple(Type(f"t{i}", 4, round(dice.uniform(0.15, 0.25), 4)) for i in range(dice.randint(2, 3)))
    slots = tuple(
        Slots(f"cr-{i}", dice.choice(types).name, dice.choice(ZONES), dice.randint(1, 2))
        for i in range(dice.randint(2, 4))
    )
    pools = tuple(_pool(dice, f"pool-{i}", types) for i in range(dice.randint(1, 3)))
    source_case = [_group(dice, f"g{i}", types, pools) for i in range(dice.randint(2, 4))]
    groups = tuple(replace(one, cpu_millis=dice.choice((2500, 3500)), relation=None) for one in source_case)
    return Case(types, slots, pools, groups)


def _pool(dice: random.Random, name: str, types: tuple[Type, ...]) -> Pool:
    kinds = dice.choice(((names.RESERVED,), (names.RESERVED, names.ON_DEMAND), (names.ON_DEMAND,)))
    some = tuple(t.name for t in types if dice.random() < 0.8) or (types[0].name,)
    return Pool(name, some, tuple(sorted(dice.sample(ZONES, dice.randint(1, 3)))), kinds)


def _group(dice: random.Random, name: str, types: tuple[Type, ...], pools: tuple[Pool, ...]) -> Group:
    labels = (
        (names.ZONE, dice.choice(ZONES)),
        (names.CAPACITY_TYPE, dice.choice((names.RESERVED, names.ON_DEMAND))),
        (names.NODEPOOL, dice.choice(pools).name),
        (names.INSTANCE_TYPE, dice.choice(types).name),
    )
    return Group(
        name=name,
        count=dice.randint(1, 3),
        cpu_millis=dice.choice((500, 1000, 1500, 1800, 3500)),
        priority=dice.choice((0, 0, 0, 100)),
        selects=(dice.choice(labels),) if dice.random() < 0.5 else (),
        relation=dice.choice((None, None, APART, SHARE_NODE, SHARE_ZONE)),
    )


def request_of(source_case: Case, packing: Packing) -> SolveRequest:
    reservations = [reservation(s.id, s.type, s.zone, s.count) for s in source_case.slots]
    on_demand = (names.ON_DEMAND,)
    types = {
        t.name: instance_type(t.name, t.cpu, 4 * t.cpu, t.price, reservations, ZONES, on_demand)
        for t in source_case.types
    }
    pools = [
        pool(
            one.name,
            [types[name] for name in one.types],
            is_in(names.CAPACITY_TYPE, *one.capacity_types),
            is_in(names.ZONE, *one.zones),
        )
        for one in source_case.pools
    ]
    pending = [pod for group in source_case.groups for pod in _pods(group)]
    return request(pools, pending, reservations, packing, node_cost_nano=20_000_000)


def _pods(group: Group) -> list[PodView]:
    of = shape(
        group.cpu_millis,
        64,
        app=group.name,
        node_selector=requirements.of(*(is_in(key, value) for key, value in group.selects)),
        **_relation(group),
    )
    return [
        PodView(f"{group.name}-{i}", f"{group.name}-{i}", i, of, priority=group.priority)
        for i in range(group.count)
    ]


def _relation(group: Group) -> dict[str, Any]:
    def term(key: str) -> tuple[PodTerm, ...]:
        return (PodTerm(key, selector(app=group.name), ("default",)),)

    match group.relation:
        case "apart":
            return {"anti_affinity": term(names.HOSTNAME)}
        case "share a node":
            return {"affinity": term(names.HOSTNAME)}
        case "share a zone":
            return {"affinity": term(names.ZONE)}
        case _:
            return {}
