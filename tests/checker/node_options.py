"""The options of a claim: every instance type that it lists, in every offering that it allows.

An option has, for each label, the values that the node may get: mostly one. A label that neither the instance type nor the
offering sets is set by the NodePool; if that only has `Exists`, every value that the scenario mentions is possible, and one
that it does not mention.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from checker import labels, quantities
from checker.catalog import InstanceType, Offering, Reservation
from checker.labels import ABSENT, Expression, Term, Value
from checker.quantities import Resources
from checker.scenario import Node, Pool, Scenario
from holdfast import names


@dataclass(frozen=True, slots=True)
class NodeOption:
    labels: Mapping[str, frozenset[Value]]
    allocatable: Resources
    capacity: Resources
    instance_type: str
    offering: Offering | None  # None: an existing node
    volume_limits: Mapping[str, int] = field(default_factory=dict)

    def values(self, key: str) -> frozenset[Value]:
        return self.labels.get(key, ABSENT)

    @property
    def reservation(self) -> Reservation | None:
        return self.offering.reservation if self.offering else None


def of_node(node: Node) -> NodeOption:
    found = {key: frozenset[Value]({value}) for key, value in node.labels.items()}
    found.setdefault(names.HOSTNAME, frozenset({node.name}))
    found[labels.NODE_NAME] = frozenset({node.name})
    type_name = node.labels.get(names.INSTANCE_TYPE, "")
    return NodeOption(found, node.allocatable, node.capacity, type_name, None, node.volume_limits)


def of_pool(scenario: Scenario, pool: Pool) -> list[NodeOption]:
    """Every option that the NodePool allows and its EC2NodeClass may use, whether it can be launched now or not; none if the
    NodePool launches no nodes."""
    if not pool.opens:
        return []
    pool_labels: dict[str, frozenset[Value]] = {key: frozenset({value}) for key, value in pool.labels.items()}
    found = []
    for one in scenario.types.values():
        for offering in one.offerings:
            if offering.reservation is None or offering.reservation.id in pool.selected:
                option = narrow(_node_option(scenario, pool, one, offering, pool_labels), pool.requirements)
                found += [option] if option else []
    return found


def _node_option(
    scenario: Scenario,
    pool: Pool,
    one: InstanceType,
    offering: Offering,
    pool_labels: Mapping[str, frozenset[Value]],
) -> NodeOption:
    label_values = {**one.labels, **offering.labels()}
    for key, value in pool_labels.items():
        label_values[key] = label_values.get(key, value) & value
    for requirement in pool.requirements:
        if requirement.key not in label_values and requirement.key not in labels.WELL_KNOWN:
            label_values[requirement.key] = frozenset(scenario.mentioned[requirement.key]) | ABSENT
    return NodeOption(label_values, one.allocatable, one.capacity, one.name, offering, one.volume_limits)


def narrow(option: NodeOption, wanted: Iterable[Expression]) -> NodeOption | None:
    """The option with only those label values for which all expressions hold; None if none is left."""
    narrowed: dict[str, frozenset[Value]] = {}
    for one in wanted:
        values = narrowed.get(one.key, option.values(one.key))
        matching = frozenset(value for value in values if labels.holds(one, value))
        if not matching:
            return None
        if matching != values:
            narrowed[one.key] = matching
    return replace(option, labels={**option.labels, **narrowed}) if narrowed else option


def surely(option: NodeOption, term: Term) -> bool:
    """Whether the option satisfies the term with every value of its labels."""
    return all(labels.holds(one, value) for one in term for value in option.values(one.key))


def possibly(option: NodeOption, term: Term) -> bool:
    return narrow(option, term) is not None


def launchable(found: Iterable[NodeOption]) -> Iterator[NodeOption]:
    return (option for option in found if option.offering is not None and option.offering.launchable)


def fits(option: NodeOption, *wanted: Resources) -> bool:
    return quantities.fits(quantities.total(wanted), option.allocatable)
