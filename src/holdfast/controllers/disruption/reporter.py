"""Reports decisions of the disruption loop: metrics, and events about nodes that are not disrupted.

A node gets another event only for a reason that it did not have for a quarter of an hour: while nodes start and stop, its
reasons alternate.
"""

from collections.abc import Iterable
from typing import Final

from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.controllers import claim_end
from holdfast.core.disruption import commands
from holdfast.core.disruption.budgets import Allowance
from holdfast.core.disruption.commands import Action, Blocker, Decision, DisruptionCommand, Method
from holdfast.core.disruption.inputs import DisruptionReason, Policy
from holdfast.core.disruption.validation import Invalid
from holdfast.model import wording
from holdfast.model.reasons import BlockedCode
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state.conversion import pod_states

DECISIONS: Final = "karpenter_voluntary_disruption_decisions_total"
EVALUATION: Final = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
BY_POOL: Final = "karpenter_voluntary_disruption_decisions_by_nodepool_total"
ELIGIBLE: Final = "karpenter_voluntary_disruption_eligible_nodes"
TIMEOUTS: Final = "karpenter_voluntary_disruption_consolidation_timeouts_total"
SCORE: Final = "karpenter_consolidation_score"
MOVES: Final = "karpenter_consolidation_moves_total"
INVALID: Final = "karpenter_voluntary_disruption_failed_validations_total"
TERMINATE_FIRST: Final = "karpenter_voluntary_disruption_terminate_first_decisions_total"
UNHEALTHY: Final = "karpenter_nodeclaims_unhealthy_disrupted_total"
ALLOWED: Final = "karpenter_nodepools_allowed_disruptions"
CONSUMING: Final = "karpenter_nodepools_nodes_consuming_budgets"
METRICS: Final = (
    Metric(DECISIONS, "counter", "Disruption decisions.", ("decision", "reason", "consolidation_type")),
    Metric(
        BY_POOL,
        "counter",
        "Disruption decisions by NodePool of the nodes.",
        ("nodepool", "decision", "reason", "consolidation_type"),
    ),
    Metric(ELIGIBLE, "gauge", "Nodes that could be disrupted for a reason, before budgets.", ("reason",)),
    Metric(
        TIMEOUTS,
        "counter",
        "Passes of consolidation that ended before all candidates were simulated.",
        ("consolidation_type",),
    ),
    Metric(
        SCORE,
        "histogram",
        "Scores of consolidations in Balanced NodePools.",
        ("decision", "nodepool", "policy"),
        (0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0),
    ),
    Metric(MOVES, "counter", "Consolidations in Balanced NodePools.", ("decision", "nodepool", "policy")),
    Metric(EVALUATION, "histogram", "Duration of a disruption decision.", ("reason", "consolidation_type")),
    Metric(INVALID, "counter", "Commands that failed validation.", ("consolidation_type", "reason")),
    Metric(
        TERMINATE_FIRST,
        "counter",
        "Nodes that are deleted before their replacements are launched.",
        ("nodepool", "reason", "terminate_first_reason"),
    ),
    Metric(
        UNHEALTHY,
        "counter",
        "NodeClaims that are replaced because their node is unhealthy.",
        ("condition", "nodepool", "capacity_type", "image_id", "termination_mode"),
    ),
    Metric(ALLOWED, "gauge", "Nodes that the budgets allow to disrupt now.", ("nodepool", "reason")),
    Metric(CONSUMING, "gauge", "Nodes that count against the budgets now.", ("nodepool", "reason")),
)
_UNCONSOLIDATABLE: Final = frozenset(
    {
        BlockedCode.UNKNOWN_TYPE,
        BlockedCode.NO_LABELS,
        BlockedCode.CONSOLIDATION_OFF,
        BlockedCode.WHEN_EMPTY,
        BlockedCode.PODS_WITHOUT_PLACE,
        BlockedCode.NOT_CHEAPER,
        BlockedCode.TOO_MANY,
        BlockedCode.SPOT_TO_SPOT,
        BlockedCode.MIN_VALUES,
        BlockedCode.ON_STARTING_NODE,
        BlockedCode.COOLING_DOWN,
        BlockedCode.BALANCE,
    }
)


_INVALID_ANNOTATION: Final = "invalid"
_SILENCE_S: Final = 900.0  # Karpenter's; all nodes are simulated again more often

_Kind = tuple[Method | None, str]
_Reasons = tuple[tuple[_Kind, Blocker], ...]


