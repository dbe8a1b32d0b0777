"""Values that were derived from objects, kept until what they were derived from is another.

Called when a snapshot of a running cluster is taken: of five thousand nodes a few changed since the last one. The rule:
a value is the same object again only where everything that it is made of equals what it was made of.
"""

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.snapshot import ClaimView, CloudLabels, NodeView
from holdfast.state import claims

V = TypeVar("V")


class Remembered(Generic[V]):
    """Values by name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[object, ...], V]] = {}

    def get(self, name: str, made_of: tuple[object, ...], make: Callable[[], V]) -> V:
        known = self._known.get(name)
        if known is not None and known[0] == made_of:
            return known[1]
        made = make()
        self._known[name] = (made_of, made)
        return made

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def clear(self) -> None:
        self._known.clear()

    def keep_only(self, wanted: Collection[str]) -> None:
        """Now and then: what is gone may stay until it is as much as what is there."""
        if len(self._known) > 2 * len(wanted):
            self._known = {name: known for name, known in self._known.items() if name in wanted}


class Views:
    """What a snapshot is made of, besides pods."""

    def __init__(self) -> None:
        self.nodes: Remembered[NodeView] = Remembered()
        self.claims: Remembered[ClaimView] = Remembered()
        self.to_come: Remembered[NodeView] = Remembered()

    def claim(self, claim: NodeClaim, labels: CloudLabels) -> ClaimView:
        return self.claims.get(claim.metadata.name, (claim,), lambda: claims.view(claim, labels))
