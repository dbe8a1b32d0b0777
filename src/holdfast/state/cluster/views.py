"""The views of Nodes or NodeClaims by name, from one snapshot to the next.

A view that did not change stays the same object, so that values derived from it are not computed again.
"""

from typing import Generic, TypeVar

from holdfast.model.snapshot import ClaimView, NodeView

V = TypeVar("V", NodeView, ClaimView)


class Views(Generic[V]):
    def __init__(self) -> None:
        self._known: dict[str, V] = {}
        self._sorted: tuple[V, ...] | None = ()  # None: a view changed since
        self._is_in_order = True  # whether `_known` is sorted by name

    def get(self, name: str) -> V | None:
        return self._known.get(name)

    def names(self) -> list[str]:
        return list(self._known)

    def put(self, name: str, value: V | None) -> None:
        """None: removes the view."""
        if self._known.get(name) == value:
            return
        self._sorted = None
        if value is None:
            del self._known[name]
        else:
            self._is_in_order = self._is_in_order and name in self._known
            self._known[name] = value

    def all(self) -> tuple[V, ...]:
        """Sorted by name. The same tuple is returned until a view changes."""
        if self._sorted is None:
            if not self._is_in_order:
                self._known = dict(sorted(self._known.items()))
                self._is_in_order = True
            self._sorted = tuple(self._known.values())
        return self._sorted
