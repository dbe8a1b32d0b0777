"""Launches the NodeClaims of gangs all or none.

The provisioner writes the NodeClaims of a plan for a gang with the annotation `holdfast.dev/gang-launch`, which says how
many there are. None is launched before all exist, and none is Launched before all have an instance. So after a crash
between any two writes either all of them are launched, or all are deleted:

- Some do not exist, and the provisioner does not write them now: the others are deleted (`WatchedGangLaunches`).
- The cloud has no capacity for one of them: the instances of the others are terminated, and all are deleted.
- Any other error keeps the NodeClaims and instances, and the launch is repeated until the NodeClaims are too old
  (`liveness`): a new plan would have the same error.

One NodeClaim, the first by name, makes the launch call for all. The others wait for their part of the answer. It is kept in
memory only: if it is lost, the next call finds the instances by their token. Garbage collection terminates those whose
NodeClaim was deleted before it had the answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim.launch_batch import UNKNOWN, LaunchBatcher
from holdfast.controllers.nodeclaim.subreconciler import Delete
from holdfast.model import wording
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest
from holdfast.runtime.cache import Cache, Caches, key_of
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import gang_launches
from holdfast.state.conversion.gang_launches import GangLaunch

CHECK_S: Final = 15.0  # changes trigger a reconcile earlier
_OUTCOMES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The gang is not launched. `instance` is the one of this NodeClaim, and is terminated."""

    instance: Instance | None
    end: Delete
    error: errors.HoldfastError | None = None


Outcome = Instance | errors.HoldfastError | RolledBack | Delete
Prepare = Callable[[NodeClaim], Awaitable[LaunchRequest | errors.HoldfastError | Delete]]


class GangLaunches:
    def __init__(self, *, cluster_state: ClusterState, caches: Caches, launching: LaunchBatcher) -> None:
        self._claims: Cache[NodeClaim] = caches.of(NodeClaim)
        self._launches = cluster_state.gang_launches
        self._nominations = cluster_state.nominations
        self._launching = launching
        self._outcomes: dict[str, Outcome] = {}  # by uid of the NodeClaim, oldest first
        self._running: set[str] = set()  # launches with a call that is not answered
        self._wake: Callable[[Key], None] = lambda _: None
        self._claims.subscribe(self._on_claim)

    def watch(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake

    def wake_others(self, claim: NodeClaim, claims: Sequence[NodeClaim]) -> None:
        for one in claims:
            if one.metadata.uid != claim.metadata.uid:
                self._wake(key_of(one))

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        """The last NodeClaim of a launch was created, or the first was deleted."""
        one = after or before
        launch = gang_launches.of(one) if one is not None else None
        if one is None or launch is None or _exists(before) == _exists(after):
            return
        claims = self._launches.claims(launch)
        if len(claims) == (launch.size if _exists(after) else launch.size - 1):
            self.wake_others(one, claims)

    def has_outcome(self, uid: str) -> bool:
        return uid in self._outcomes

    async def outcome(self, draft: Draft, launch: GangLaunch, prepare: Prepare) -> Outcome | RequeueAfter:
        """The result of the launch for the NodeClaim of the draft."""
        uid = draft.claim.metadata.uid
        if uid in self._outcomes:
            return self._read(uid, self._outcomes[uid])
        claims = self._launches.claims(launch)
        if self._launches.must_end(draft.claim):
            return incomplete(launch, len(claims))
        if len(claims) < launch.size:
            return RequeueAfter(CHECK_S, "the other NodeClaims of its gang do not exist yet")
        waiting = [one for one in claims if not gang_launches.is_launched(one)]
        if not waiting or waiting[0].metadata.uid != uid or launch.id in self._running:
            return RequeueAfter(CHECK_S, "another NodeClaim of its gang makes the launch call")
        self._running.add(launch.id)
        try:
            outcomes = await self._launched(launch, waiting, prepare)
        finally:
            self._running.discard(launch.id)
        self._outcomes |= dict(zip((one.metadata.uid for one in waiting), outcomes, strict=True))
        while len(self._outcomes) > _OUTCOMES_MAX:
            del self._outcomes[next(iter(self._outcomes))]
        draft.refresh(self._claims.get(key_of(draft.claim)) or draft.claim)  # it has the launch token now
        self.wake_others(draft.claim, waiting)
        return self._read(uid, outcomes[0])

    def _read(self, uid: str, outcome: Outcome) -> Outcome:
        """An error is read once, and the launch is repeated. Another outcome is final: writing it may fail, and then the
        next reconcile reads it again."""
        if isinstance(outcome, errors.HoldfastError):
            self._outcomes.pop(uid, None)
        return outcome

    async def _launched(
        self, launch: GangLaunch, claims: Sequence[NodeClaim], prepare: Prepare
    ) -> Sequence[Outcome]:
        """One outcome for each NodeClaim, in order."""
        requests = []
        for claim in claims:
            request = await prepare(claim)
            if not self._launching.is_sent(claim) and self._nominations.is_void(claim.metadata.name):
                request = Delete("not_needed", "the pods of its gang run on other nodes, or are deleted")
            if not isinstance(request, LaunchRequest):
                return [request] * len(claims)
            requests.append(request)
        found = await self._launching.launch_gang(requests, launch.id)
        for one in found:
            if not isinstance(one, (Instance, errors.HoldfastError)):
                raise one
        known = [one for one in found if isinstance(one, (Instance, errors.HoldfastError))]
        return self._together(launch, known)

    def _together(
        self, launch: GangLaunch, found: Sequence[Instance | errors.HoldfastError]
    ) -> Sequence[Outcome]:
        """The answer to one call, as all or none."""
        failures = [one for one in found if isinstance(one, errors.HoldfastError)]
        unknown = [one for one in failures if isinstance(one, UNKNOWN)]
        if unknown:
            return [unknown[0]] * len(found)  # the call may have launched instances: the tokens stay
        capacity = next((one for one in failures if isinstance(one, errors.InsufficientCapacity)), None)
        if capacity is not None:
            why = f"a node of the same gang could not be launched: {capacity}"
            return _rolled_back(found, Delete("insufficient_capacity", why), capacity)
        if failures:
            return [failures[0]] * len(found)
        left = len(self._launches.claims(launch))
        if left < launch.size:
            return _rolled_back(found, incomplete(launch, left))
        return found


def incomplete(launch: GangLaunch, left: int) -> Delete:
    return Delete(
        "gang_incomplete",
        f"{wording.some(left)} of the {launch.size} NodeClaims of its gang {wording.are(left)} left",
    )


def _rolled_back(
    found: Sequence[Instance | errors.HoldfastError], end: Delete, error: errors.HoldfastError | None = None
) -> list[Outcome]:
    return [RolledBack(one if isinstance(one, Instance) else None, end, error) for one in found]


def _exists(claim: NodeClaim | None) -> bool:
    return claim is not None and claim.metadata.deletion_timestamp is None
