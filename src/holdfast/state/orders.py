"""Nodes that go as soon as their replacements are there, read from the orders on their claims.

Called when a snapshot is taken. The rule (D-45): a node counts as going once everything that replaces it is written, and
not before, or its pods would be planned for twice.
"""

from collections.abc import Callable, Iterable

from holdfast.api import orders
from holdfast.api.nodeclaim import NodeClaim


def going(ordered: Iterable[NodeClaim], is_there: Callable[[str], bool]) -> frozenset[str]:
    """The names of those nodes; `is_there` says whether a claim is written."""
    found = ((claim.status.node_name, orders.of(claim)) for claim in ordered)
    return frozenset(
        node for node, order in found if node and order and all(map(is_there, order.replacements))
    )
