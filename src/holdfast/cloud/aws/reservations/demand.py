"""Which capacity reservations must be read, from the watched EC2NodeClasses and NodeClaims.

It is a function of the watch caches alone: reading instance types or instances does not change it, and a restart loses
nothing. Reservations are read when a class has reservation terms. They are also read when a node is in a capacity
block, even with the feature gate off: EC2 terminates the instances of a block at its end, also if no class selects the
block (aws-6.2.7).
"""

from collections.abc import Set as AbstractSet

from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.reservations import capacity_reservation, selection
from holdfast.runtime.cache import Caches


class ReservationDemand:
    def __init__(self, caches: Caches, kind: type[EC2NodeClass], *, reserved_capacity: bool) -> None:
        """`kind`: of our node classes. `reserved_capacity`: the feature gate."""
        self._classes = caches.of(kind)
        self._in_blocks = caches.of(NodeClaim).index(_reservation_type)
        self._reserved_capacity = reserved_capacity

    def has_terms(self, node_class: EC2NodeClass) -> bool:
        """Whether a class selects reservations."""
        return self._reserved_capacity and bool(node_class.spec.capacity_reservation_selector_terms)

    @property
    def is_selected(self) -> bool:
        """Whether any class selects reservations."""
        return any(map(self.has_terms, self._classes))

    @property
    def exists(self) -> bool:
        """Whether reservations must be read."""
        return self.is_selected or any(self._in_blocks.get(capacity_reservation.CAPACITY_BLOCK))

    @property
    def ids(self) -> frozenset[str]:
        """The ids that every reading must have, in addition to all reservations that the account can see."""
        named = {
            term.id
            for node_class in self._classes
            if self.has_terms(node_class)
            for term in node_class.spec.capacity_reservation_selector_terms
            if term.id
        }
        claims = self._in_blocks.get(capacity_reservation.CAPACITY_BLOCK)
        occupied = {claim.metadata.labels.get(aws.CAPACITY_RESERVATION_ID, "") for claim in claims}
        return frozenset(named | occupied) - {""}

    def selected_by(self, class_name: str) -> AbstractSet[str]:
        """The active reservations of a class; empty if the class does not exist."""
        node_class = self._classes.get(("", class_name))
        return frozenset() if node_class is None else selection.active(node_class)


def _reservation_type(claim: NodeClaim) -> tuple[str, ...]:
    found = claim.metadata.labels.get(aws.CAPACITY_RESERVATION_TYPE)
    return (found,) if found else ()
