"""Explains one pod: which node it is on or waits for, and why. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.api.reports import Considered, Explanation, Fact, NodeRow, ReservationRow
from holdfast.core.scheduling.output.plan import PlannedClaim, Unplaced
from holdfast.explain import claims
from holdfast.model import wording
from holdfast.model.gangs import Gang
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.state.conversion import gangs, pod_states, provisioning_requests, times

KIND: Final = "pod"
REPLAN: Final = (
    "Holdfast plans again within 10 seconds while a pod is not placed, and at once when a launch fails, a slot becomes "
    "free or a reservation starts."
)
_DAEMON_WHY: Final = (
    "A DaemonSet runs one pod on each node that it selects. The node of this pod has too few free resources, or a taint "
    "that the pod does not tolerate; the events of kube-scheduler name the cause."
)
_DAEMON_CHANGES: Final = (
    "Smaller requests of the DaemonSet, or fewer other pods on the node. New nodes are large enough: Holdfast plans them "
    "with the pods of DaemonSets."
)
# Groups of pending pods that no plan has a reason for.
GATED: Final = "SchedulingGated"
NOT_SEEN: Final = "NotUnschedulable"
DAEMON_SET: Final = "DaemonSet"
NOMINATED: Final = "Nominated"
PLANNED: Final = "Planned"
NOT_PLANNED: Final = "NotPlanned"


@dataclass(frozen=True, slots=True)
class PodInput:
    """What is known about a pod."""

    pod: Pod
    now_s: int
    unplaced: Unplaced | None = None  # of the last plan
    planned_s: int | None = None  # when the last plan was made
    planned: PlannedClaim | None = None  # that the last plan creates for it
    target: str = ""  # the node or NodeClaim that it is nominated to
    claim: NodeClaim | None = None  # of the node that it runs on or is nominated to
    row: NodeRow | None = None  # of that node
    not_reserved: Sequence[Reason] = ()  # by a plan for this pod alone
    reservations: Sequence[ReservationRow] = ()  # that the reasons of the last plan name
    gang: Gang | None = None  # that its labels name


def explain(known: PodInput) -> Explanation:
    pod, meta = known.pod, known.pod.metadata
    answer = Explanation(
        at=known.now_s,
        kind=KIND,
        namespace=meta.namespace,
        name=meta.name,
        what="",
        since=times.epoch_s_or_none(meta.creation_timestamp),
        facts=_facts(known),
    )
    for is_so, explain_it in (
        (pod_states.is_terminal(pod), _ended),
        (pod_states.is_terminating(pod), _terminating),
        (bool(pod.spec.node_name), _bound),
        (bool(pod.spec.scheduling_gates), _gated),
        (known.unplaced is not None, _unplaced),
        (bool(known.target), _nominated),
        (known.planned is not None, _planned),
    ):
        if is_so:
            return explain_it(known, answer)
    return _not_planned(known, answer)


def nodes(number: int) -> str:
    """Where this many pods are."""
    return "a node" if number == 1 else "nodes"


def group(known: PodInput) -> tuple[str, str]:
    """The code and text of the group of a pending pod."""
    pod = known.pod
    if pod.spec.scheduling_gates:
        return GATED, "Scheduling gates keep kube-scheduler from placing the pod."
    if known.unplaced is not None and known.unplaced.reasons:
        first = known.unplaced.reasons[0]
        return str(first.code), first.sentence
    if known.target:
        return NOMINATED, "A node is launching or has capacity; the pod waits to be bound."
    if known.planned is not None:
        return PLANNED, "The last plan launches a node for the pod."
    if pod_states.owner(pod) == pod_states.DAEMON_SET:
        return DAEMON_SET, "No node is launched for pods of a DaemonSet."
    if not pod_states.is_provisionable(pod):
        return NOT_SEEN, "kube-scheduler has not marked the pod as unschedulable."
    return NOT_PLANNED, "The next plan includes the pod."


# --- One function for each state --------------------------------------------------------------------


def _ended(known: PodInput, answer: Explanation) -> Explanation:
    return replace(answer, what=f"The pod has ended: {known.pod.status.phase}.")


def _terminating(known: PodInput, answer: Explanation) -> Explanation:
    deleted_s = times.epoch_s_or_none(known.pod.metadata.deletion_timestamp)
    where = f" on node {known.pod.spec.node_name}" if known.pod.spec.node_name else ""
    return replace(answer, what=f"The pod is terminating{where}.", since=deleted_s)


def _bound(known: PodInput, answer: Explanation) -> Explanation:
    pod, claim = known.pod, known.claim
    what = f"The pod runs on node {pod.spec.node_name}"
    if pod.status.phase != "Running":
        what = f"The pod is bound to node {pod.spec.node_name} and is {pod.status.phase or 'Pending'}"
    if claim is None or known.row is None:
        return replace(answer, what=f"{what}, which Holdfast did not launch.")
    return replace(
        answer,
        what=f"{what}: {claims.offering(known.row)}.",
        why=claims.why(claim),
        considered=claims.considered(claim),
        changes=claims.changes(claim),
        next="`holdfast explain node` shows when its node may be disrupted.",
    )


def _gated(known: PodInput, answer: Explanation) -> Explanation:
    gates = wording.listed([gate.name for gate in known.pod.spec.scheduling_gates])
    return replace(
        answer,
        what="The pod is pending: it has scheduling gates.",
        why=(
            f"The pod has scheduling gates: {gates}. kube-scheduler does not place it, so no node is launched.",
        ),
        changes=("The controller that added the scheduling gates has to remove them.",),
        next="Holdfast plans the pod as soon as it has no scheduling gate and kube-scheduler cannot place it.",
    )


def _unplaced(known: PodInput, answer: Explanation) -> Explanation:
    assert known.unplaced is not None, "checked by the caller"
    reasons = known.unplaced.reasons
    if any(reason.code is ReasonCode.EXCLUDES_NODE_POOLS for reason in reasons):
        what = "The pod is pending, and Holdfast launches no node for it."
    elif known.unplaced.waits_for is not None:
        what = f"The pod is pending: it waits for a slot of {known.unplaced.waits_for}."
    else:
        what = "The pod is pending: Holdfast can launch no node for it now."
    named = {id_ for reason in reasons for id_ in reason.subjects}
    others = [one for one in known.not_reserved if not named.issuperset(one.subjects)]
    return replace(
        answer,
        what=what,
        why=tuple(f"{upper(reason.sentence)}." for reason in reasons),
        considered=(*map(_counts, known.reservations), *claims.of_reasons(others)),
        changes=claims.changes_of(reasons),
        next=_next(known),
    )


def _nominated(known: PodInput, answer: Explanation) -> Explanation:
    claim, row = known.claim, known.row
    if claim is None or row is None:
        return replace(
            answer,
            what=f"The pod is pending: it should schedule on node {known.target}.",
            why=("The node has capacity for it. kube-scheduler has not bound it yet.",),
            next="Holdfast plans the pod again if kube-scheduler does not bind it within 20 seconds.",
        )
    waits = claims.progress(claim)
    state = waits or "its node is ready, and kube-scheduler has not bound the pod yet"
    return replace(
        answer,
        what=f"The pod is pending: it should schedule on NodeClaim {claim.metadata.name}, {claims.offering(row, claim)}.",
        why=(f"{upper(state)}.", *claims.why(claim)),
        considered=claims.considered(claim),
        changes=claims.changes(claim),
        next="If the launch fails, the pod is planned again at once.",
    )


def _planned(known: PodInput, answer: Explanation) -> Explanation:
    claim = known.planned
    assert claim is not None, "checked by the caller"
    paid = f"reserved in {claim.reservation_id}" if claim.reservation_id else claim.capacity_type
    return replace(
        answer,
        what=(
            f"The pod is pending: the plan launches a node for it, {claim.instance_type} in {claim.zone}, {paid}, "
            f"of NodePool {claim.node_pool}."
        ),
        why=("No node has capacity for it.",),
        considered=claims.of_reasons(claim.not_reserved),
        changes=claims.changes_of(claim.not_reserved),
        next="The leader creates the NodeClaim at once.",
    )


def _not_planned(known: PodInput, answer: Explanation) -> Explanation:
    pod = known.pod
    if pod_states.owner(pod) == pod_states.DAEMON_SET:
        return replace(
            answer,
            what="The pod is pending. It belongs to a DaemonSet, and no node is launched for such pods.",
            why=(_DAEMON_WHY,),
            changes=(_DAEMON_CHANGES,),
        )
    if not pod_states.is_provisionable(pod):
        return replace(
            answer,
            what="The pod is pending, and kube-scheduler has not marked it as unschedulable.",
            why=(
                "Holdfast launches nodes for pods whose condition PodScheduled is False with the reason Unschedulable.",
            ),
            changes=(
                "kube-scheduler sets the condition when it cannot place the pod.",
                f"If it does not, check that a scheduler named {pod.spec.scheduler_name} runs.",
            ),
        )
    return replace(
        answer,
        what="The pod is pending, and no plan has included it yet.",
        why=("Pods that arrive together are planned together, after the batch window.",),
        next="The next plan includes it.",
    )


def _counts(row: ReservationRow) -> Considered:
    return Considered(subject=f"reservation {row.id}", text=claims.counts(row))


# --- Parts ------------------------------------------------------------------------------------------


def _next(known: PodInput) -> str:
    assert known.unplaced is not None, "checked by the caller"
    until_s, planned = known.unplaced.waits_until_s, ""
    if known.planned_s is not None:
        planned = f" The last plan was made at {wording.moment(known.planned_s, known.now_s)} UTC."
    if until_s is not None:
        return f"The pod waits until {wording.moment(until_s, known.now_s)} UTC at the latest.{planned}"
    return f"{REPLAN}{planned}"


def _facts(known: PodInput) -> tuple[Fact, ...]:
    pod = known.pod
    owner = next((one for one in pod.metadata.owner_references if one.controller), None)
    found = (
        Fact(name="Phase", value=pod.status.phase or "Pending"),
        Fact(name="Owner", value=f"{owner.kind}/{owner.name}" if owner is not None else ""),
        Fact(name="Node", value=pod.spec.node_name or ""),
        Fact(name="PodGroup", value=wording.listed(gangs.group_of(pod))),
        Fact(name="Gang", value=_gang(known.gang) if known.gang is not None else ""),
        Fact(name="ProvisioningRequest", value=wording.listed(provisioning_requests.consumed_by(pod))),
    )
    return tuple(fact for fact in found if fact.value)


def _gang(gang: Gang) -> str:
    pods = wording.count(len(gang.bound | gang.unbound), "pod")
    return f"{gang.source} {gang.name}: {pods}, {len(gang.bound)} on {nodes(len(gang.bound))}, {gang.least} needed"


def upper(text: str) -> str:
    return text[:1].upper() + text[1:]