class DisruptionReporter:
    def __init__(self, *, caches: Caches, ports: Ports) -> None:
        self._nodes = caches.of(Node)
        self._claims = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._invalid = caches.of(Pod).index(
            lambda pod: (_INVALID_ANNOTATION,) if pod_states.has_invalid_do_not_disrupt(pod) else ()
        )
        self._pools = caches.of(NodePool)
        self._recorder = ports.recorder
        self._clock = ports.clock
        self._allowances: tuple[Allowance, ...] = ()
        # By node: when a method last had a reason of this kind.
        self._reported: dict[str, dict[_Kind, float]] = {}

    def decided(self, decision: Decision, duration_s: float) -> None:
        command = decision.command
        about = _about(command) if command is not None else {"reason": "", "consolidation_type": ""}
        self._recorder.observe(EVALUATION, about, duration_s)
        self._measure(decision)
        self._allowances = decision.allowances
        self.still_decided()
        now_s, before, self._reported = self._clock.monotonic_s(), self._reported, {}
        reasons: dict[int, _Reasons] = {}  # by id: many nodes share one tuple of blockers
        for node, blockers in decision.undisrupted:
            found = reasons.get(id(blockers))
            if found is None:
                found = reasons[id(blockers)] = _reasons(blockers)
            reported = before.get(node)
            if found:
                reported = reported or {}
                for key, blocker in found:
                    if now_s >= reported.get(key, -_SILENCE_S) + _SILENCE_S:
                        self._report(node, blocker)
                    reported[key] = now_s
            if reported:
                self._reported[node] = reported

    def still_decided(self) -> None:
        """Repeats what is reported as long as it is so: budgets that allow no disruption, invalid annotations."""
        for one in self._allowances:
            self._allowance(one)
        self._report_invalid_annotations()

    def _measure(self, decision: Decision) -> None:
        for reason in DisruptionReason:  # a method that was not reached keeps its last number
            if reason in decision.eligible:
                self._recorder.gauge(ELIGIBLE, {"reason": reason.lower()}, decision.eligible[reason])
        for method in (Method.MULTI_NODE, Method.SINGLE_NODE):
            ended = method in decision.unfinished
            self._recorder.count(TIMEOUTS, {"consolidation_type": commands.consolidation_type(method)}, ended)
        for score in decision.scores:
            verdict = "approved" if score.approved else "rejected"
            about = {"decision": verdict, "nodepool": score.pool, "policy": Policy.BALANCED.value}
            self._recorder.observe(SCORE, about, score.value)
            self._recorder.count(MOVES, about)

    def started(self, command: DisruptionCommand, claims: tuple[NodeClaim, ...]) -> None:
        decided = _about(command) | {"decision": command.action.value}
        self._recorder.count(DECISIONS, decided)
        for pool in sorted({claim.metadata.labels.get(names.NODEPOOL, "") for claim in claims}):
            self._recorder.count(BY_POOL, decided | {"nodepool": pool})
        if command.action is Action.TERMINATE_FIRST:
            for claim in claims:
                pool = claim.metadata.labels.get(names.NODEPOOL, "")
                about = {"nodepool": pool, "reason": command.reason.lower()}
                self._recorder.count(
                    TERMINATE_FIRST, about | {"terminate_first_reason": "no-reserved-capacity"}
                )

        if command.condition and command.action is not Action.REBOOT:
            for claim in claims:
                self._recorder.count(UNHEALTHY, _unhealthy(claim, command.condition))

    def _report_invalid_annotations(self) -> None:
        """Reports invalid do-not-disrupt annotations of pods on nodes of a NodePool (D-6)."""
        for pod in self._invalid.get(_INVALID_ANNOTATION):
            node = self._nodes.get(("", pod.spec.node_name))
            if node is not None and names.NODEPOOL in node.metadata.labels:
                value = pod.metadata.annotations[names.DO_NOT_DISRUPT]
                text = (
                    f'Invalid {names.DO_NOT_DISRUPT} annotation: "{value}" is neither "true" nor a duration such as 4h, '
                    "ignoring annotation"
                )
                self._recorder.event(pod, "InvalidDoNotDisruptAnnotation", text, warning=True)

    def rejected(self, command: DisruptionCommand, invalid: Invalid) -> None:
        labels = {"consolidation_type": command.consolidation_type, "reason": invalid.kind}
        self._recorder.count(INVALID, labels)
        for name in command.candidates:
            node = self._nodes.get(("", name))
            if node is not None:
                self._recorder.event(
                    node,
                    "ConsolidationRejected",
                    f"Consolidation rejected: {invalid.kind}, reason: {invalid.why}",
                )

    def _allowance(self, one: Allowance) -> None:
        about = {"nodepool": one.pool, "reason": one.reason.value.lower()}
        self._recorder.gauge(CONSUMING, about, one.consumed)
        if one.allowed is not None:
            self._recorder.gauge(ALLOWED, about, one.allowed)
        pool = self._pools.get(("", one.pool))
        if one.allowed == 0 and one.nodes and pool is not None:
            text = f"No allowed disruptions for disruption reason {one.reason} due to blocking budget"
            self._recorder.event(pool, "DisruptionBlocked", text)

    def _report(self, name: str, blocker: Blocker) -> None:
        node = self._nodes.get(("", name))
        if node is None:
            return
        about: list[Object | None] = [node]
        if blocker.reason.code is BlockedCode.BREAKER:
            about += self._claims.get(node.spec.provider_id)
            about.append(self._pools.get(("", blocker.reason.subject)))
        for obj in filter(None, about):
            self._recorder.event(obj, _event(blocker), blocker.reason.text)


def _reasons(blockers: Iterable[Blocker]) -> _Reasons:
    """The blockers that cause events, by kind."""
    return tuple(
        ((one.method, one.reason.code), one) for one in blockers if one.reason.code not in commands.SILENT
    )


def _event(blocker: Blocker) -> str:
    if blocker.reason.code is BlockedCode.BREAKER:
        return "NodeRepairBlocked"
    is_consolidation = blocker.method not in (Method.DRIFT, Method.REPAIR)
    is_unconsolidatable = is_consolidation and blocker.reason.code in _UNCONSOLIDATABLE
    return "Unconsolidatable" if is_unconsolidatable else "DisruptionBlocked"


def _unhealthy(claim: NodeClaim, condition: str) -> dict[str, str]:
    labels = claim.metadata.labels
    return {
        "condition": wording.snake_case(condition),
        "nodepool": labels.get(names.NODEPOOL, ""),
        "capacity_type": labels.get(names.CAPACITY_TYPE, ""),
        "image_id": claim.status.image_id or "",
        "termination_mode": claim_end.termination_mode(claim),
    }


def _about(command: DisruptionCommand) -> dict[str, str]:
    return {"reason": command.reason.lower(), "consolidation_type": command.consolidation_type}
