"""Nodes that go as soon as their replacements are there, read from the orders on their claims.

Called when a snapshot is taken. The rule (D-45): a node counts as going once everything that replaces it is written, and
not before, or its pods would be planned for twice.
"""

from collections.abc import Iterable

from holdfast.api import orders
from holdfast.api.nodeclaim import NodeClaim


def going(claims: Iterable[NodeClaim]) -> frozenset[str]:
    """The names of those nodes."""
    found = tuple(claims)
    ordered = [(claim.status.node_name, order) for claim in found if (order := orders.of(claim)) is not None]
    there = {claim.metadata.name for claim in found} if ordered else set()
    return frozenset(node for node, order in ordered if node and there.issuperset(order.replacements))
