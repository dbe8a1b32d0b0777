"""The NodeClaims of a running cluster as values for the ledger, updated as they change.

A read converts only the NodeClaims that changed since the last read.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

from holdfast.api.nodeclaim import NodeClaim, NodeClassReference
from holdfast.model.snapshot import ClaimView, CloudLabels
from holdfast.ports import Clock
from holdfast.runtime.cache import Cache
from holdfast.state.cluster.views import Views
from holdfast.state.conversion import claims

_CONVERTED_AT_ONCE: Final = 200  # in about 5 ms


class WatchedClaims:
    def __init__(
        self,
        watched: Cache[NodeClaim],
        *,
        clock: Clock,
        labels: CloudLabels,
        is_ours: Callable[[NodeClassReference], bool],
    ) -> None:
        self._claims = watched
        self._clock = clock
        self._labels = labels
        self._is_ours = is_ours
        self._views: Views[ClaimView] = Views()
        self._changed = dict.fromkeys(claim.metadata.name for claim in watched)
        watched.subscribe(self._on_claim)

    async def see_changed(self) -> None:
        """Converts changed NodeClaims in batches, so that the event loop is not blocked."""
        for _ in range(0, len(self._changed), _CONVERTED_AT_ONCE):
            for name in list(islice(self._changed, _CONVERTED_AT_ONCE)):
                self._see(name)
            await self._clock.sleep(0)

    def all(self) -> tuple[ClaimView, ...]:
        """The NodeClaims now, sorted by name."""
        for name in list(self._changed):
            self._see(name)
        return self._views.all()

    def _see(self, name: str) -> None:
        del self._changed[name]
        claim = self._claims.get(("", name))
        ours = claim is not None and self._is_ours(claim.spec.node_class_ref)
        self._views.put(name, claims.view(claim, self._labels) if claim is not None and ours else None)

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        for claim in (before, after):
            if claim is not None:
                self._changed[claim.metadata.name] = None
