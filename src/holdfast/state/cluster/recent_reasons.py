"""The reasons of the last plan and the last disruption decision: why pods are not placed, why nodes are not disrupted.

The provisioner and disruption replace them with each decision; `app.explanations` reads them. They are not
stored: after a restart the first plan replaces them, and events have the texts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.core.disruption.commands import Blocker, Decision
from holdfast.core.scheduling.output.plan import Plan, PlannedClaim, Unplaced
from holdfast.model.reasons import BlockedCode

_NOT_SIMULATED: Final = (BlockedCode.UNCHANGED, BlockedCode.NOT_REACHED)


@dataclass(frozen=True, slots=True)
class PlanReasons:
    at_s: int
    unplaced: Mapping[str, Unplaced]  # by uid of the pod
    claims: Mapping[str, PlannedClaim]  # by uid of the pod: the NodeClaim that the plan creates for it
    price_nano_usd_per_hour: int
    baseline_nano_usd_per_hour: int


@dataclass(frozen=True, slots=True)
class DisruptionReasons:
    at_s: int
    blockers: Mapping[str, tuple[Blocker, ...]]  # by node
    command: str = ""  # why nodes are disrupted, if they are


@dataclass(slots=True)
class RecentReasons:
    plan: PlanReasons | None = None  # None: no plan was made yet
    disruption: DisruptionReasons | None = None
    unserved: Mapping[str, str] = field(default_factory=dict)  # by NodePool: why no plan uses it
    _on_plan: list[Callable[[], None]] = field(default_factory=list)

    def subscribe(self, on_plan: Callable[[], None]) -> None:
        """Calls `on_plan` after each plan from now on."""
        self._on_plan.append(on_plan)

    def planned(
        self,
        plan: Plan,
        rejected: Iterable[Unplaced],
        unserved: Iterable[tuple[str, str]],
        at_s: int,
    ) -> None:
        unplaced = {one.pod: one for one in (*plan.unplaced, *rejected)}
        claims = {uid: claim for claim in plan.claims for uid in claim.pods}
        self.plan = PlanReasons(
            at_s, unplaced, claims, plan.price_nano_usd_per_hour, plan.baseline_nano_usd_per_hour
        )
        self.unserved = dict(unserved)
        for on_plan in self._on_plan:
            on_plan()

    def decided(self, decision: Decision, at_s: int) -> None:
        command = decision.command
        before = self.disruption.blockers if self.disruption is not None else {}
        is_new: dict[int, bool] = {}  # by id: many nodes share one tuple of blockers
        found: dict[str, tuple[Blocker, ...]] = {}
        for node, blockers in decision.undisrupted:
            new = is_new.get(id(blockers))
            if new is None:
                new = is_new[id(blockers)] = all(one.reason.code not in _NOT_SIMULATED for one in blockers)
            found[node] = blockers if new else _known(blockers, before.get(node, ()))
        self.disruption = DisruptionReasons(
            at_s,
            found,
            "" if command is None else f"{command.reason}: {command.why}",
        )

    def still_decided(self, at_s: int) -> None:
        """The last decision was made again: nothing changed."""
        if self.disruption is not None:
            self.disruption = replace(self.disruption, at_s=at_s)


def _known(blockers: tuple[Blocker, ...], before: tuple[Blocker, ...]) -> tuple[Blocker, ...]:
    """A pass does not simulate a node again if nothing changed. Then the reasons of the last simulation still hold."""
    found: dict[Blocker, None] = {}
    for one in blockers:
        same = (
            [old for old in before if old.method == one.method] if one.reason.code in _NOT_SIMULATED else []
        )
        found |= dict.fromkeys(same or [one])
    return tuple(found)
