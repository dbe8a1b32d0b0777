"""What consolidation reads of nodes as arrays: one for each value, with one row for each node.

`targets` reads them. A node that did not change is the same object, and its row is copied from the last pass. So a pass
computes only the rows of nodes that changed. No array changes after it was made.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input.axes import bounded
from holdfast.model.snapshot import NodePoolView, NodeView
from holdfast.model.taints import Taint

_NEVER: Final = -(2**62)
_NO_WINDOW: Final = -1
_KINDS_MIN: Final = 64
_KINDS_EACH: Final = 2  # of each node

_MASKS: Final = ("initialized", "deleting", "reserved", "repels")

Column = NDArray[Any]
Mask = NDArray[np.bool_]
Kind = tuple[tuple[tuple[str, str], ...], tuple[Taint, ...]]


class NodeColumns:
    """The columns of these nodes, sorted by name. `before`: those of the last pass, which may have other nodes."""

    def __init__(self, nodes: Iterable[NodeView], before: "NodeColumns | None" = None) -> None:
        given = tuple(nodes)
        self.nodes: Sequence[NodeView]
        self.rows: Mapping[str, int]
        if before is not None and _have_same_names(given, before.nodes):
            self.nodes, self.rows = given, before.rows
        else:
            self.nodes = sorted(given, key=attrgetter("name"))
            self.rows = {node.name: i for i, node in enumerate(self.nodes)}
        if before is not None and len(before.samples) > _KINDS_MIN + _KINDS_EACH * len(self.nodes):
            before = None  # most kinds are those of deleted nodes
        self.kinds: dict[Kind, int] = {} if before is None else before.kinds
        self.samples: list[NodeView] = [] if before is None else before.samples  # a node of each kind
        self.pools: dict[str | None, int] = {} if before is None else before.pools
        self.known: dict[tuple[str, str], Column] = {}
        if before is not None and before.nodes:
            self._take_over(before)
        self.initialized: Mask = self._column("initialized")
        self.deleting: Mask = self._column("deleting")
        self.reserved: Mask = self._column("reserved")
        self.repels: Mask = self._column("repels")  # whether a pod on it has anti-affinity
        self.kind: Column = self._column("kind")

    def where(self, mask: Mask) -> list[NodeView]:
        """The nodes of a mask, by name."""
        return [self.nodes[i] for i in np.flatnonzero(mask).tolist()]

    def free(self, resource: str) -> NDArray[np.int64]:
        """[node] the free amount of a resource."""
        return self._column("free", resource)

    def size(self, resource: str) -> NDArray[np.int64]:
        """[node] the allocatable amount of a resource."""
        return self._column("allocatable", resource)

    def unsettled(self, pools: Iterable[NodePoolView], now_s: int) -> Mask:
        """[node] whether its pods changed within the last consolidateAfter of its NodePool."""
        pool, changed_s = self._column("pool"), self._column("changed_s")
        windows_s = np.full(len(self.pools) + 1, _NO_WINDOW, dtype=np.int64)
        for one in pools:
            if one.name in self.pools and one.consolidate_after_s is not None:
                windows_s[self.pools[one.name]] = one.consolidate_after_s
        window_s = windows_s[pool]
        found: Mask = (window_s >= 0) & (changed_s > _NEVER) & (now_s - changed_s < window_s)
        return found

    def _take_over(self, before: "NodeColumns") -> None:
        """Copies the rows of nodes that are the same objects, and computes the others."""
        source: Column | None = None
        if (
            self.rows is before.rows or self.rows.keys() == before.rows.keys()
        ):  # in most passes: no node was added or deleted
            pairs = zip(self.nodes, before.nodes, strict=True)
            changed = [i for i, (node, old) in enumerate(pairs) if old is not node]
        else:
            rows = [before.rows.get(node.name, 0) for node in self.nodes]
            of_rows = enumerate(zip(self.nodes, rows, strict=True))
            changed = [i for i, (node, row) in of_rows if before.nodes[row] is not node]
            source = np.array(rows, dtype=np.int64)
        for key, column in before.known.items():
            self.known[key] = found = column.copy() if source is None else column[source]
            for i in changed:
                found[i] = self._value(self.nodes[i], *key)

    def _column(self, value: str, resource: str = "") -> Column:
        key = value, resource
        if key not in self.known:
            type_ = np.bool_ if value in _MASKS else np.int64
            self.known[key] = np.array([self._value(node, *key) for node in self.nodes], dtype=type_)
        return self.known[key]

    def _value(self, node: NodeView, value: str, resource: str) -> int:
        match value:
            case "initialized":
                return node.initialized
            case "deleting":
                return node.deleting
            case "reserved":
                return (names.CAPACITY_TYPE, names.RESERVED) in node.labels
            case "repels":
                return bool(node.anti_affinity)
            case "kind":
                return self._kind(node)
            case "pool":
                return self.pools.setdefault(node.node_pool, len(self.pools))
            case "changed_s":
                return _NEVER if node.last_pod_event_s is None else node.last_pod_event_s
            case "free":
                return bounded((node.free[resource],))[0]
            case _:
                return bounded((node.allocatable[resource],))[0]

    def _kind(self, node: NodeView) -> int:
        """The number of the labels and taints of the node."""
        labels = tuple(one for one in node.labels if one[0] != names.HOSTNAME)
        found = self.kinds.setdefault((labels, node.taints), len(self.kinds))
        if found == len(self.samples):
            self.samples.append(node)
        return found


def _have_same_names(nodes: Sequence[NodeView], others: Sequence[NodeView]) -> bool:
    """Whether they have the same names in the same order. Only nodes that changed are looked at."""
    return len(nodes) == len(others) and all(
        one is other or one.name == other.name for one, other in zip(nodes, others, strict=True)
    )
