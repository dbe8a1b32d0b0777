"""What disruption tells the outside: metrics of every decision, and events about nodes that stay although they could go.

Called by `loop`. The rule: a node that stays for the same reasons as before is not mentioned again.
"""

import re
from typing import Final

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.controllers import claim_end
from holdfast.controllers.disruption.queue import consolidation_type
from holdfast.controllers.doors import Doors
from holdfast.core.disruption import commands
from holdfast.core.disruption.budgets import Allowance
from holdfast.core.disruption.commands import Action, Code, Command, Decision, Kept, Method, Why
from holdfast.core.disruption.validation import Invalid
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state import pod_states

DECISIONS: Final = "karpenter_voluntary_disruption_decisions_total"
EVALUATION: Final = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds"
INVALID: Final = "karpenter_voluntary_disruption_failed_validations_total"
TERMINATE_FIRST: Final = "karpenter_voluntary_disruption_terminate_first_decisions_total"
UNHEALTHY: Final = "karpenter_nodeclaims_unhealthy_disrupted_total"
ALLOWED: Final = "karpenter_nodepools_allowed_disruptions"
CONSUMING: Final = "karpenter_nodepools_nodes_consuming_budgets"
METRICS: Final = (
    Metric(DECISIONS, "counter", "Decisions on nodes.", ("decision", "reason", "consolidation_type")),
    Metric(EVALUATION, "histogram", "Time a decision took.", ("reason", "consolidation_type")),
    Metric(INVALID, "counter", "Decisions that did not hold for long.", ("consolidation_type", "reason")),
    Metric(
        TERMINATE_FIRST,
        "counter",
        "Nodes that go before their replacements are up.",
        ("nodepool", "reason", "terminate_first_reason"),
    ),
    Metric(
        UNHEALTHY,
        "counter",
        "NodeClaims that are replaced since their node is unhealthy.",
        ("condition", "nodepool", "capacity_type", "image_id", "termination_mode"),
    ),
    Metric(ALLOWED, "gauge", "How many nodes may be disrupted now.", ("nodepool", "reason")),
    Metric(CONSUMING, "gauge", "Nodes that use some of the budgets now.", ("nodepool", "reason")),
)
_CONSOLIDATION: Final = (Method.MULTI_NODE, Method.SINGLE_NODE, None)
_UNCONSOLIDATABLE: Final = frozenset(
    {
        Code.UNKNOWN_TYPE,
        Code.NO_LABELS,
        Code.CONSOLIDATION_OFF,
        Code.WHEN_EMPTY,
        Code.PODS_WITHOUT_PLACE,
        Code.NOT_CHEAPER,
        Code.TOO_MANY,
        Code.SPOT_TO_SPOT,
        Code.MIN_VALUES,
        Code.ON_STARTING_NODE,
        Code.COOLING_DOWN,
        Code.BALANCE,
    }
)


_INVALID_ANNOTATION: Final = "invalid"


class Telling:
    def __init__(self, *, caches: Caches, doors: Doors) -> None:
        self._nodes = caches.of(Node)
        self._claims = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._invalid = caches.of(Pod).index(
            lambda pod: (_INVALID_ANNOTATION,) if pod_states.has_invalid_do_not_disrupt(pod) else ()
        )
        self._pools = caches.of(NodePool)
        self._recorder = doors.recorder
        self._said: dict[str, tuple[Why, ...]] = {}  # by node

    def decided(self, decision: Decision, took_s: float) -> None:
        command = decision.command
        about = _about(command) if command is not None else {"reason": "", "consolidation_type": ""}
        self._recorder.observe(EVALUATION, about, took_s)
        for one in decision.allowances:
            self._allowance(one)
        self._report_invalid_annotations()
        said = {kept.node: tuple(filter(_is_said, kept.whys)) for kept in decision.kept}
        for kept in decision.kept:
            if said[kept.node] != self._said.get(kept.node, ()):
                self._keeps(kept, said[kept.node])
        self._said = {node: whys for node, whys in said.items() if whys}

    def acts(self, command: Command, claims: tuple[NodeClaim, ...]) -> None:
        self._recorder.count(DECISIONS, _about(command) | {"decision": command.action.value})
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
        """Pods on nodes of ours whose do-not-disrupt is ignored (D-6)."""
        for pod in self._invalid.get(_INVALID_ANNOTATION):
            node = self._nodes.get(("", pod.spec.node_name))
            if node is not None and names.NODEPOOL in node.metadata.labels:
                value = pod.metadata.annotations[names.DO_NOT_DISRUPT]
                said = f'{names.DO_NOT_DISRUPT}: "{value}" is ignored: write "true" or a duration, such as 4h'
                self._recorder.event(pod, "InvalidDoNotDisruptAnnotation", said, warning=True)

    def rejected(self, command: Command, invalid: Invalid) -> None:
        kind = consolidation_type(command.method.value)
        self._recorder.count(INVALID, {"consolidation_type": kind, "reason": invalid.kind})
        for name in command.candidates:
            node = self._nodes.get(("", name))
            if node is not None:
                said = f"{invalid.kind}: {invalid.why}"
                self._recorder.event(node, "ConsolidationRejected", said)

    def _allowance(self, one: Allowance) -> None:
        about = {"nodepool": one.pool, "reason": one.reason.value.lower()}
        self._recorder.gauge(CONSUMING, about, one.consumed)
        if one.allowed is not None:
            self._recorder.gauge(ALLOWED, about, one.allowed)
        pool = self._pools.get(("", one.pool))
        if one.allowed == 0 and one.nodes and pool is not None:
            said = f"its budgets let no node go now for being {one.reason.value}"
            self._recorder.event(pool, "DisruptionBlocked", said)

    def _keeps(self, kept: Kept, whys: tuple[Why, ...]) -> None:
        node = self._nodes.get(("", kept.node))
        for why in whys:
            if node is not None:
                self._recorder.event(node, _event(why), why.text)
            if node is not None and why.code is Code.BREAKER:
                for claim in self._claims.get(node.spec.provider_id):
                    self._recorder.event(claim, _event(why), why.text)
                pool = self._pools.get(("", why.subject))
                if pool is not None:
                    self._recorder.event(pool, _event(why), why.text)


def _is_said(why: Why) -> bool:
    return why.code not in commands.SILENT


def _event(why: Why) -> str:
    if why.code is Code.BREAKER:
        return "NodeRepairBlocked"
    is_dear = why.code in _UNCONSOLIDATABLE and why.method in _CONSOLIDATION
    return "Unconsolidatable" if is_dear else "DisruptionBlocked"


def _unhealthy(claim: NodeClaim, condition: str) -> dict[str, str]:
    labels = claim.metadata.labels
    return {
        "condition": re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", condition).lower(),
        "nodepool": labels.get(names.NODEPOOL, ""),
        "capacity_type": labels.get(names.CAPACITY_TYPE, ""),
        "image_id": claim.status.image_id or "",
        "termination_mode": claim_end.termination_mode(claim),
    }


def _about(command: Command) -> dict[str, str]:
    kind = consolidation_type(command.method.value)
    return {"reason": command.reason.value.lower(), "consolidation_type": kind}
