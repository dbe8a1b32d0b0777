"""Whether a disruption pass may be left out: an equal cluster gets the same decision until time alone changes it.

Most passes find nothing to disrupt, and the next one starts ten seconds later. `is_same` compares two inputs without
their times. `holds_until_s` returns the first moment at which the time of day, a pod's age or the date of a reservation
may change a decision without a command. While the cluster is in motion, it is the moment of the decision itself.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from holdfast.core.disruption.candidates import quiet_since_s
from holdfast.core.disruption.commands import Decision
from holdfast.core.disruption.inputs import DEFAULT_FACTS, DisruptionInput, NodeFacts, Settings
from holdfast.core.reservations import boundaries, ledger
from holdfast.model.reasons import BlockedCode
from holdfast.model.snapshot import ClaimView, NodeView

_MINUTE_S: Final = 60


def is_same(before: DisruptionInput, after: DisruptionInput, lag_s: int) -> bool:
    """Whether two inputs differ only in their times. `lag_s`: of the ledger."""
    old, new = before.snapshot, after.snapshot
    if (before.changed, before.pools, before.facts) != (after.changed, after.pools, after.facts):
        return False
    counted = replace(
        new, taken_s=old.taken_s, counts_read_s=old.counts_read_s, count_before=old.count_before
    )
    if counted != old:
        return False
    return new.counts_read_s == old.counts_read_s or ledger.ledger(new, lag_s) == ledger.ledger(old, lag_s)


def holds_until_s(cluster: DisruptionInput, settings: Settings, decision: Decision) -> int:
    """Until when, at most, an equal cluster gets no command either."""
    now_s = cluster.now_s
    if decision.command is not None or decision.unfinished or _is_in_motion(cluster, settings):
        return now_s
    return min((at_s for at_s in _moments(cluster, settings, decision) if at_s > now_s), default=now_s)


def _is_in_motion(cluster: DisruptionInput, settings: Settings) -> bool:
    """Whether nodes or pods come or go, or a node is drifted or repaired: then several times matter."""
    snapshot = cluster.snapshot
    return (
        settings.node_repair
        or bool(snapshot.pending)
        or any(_is_claim_in_motion(claim) for claim in snapshot.claims)
        or any(
            _is_node_in_motion(node, cluster.facts.get(node.name, DEFAULT_FACTS)) for node in snapshot.nodes
        )
    )


def _is_claim_in_motion(claim: ClaimView) -> bool:
    return claim.launched_s is None or claim.deleting or claim.rebooting_s is not None


def _is_node_in_motion(node: NodeView, facts: NodeFacts) -> bool:
    return (
        node.deleting
        or node.nominated
        or not node.initialized
        or facts.queued
        or facts.rebooting
        or facts.reboot_failed
        or facts.ending
        or facts.drifted is not None
    )


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
    for node in snapshot.nodes:
        window_s = after_s.get(node.node_pool or "")
        if window_s is not None:
            yield quiet_since_s(node, cluster.facts.get(node.name, DEFAULT_FACTS)) + window_s
    cooling = {
        one.node
        for one in decision.undisrupted
        if any(blocker.reason.code is BlockedCode.COOLING_DOWN for blocker in one.blockers)
    }
    for node in snapshot.nodes:
        if node.name in cooling:
            yield from (pod.created_s + settings.cooldown_s for pod in node.pods)
