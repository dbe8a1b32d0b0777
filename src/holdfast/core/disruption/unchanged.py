"""Whether a disruption pass may be left out: an equal cluster gets the same decision until time alone changes it.

Most passes find nothing to disrupt, and the next one starts ten seconds later. `is_same` compares two inputs without
their times. `holds_until_s` returns the first moment at which the time of day, a pod's age or the date of a reservation
may change a decision without a command. If other times matter too, it is the moment of the decision itself.
`cache_after` returns the cache that a pass would leave.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from holdfast.core.disruption import cooldown
from holdfast.core.disruption.candidates import quiet_since_s
from holdfast.core.disruption.commands import Decision, DecisionCache
from holdfast.core.disruption.inputs import DEFAULT_FACTS, DisruptionInput, Settings
from holdfast.core.reservations import boundaries, ledger
from holdfast.model.reasons import BlockedCode
from holdfast.model.snapshot import ClaimView, NodeView, Snapshot

_MINUTE_S: Final = 60


def is_same(before: DisruptionInput, after: DisruptionInput, lag_s: int) -> bool:
    """Whether two inputs differ only in their times. `lag_s`: of the ledger."""
    old, new = before.snapshot, after.snapshot
    if (before.changed, before.pools, before.facts) != (after.changed, after.pools, after.facts):
        return False
    if not _are_same_nodes(old.nodes, new.nodes):
        return False
    counted = replace(
        new,
        taken_s=old.taken_s,
        nodes=old.nodes,
        counts_read_s=old.counts_read_s,
        count_before=old.count_before,
        instances=old.instances,
    )
    if counted != old:
        return False
    # Decisions depend on counts and instances through the ledger and the reservations of the instances alone, unless a
    # NodeClaim waits for a slot.
    is_listed_again = new.instances != old.instances
    if is_listed_again and _in_reservations(new) != _in_reservations(old):
        return False
    is_counted_again = is_listed_again or new.counts_read_s != old.counts_read_s
    return not is_counted_again or ledger.ledger(new, lag_s) == ledger.ledger(old, lag_s)


def _in_reservations(snapshot: Snapshot) -> Mapping[str, str]:
    return {
        one.provider_id: one.reservation_id for one in snapshot.instances if one.reservation_id is not None
    }


def _are_same_nodes(old: Sequence[NodeView], new: Sequence[NodeView]) -> bool:
    """The pods of a draining node change all the time. When they did decides about no node."""
    return old == new or (
        len(old) == len(new)
        and all(one is other or one == _with_time(other, one) for one, other in zip(old, new, strict=True))
    )


def _with_time(node: NodeView, other: NodeView) -> NodeView:
    return replace(node, last_pod_event_s=other.last_pod_event_s) if node.deleting else node


def holds_until_s(cluster: DisruptionInput, settings: Settings, decision: Decision) -> int:
    """Until when, at most, an equal cluster gets no command either."""
    now_s = cluster.now_s
    if decision.command is not None or decision.unfinished or _do_other_times_matter(cluster, settings):
        return now_s
    return min((at_s for at_s in _moments(cluster, settings, decision) if at_s > now_s), default=now_s)


def cache_after(cluster: DisruptionInput, cache: DecisionCache) -> DecisionCache:
    """The cache after a pass that is left out. A drain extends the moves of its nodes, until the last pass that found it:
    otherwise pods that are recreated late would not cool down."""
    if not cache.moves:
        return cache
    return replace(cache, moves=cooldown.still_moving(cache.moves, cluster))


def _do_other_times_matter(cluster: DisruptionInput, settings: Settings) -> bool:
    """Whether a pod waits, or a node is replaced at any price: these have waits and bounds of their own."""
    snapshot = cluster.snapshot
    return (
        settings.node_repair
        or bool(snapshot.pending)
        or any(map(_has_own_times, snapshot.claims))
        or any(
            facts.drifted is not None or facts.rebooting or facts.reboot_failed
            for facts in cluster.facts.values()
        )
    )


def _has_own_times(claim: ClaimView) -> bool:
    return claim.waits_for_instance is not None or claim.rebooting_s is not None


def _moments(cluster: DisruptionInput, settings: Settings, decision: Decision) -> Iterator[int]:
    """Times at which a decision may change. Some have passed."""
    snapshot, now_s = cluster.snapshot, cluster.now_s
    yield min((one.at_s for one in decision.cache.results.values()), default=now_s) + settings.retry_s
    change_s = boundaries.next_change_s(snapshot.reservations, now_s)
    if change_s is not None:
        yield change_s
    if any(budget.schedule is not None for rules in cluster.pools.values() for budget in rules.budgets):
        yield (now_s // _MINUTE_S + 1) * _MINUTE_S
    after_s = {pool.name: pool.consolidate_after_s for pool in snapshot.node_pools}
    longest_s = max((one for one in after_s.values() if one is not None), default=0)
    of_node = cluster.facts.get
    for node in snapshot.nodes:
        since_s = node.last_pod_event_s
        if since_s is not None and since_s + longest_s <= now_s:
            continue  # most nodes
        window_s = after_s.get(node.node_pool or "")
        if window_s is not None:
            if since_s is None:
                since_s = quiet_since_s(node, of_node(node.name, DEFAULT_FACTS))
            if since_s + window_s > now_s:
                yield since_s + window_s
    if decision.cache.moves:
        yield from _ends_of_cooldowns(cluster, settings, decision)


def _ends_of_cooldowns(cluster: DisruptionInput, settings: Settings, decision: Decision) -> Iterator[int]:
    # Many nodes share one tuple of blockers.
    shared = {id(one.blockers): one.blockers for one in decision.undisrupted}
    cool = {
        key
        for key, blockers in shared.items()
        if any(one.reason.code is BlockedCode.COOLING_DOWN for one in blockers)
    }
    cooling = {one.node for one in decision.undisrupted if id(one.blockers) in cool} if cool else set[str]()
    for node in cluster.snapshot.nodes if cooling else ():
        if node.name in cooling:
            yield from (pod.created_s + settings.cooldown_s for pod in node.pods)
