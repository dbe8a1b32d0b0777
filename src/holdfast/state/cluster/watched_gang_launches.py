"""The gang launches of a running cluster: which NodeClaims they have, and which of them must end.

A gang launch is a set of NodeClaims that are launched all or none (`conversion/gang_launches`). Until one of them is
registered, they also end together: if one is deleted, the others must end. The lifecycle of NodeClaims deletes them, and
no pod is planned onto them, so that the next plan has the whole gang.
"""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.runtime.cache import Cache
from holdfast.state.conversion import gang_launches
from holdfast.state.conversion.gang_launches import GangLaunch

_STARTING: Final = "starting"


class WatchedGangLaunches:
    def __init__(self, claims: Cache[NodeClaim]) -> None:
        self._unreadable = claims.unreadable
        self._by_id = claims.index(gang_launches.ids)
        self._starting = claims.index(_is_starting)
        self._writing: set[str] = set()  # launches of which this process creates NodeClaims now

    @contextlib.contextmanager
    def writing(self, launches: Iterable[GangLaunch]) -> Iterator[None]:
        """While the provisioner creates the NodeClaims of these launches, none of them is missing. After a crash those
        that were not created are."""
        ids = {one.id for one in launches}
        self._writing |= ids
        try:
            yield
        finally:
            self._writing -= ids

    def claims(self, launch: GangLaunch) -> list[NodeClaim]:
        """Those that exist and are not being deleted, sorted by name."""
        found = [one for one in self._by_id.get(launch.id) if one.metadata.deletion_timestamp is None]
        return sorted(found, key=lambda one: one.metadata.name)

    def must_end(self, claim: NodeClaim) -> bool:
        """Whether a NodeClaim must end because others of its gang launch do not exist. A launched one stays if another
        is registered: its gang may only need one more node. None must while a NodeClaim cannot be decoded: it may be the
        missing one."""
        launch = gang_launches.of(claim)
        return launch is not None and claim.metadata.name in self._ending(launch)

    def ending(self) -> frozenset[str]:
        """The names of all NodeClaims that must end."""
        launches = {
            found.id: found for one in self._starting.get(_STARTING) if (found := gang_launches.of(one))
        }
        return frozenset(name for launch in launches.values() for name in self._ending(launch))

    def _ending(self, launch: GangLaunch) -> set[str]:
        left = self.claims(launch)
        if len(left) >= launch.size or launch.id in self._writing or self._unreadable:
            return set()
        has_nodes = any(map(_is_registered, left))
        return {
            one.metadata.name
            for one in left
            if not _is_registered(one) and not (has_nodes and gang_launches.is_launched(one))
        }


def _is_registered(claim: NodeClaim) -> bool:
    return conditions.holds(claim.status.conditions, claim_conditions.REGISTERED)


def _is_starting(claim: NodeClaim) -> tuple[str, ...]:
    """For an index."""
    is_starting = claim.metadata.deletion_timestamp is None and not _is_registered(claim)
    return (_STARTING,) if is_starting and gang_launches.of(claim) is not None else ()
