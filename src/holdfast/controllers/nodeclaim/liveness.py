"""Deletes NodeClaims that do not become nodes in time, whose Node does not exist, or that are older than `expireAfter`.

Liveness: a claim that waits for its slot is not late (decision 22). There is no limit on how long a registered node may
take to be ready (NC-18). A claim is late only if it is late by the program's time and by the monotonic clock of this
process. The monotonic age is the age at the first read of this process plus the monotonic time since then. So a step of
a clock makes no claim late, and a restart does not restart the time limit (docs/adr/0036).

MissingNode: a kubelet creates its Node only when it starts. So a Node that was deleted by force is not created again,
and a Node that a restarted kubelet creates keeps the taint that only registration removes. If the cache lacks the Node,
it is read from the API server, so a stale cache deletes nothing. A read that fails changes nothing. The time limit
counts from the transition of the condition NodeNotFound, so a restart does not extend it. While the condition is True,
no pod is planned onto the claim (state/conversion/nodes.py).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim.subreconciler import Delete
from holdfast.ports import Clock, Ports
from holdfast.runtime.cache import Index
from holdfast.runtime.results import RequeueAfter
from holdfast.state.conversion import nodes as node_states
from holdfast.state.conversion import registrations, times

_FIRST_READS_MAX: Final = 10_000
BOUND_S: Final = 300.0
_CHECK_S: Final = 60.0  # between two reads while the cache lacks a Node that exists


@dataclass(frozen=True, slots=True)
class _FirstRead:
    """When this process first read a condition with this transition time, and how old it was then."""

    transition: datetime
    at_s: float
    age_s: float


class Liveness:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._first_reads: dict[tuple[str, str], _FirstRead] = {}  # by uid and condition

    async def run(self, draft: Draft) -> RequeueAfter | Delete | None:
        if names.WAITS_FOR_INSTANCE in draft.annotations:
            return None
        if not draft.conditions.holds(claim_conditions.LAUNCHED):
            return self._late(
                draft, claim_conditions.LAUNCHED, registrations.LAUNCH_TIMEOUT_S, "launch_timeout"
            )
        if not draft.conditions.holds(claim_conditions.REGISTERED):
            return self._late(
                draft,
                claim_conditions.REGISTERED,
                registrations.REGISTRATION_TIMEOUT_S,
                "registration_timeout",
            )
        for condition in (claim_conditions.LAUNCHED, claim_conditions.REGISTERED):
            self._first_reads.pop((draft.claim.metadata.uid, condition), None)
        return None

    def _late(self, draft: Draft, condition: str, limit_s: int, reason: str) -> RequeueAfter | Delete:
        left_s = limit_s - self._age_s(draft, condition)
        if left_s > 0:
            return RequeueAfter(left_s, f"until {condition} is late")
        return Delete(reason, f"{condition} was not True within {limit_s} s")

    def _age_s(self, draft: Draft, condition: str) -> float:
        found = draft.conditions.find(condition)
        age_s, now_s = draft.age_s(condition), self._clock.monotonic_s()
        assert found is not None, "a draft has every condition that its claim must meet"
        key = (draft.claim.metadata.uid, condition)
        first = self._first_reads.get(key)
        if first is None or first.transition != found.last_transition_time:
            if len(self._first_reads) >= _FIRST_READS_MAX:
                self._first_reads.clear()  # most of these claims are deleted
            first = _FirstRead(found.last_transition_time, now_s, max(0.0, age_s))
            self._first_reads[key] = first
        return min(age_s, first.age_s + now_s - first.at_s)


class Expiration:
    async def run(self, draft: Draft) -> RequeueAfter | Delete | None:
        after = draft.claim.spec.expire_after
        created = draft.claim.metadata.creation_timestamp
        lasts_s = None if after == times.NEVER else times.duration_s(after)
        if lasts_s is None or created is None:
            return None
        left_s = times.epoch_s(created) + lasts_s - times.epoch_s(draft.now)
        if left_s > 0:
            return RequeueAfter(left_s, "until it expires")
        return Delete("expired", f"it is older than {after}")


class MissingNode:
    def __init__(self, *, nodes: Index[Node], ports: Ports) -> None:
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._recorder = ports.recorder

    async def run(self, draft: Draft) -> RequeueAfter | Delete | None:
        if not draft.conditions.holds(claim_conditions.REGISTERED) or not draft.status.node_name:
            return None
        if any(map(_is_registered, self._nodes.get(draft.status.provider_id or ""))):
            draft.conditions.drop(claim_conditions.NODE_NOT_FOUND)
            return None
        if await self._exists(draft):
            draft.conditions.drop(claim_conditions.NODE_NOT_FOUND)
            return RequeueAfter(_CHECK_S, "Node is not in the cache yet")
        message = (
            f"node {draft.status.node_name} does not exist; the NodeClaim is deleted after {BOUND_S:.0f} s"
        )
        if not draft.conditions.holds(claim_conditions.NODE_NOT_FOUND):
            self._recorder.event(draft.claim, claim_conditions.NODE_NOT_FOUND, message, warning=True)
        draft.conditions.put(claim_conditions.NODE_NOT_FOUND, conditions.TRUE, message=message)
        left_s = BOUND_S - draft.age_s(claim_conditions.NODE_NOT_FOUND)
        if left_s > 0:
            return RequeueAfter(left_s, message)
        return Delete("node_not_found", message)

    async def _exists(self, draft: Draft) -> bool:
        """Compares the provider id too: clouds reuse IP addresses, so another instance may have the same Node name."""
        try:
            node = await self._kube.get(Node, draft.status.node_name or "")
        except errors.NotFound:
            return False
        return node.spec.provider_id == draft.status.provider_id and _is_registered(node)


def _is_registered(node: Node) -> bool:
    return not node_states.waits_for_claim(node)
