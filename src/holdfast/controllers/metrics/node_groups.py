"""Labels of nodes in metrics, and the groups by which series are added up.

A cluster has too many nodes and pods for a series of each (ADR 0056). Without --metrics-per-object, the nodes and pods of
one NodePool and capacity type share a series: it has the sum, and the labels of single objects are empty.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from holdfast import names
from holdfast.api.nodes import Node
from holdfast.model import resources

AT_ONCE: Final = 100  # objects that are read before other tasks run, in about 10 ms


class NodeGroup(NamedTuple):
    nodepool: str = ""
    capacity_type: str = ""
    managed: str = "false"


NO_NODE: Final = NodeGroup()


def group_of(node: Node | None) -> NodeGroup:
    if node is None:
        return NO_NODE
    labels = node.metadata.labels
    pool = labels.get(names.NODEPOOL, "")
    return NodeGroup(pool, labels.get(names.CAPACITY_TYPE, ""), str(bool(pool)).lower())


def label_name(key: str) -> str:
    """The name of a node's label in metrics: the part after the slash, in snake case, as in Karpenter."""
    return key.rpartition("/")[2].lower().replace("-", "_")


def label_keys(well_known: Iterable[str]) -> Mapping[str, str]:
    """The keys of labels by their name in metrics."""
    return {label_name(key): key for key in sorted(well_known) if key.count("/") == 1}


def resource_type(name: str) -> str:
    return name.lower().replace("-", "_")


def quantity(name: str, amount: int) -> float:
    """In whole cores, bytes or units."""
    return amount / 1000 if name == resources.CPU else amount
