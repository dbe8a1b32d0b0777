"""Launches the NodeClaims of gangs all or none, and opens their nodes when all are ready.

The provisioner writes the NodeClaims of a plan for a gang with the annotation `holdfast.dev/gang-launch`, which says how
many there are. None is launched before all exist, and none is Launched before all have an instance. So after a crash
between any two writes either all of them are launched, or all are deleted:

- Fewer exist, and the provisioner had a minute to write the others, or a launch had begun: they are deleted.
- One of them cannot be launched: the instances of the others are terminated, and all are deleted.

One NodeClaim, the first by name, makes the launch call for all. The others wait for their part of the answer. It is kept in
memory only: if it is lost, the next call finds the instances by their token.

The nodes have the startup taint `holdfast.dev/forming`, so that no pod takes the capacity of a gang that is not complete
yet. It is removed from all when the last is ready, or after the time that a node has to register: a node that does not
become ready must not keep the others idle.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim import initialization
from holdfast.controllers.nodeclaim.launch_batch import UNKNOWN, LaunchBatcher
from holdfast.controllers.nodeclaim.subreconciler import Delete
from holdfast.model.instances import Instance
from holdfast.ports import LaunchRequest, Ports
from holdfast.runtime.cache import Caches, Index, key_of
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.conversion import gang_launches, registrations, times
from holdfast.state.conversion.gang_launches import GangLaunch

_WRITING_S: Final = 60.0  # how long the provisioner may take to write all NodeClaims
_CHECK_S: Final = 5.0
_OUTCOMES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class RolledBack:
    """Another NodeClaim of the gang was not launched; the instance of this one is terminated."""

    instance: Instance | None
    why: str


Outcome = Instance | errors.HoldfastError | RolledBack | Delete
Prepare = Callable[[NodeClaim], Awaitable[LaunchRequest | errors.HoldfastError | Delete]]


class GangLaunches:
    def __init__(
        self, *, nominations: Nominations, caches: Caches, launching: LaunchBatcher, ports: Ports
    ) -> None:
        self._claims = caches.of(NodeClaim).index(gang_launches.ids)
        self._nominations = nominations
        self._launching = launching
        self._clock = ports.clock
        self._outcomes: dict[str, Outcome] = {}  # by uid of the NodeClaim, oldest first
        self._running: set[str] = set()  # launches with a call that is not answered
        self._wake: Callable[[Key], None] = lambda _: None

    def watch(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake

    def claims(self, launch: GangLaunch) -> list[NodeClaim]:
        """Those that exist and are not being deleted, sorted by name."""
        found = [one for one in self._claims.get(launch.id) if one.metadata.deletion_timestamp is None]
        return sorted(found, key=lambda one: one.metadata.name)

    def wake_others(self, claim: NodeClaim, claims: Sequence[NodeClaim]) -> None:
        for one in claims:
            if one.metadata.uid != claim.metadata.uid:
                self._wake(key_of(one))

    async def outcome(self, draft: Draft, launch: GangLaunch, prepare: Prepare) -> Outcome | RequeueAfter:
        """The result of the launch for the NodeClaim of the draft."""
        claims, uid = self.claims(launch), draft.claim.metadata.uid
        found = self._outcomes.get(uid)
        if found is not None:
            return self._read(uid, found)
        if len(claims) < launch.size:
            return self._incomplete(draft, launch, len(claims))
        waiting = [one for one in claims if not _is_launched(one)]
        if not waiting or waiting[0].metadata.uid != uid or launch.id in self._running:
            return RequeueAfter(_CHECK_S, "another NodeClaim of its gang makes the launch call")
        self._running.add(launch.id)
        try:
            outcomes = await self._launched(launch, waiting, prepare)
        finally:
            self._running.discard(launch.id)
        self._outcomes |= dict(zip((one.metadata.uid for one in waiting), outcomes, strict=True))
        while len(self._outcomes) > _OUTCOMES_MAX:
            del self._outcomes[next(iter(self._outcomes))]
        self.wake_others(draft.claim, waiting)
        return self._read(uid, self._outcomes[uid])

    def _read(self, uid: str, outcome: Outcome) -> Outcome:
        """An error is read once, and the launch is repeated. Another outcome is final: writing it may fail, and then the
        next reconcile reads it again."""
        if isinstance(outcome, errors.HoldfastError):
            self._outcomes.pop(uid, None)
        return outcome

    def _incomplete(self, draft: Draft, launch: GangLaunch, count: int) -> RequeueAfter | Delete:
        why = f"{count} of the {launch.size} NodeClaims of its gang exist"
        if names.LAUNCH_TOKEN in draft.annotations:
            return Delete("gang_incomplete", f"only {why}, so none is launched")
        created = draft.claim.metadata.creation_timestamp
        left_s = _WRITING_S - (times.epoch_s(draft.now) - times.epoch_s(created or draft.now))
        if left_s > 0:
            return RequeueAfter(left_s, why)
        return Delete("gang_incomplete", f"only {why} after {_WRITING_S:.0f} s")

    async def _launched(
        self, launch: GangLaunch, claims: Sequence[NodeClaim], prepare: Prepare
    ) -> Sequence[Outcome]:
        """One outcome for each NodeClaim, in order."""
        requests = []
        for claim in claims:
            request = await prepare(claim)
            if self._nominations.is_void(claim.metadata.name):
                request = Delete("not_needed", "the pods of its gang run on other nodes, or are deleted")
            if not isinstance(request, LaunchRequest):
                return [request] * len(claims)
            requests.append(request)
        found = await self._launching.launch_gang(requests, launch.id)
        failures = []
        for one in found:
            if isinstance(one, errors.HoldfastError):
                failures.append(one)
            elif not isinstance(one, Instance):
                raise one
        if not failures:
            return [one for one in found if isinstance(one, Instance)]
        unknown = [one for one in failures if isinstance(one, UNKNOWN)]
        if unknown:
            return [unknown[0]] * len(claims)  # the call may have launched instances: the tokens stay
        capacity = [one for one in failures if isinstance(one, errors.InsufficientCapacity)]
        if capacity or len(failures) < len(claims):
            why = f"a node of the same gang could not be launched: {(capacity or failures)[0]}"
            return [RolledBack(one if isinstance(one, Instance) else None, why) for one in found]
        return [failures[0]] * len(claims)


class Forming:
    """Removes the startup taint `holdfast.dev/forming` from a node when all nodes of its gang are ready."""

    def __init__(self, *, launches: GangLaunches, nodes: Index[Node], ports: Ports) -> None:
        self._launches = launches
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._log = structlog.get_logger().bind(controller="nodeclaim.lifecycle")

    async def run(self, draft: Draft) -> RequeueAfter | None:
        node = next(iter(self._nodes.get(draft.status.provider_id or "")), None)
        if node is None or not draft.conditions.holds(claim_conditions.REGISTERED) or not _is_forming(node):
            return None
        launch = gang_launches.of(draft.claim)
        claims = self._launches.claims(launch) if launch is not None else []
        late = draft.age_s(claim_conditions.REGISTERED) >= registrations.REGISTRATION_TIMEOUT_S
        if not (
            late or draft.conditions.holds(claim_conditions.INITIALIZED) or all(map(self._is_ready, claims))
        ):
            return RequeueAfter(_CHECK_S, "other nodes of its gang are not ready")
        taints = [msgspec.to_builtins(one) for one in node.spec.taints if one.key != names.FORMING_TAINT]
        await self._kube.patch(node, {"spec": {"taints": taints}}, only_if_unchanged=True)
        self._log.info("opened node", nodeclaim=draft.name, node=node.metadata.name, late=late)
        self._launches.wake_others(draft.claim, claims)
        return None

    def _is_ready(self, claim: NodeClaim) -> bool:
        """Whether nothing but the taint keeps the node from being initialized."""
        if conditions.holds(claim.status.conditions, claim_conditions.INITIALIZED):
            return True
        node = next(iter(self._nodes.get(claim.status.provider_id or "")), None)
        is_registered = conditions.holds(claim.status.conditions, claim_conditions.REGISTERED)
        return is_registered and initialization.why_not(node, claim, forming=True) is None


def _is_forming(node: Node) -> bool:
    return any(one.key == names.FORMING_TAINT for one in node.spec.taints)


def _is_launched(claim: NodeClaim) -> bool:
    return conditions.holds(claim.status.conditions, claim_conditions.LAUNCHED)
