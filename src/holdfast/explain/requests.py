"""Explains one ProvisioningRequest: whether it waits, has capacity, failed or expired, and why. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from holdfast.api import conditions
from holdfast.api.conditions import Condition
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.api.reports import Explanation, Fact
from holdfast.core import provisioning_answers
from holdfast.core.provisioning_answers import (
    BOOKING_EXPIRED,
    BOOKING_S,
    FAILED,
    PROVISIONED,
    TEMPLATE_WAIT_S,
)
from holdfast.explain import claims, gangs
from holdfast.explain.gangs import GangInput, NodeUse
from holdfast.model import wording
from holdfast.state.conversion import provisioning_requests, times

KIND: Final = gangs.REQUEST
_ENDED: Final = "Holdfast does not answer this request again. A new request is answered."


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSetUse:
    """The pods of a podSet."""

    template: str
    count: int
    bound: int = 0  # pods that were bound
    ready: int = 0  # without a pod yet, with capacity on ready nodes
    starting: int = 0  # the same on nodes that are not ready
    is_live: bool = False  # False: the request ended, and its pods are only counted

    @property
    def text(self) -> str:
        if not self.is_live:
            return f"{wording.count(self.count, 'pod')} of PodTemplate {self.template}"
        parts = [
            f"{number} {state}"
            for number, state in (
                (self.bound, "scheduled"),
                (self.ready, "with capacity on ready nodes"),
                (self.starting, "with capacity on nodes that are not ready"),
                (self.count - self.bound - self.ready - self.starting, "without capacity"),
            )
            if number
        ]
        return f"{wording.count(self.count, 'pod')} of PodTemplate {self.template}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestInput:
    known: GangInput | None  # None: the request failed, expired or is not for Holdfast
    request: ProvisioningRequest
    now_s: int
    is_ours: bool = True
    problems: Sequence[str] = ()  # why its pods cannot be planned
    has_quota: bool = True  # False: Kueue took the quota of its Workload back
    pod_sets: Sequence[PodSetUse] = ()
    workload: str = ""  # of Kueue, with its namespace
    nodes: Sequence[NodeUse] = ()  # of the pods that use it

    @property
    def pods(self) -> str:
        return wording.count(sum(one.count for one in self.request.spec.pod_sets), "pod")


def state_of(one: RequestInput) -> str:
    """Of a request that is not ended."""
    assert one.known is not None, "checked by the caller"
    if provisioning_requests.is_provisioned(one.request):
        return gangs.BOOKED
    if one.problems:
        return gangs.WAITING
    return gangs.WAITING if one.known.gang.is_waiting else gangs.LAUNCHING


def explain(one: RequestInput) -> Explanation:
    request = one.request
    answer = Explanation(
        at=one.now_s,
        kind=KIND,
        namespace=request.metadata.namespace,
        name=request.metadata.name,
        what="",
        since=times.epoch_s_or_none(request.metadata.creation_timestamp),
        facts=(*_request_facts(one), *(gangs.facts(one.known) if one.known is not None else ())),
    )
    if request.metadata.deletion_timestamp is not None:
        deleted_s = times.epoch_s(request.metadata.deletion_timestamp)
        return replace(answer, what="The ProvisioningRequest is being deleted.", since=deleted_s)
    if not one.is_ours:
        return _not_ours(one, answer)
    for type_, text in (
        (FAILED, "The ProvisioningRequest failed"),
        (BOOKING_EXPIRED, "The booking of the ProvisioningRequest ended"),
    ):
        if conditions.holds(request.status.conditions, type_):
            found = conditions.find(request.status.conditions, type_)
            assert found is not None, "it holds"
            return replace(
                answer,
                what=f"{text}: {found.reason}.",
                since=times.epoch_s(found.last_transition_time),
                why=_message(found),
                next=_ENDED,
            )
    assert one.known is not None, "a request that is not ended is live"
    explain_it = {gangs.BOOKED: _booked, gangs.LAUNCHING: _launching, gangs.WAITING: _waiting}
    return explain_it[state_of(one)](one, one.known, answer)


def _not_ours(one: RequestInput, answer: Explanation) -> Explanation:
    class_name = one.request.spec.provisioning_class_name
    is_standard = class_name in (provisioning_requests.CHECK_CAPACITY, provisioning_requests.ATOMIC)
    setting = (
        "The setting --provisioning-requests, and the parameter processorInstance not set to another program."
    )
    return replace(
        answer,
        what=f"Holdfast does not answer the ProvisioningRequest: its class is {class_name or 'not set'}.",
        changes=(
            *((setting,) if is_standard else ()),
            f"The class {provisioning_requests.OWN}, which Holdfast always answers.",
        ),
    )


def _booked(one: RequestInput, known: GangInput, answer: Explanation) -> Explanation:
    found = _condition(one)
    assert found is not None, "it is provisioned"
    since_s = times.epoch_s(found.last_transition_time)
    until = f"{wording.moment(since_s + BOOKING_S, one.now_s)} UTC"
    return replace(
        answer,
        what=f"The ProvisioningRequest is provisioned: the capacity for its {one.pods} is booked until {until}.",
        since=since_s,
        why=_message(found),
        considered=gangs.considered(known),
        next=f"The booking ends when all of its pods are scheduled, at {until} at the latest.",
    )


def _launching(one: RequestInput, known: GangInput, answer: Explanation) -> Explanation:
    return replace(
        answer,
        what=f"The ProvisioningRequest waits for nodes that are being launched for its {one.pods}.",
        why=(*_message(_condition(one)), *gangs.progress(known)),
        considered=gangs.considered(known),
        next="It is provisioned when the last node is ready. If a launch fails, it is planned again at once.",
    )


def _waiting(one: RequestInput, known: GangInput, answer: Explanation) -> Explanation:
    if one.problems:
        return replace(
            answer,
            what="The ProvisioningRequest waits: its pods cannot be planned.",
            why=tuple(one.problems),
            next=f"The request fails if this does not change within {TEMPLATE_WAIT_S} seconds after its creation.",
        )
    if not one.has_quota:
        return replace(
            answer,
            what=f"The ProvisioningRequest is not planned: its Workload has no quota for its {one.pods}.",
            changes=(f"Quota of Kueue for Workload {one.workload}.",),
            next=f"{_until(one, known, answer.since)}Holdfast plans it as soon as its Workload has quota.",
        )
    found, has_plan = _condition(one), bool(known.reasons or known.planned)
    since_s = times.epoch_s(found.last_transition_time) if found is not None else answer.since
    return replace(
        answer,
        what=f"The ProvisioningRequest waits for capacity for its {one.pods}.",
        since=since_s,
        why=gangs.lines(known, known.reasons) if has_plan or found is None else _message(found),
        considered=gangs.considered(known),
        changes=claims.changes_of(known.reasons),
        next=f"{_until(one, known, answer.since)}{gangs.next_plan(known)}",
    )


def _until(one: RequestInput, known: GangInput, created_s: int | None) -> str:
    """How long a request waits."""
    if created_s is None:
        return ""
    starts = provisioning_answers.starts(known.reasons, {row.id: row.starts for row in known.reservations})
    valid_for_s = provisioning_requests.valid_for_s(one.request)
    until_s = provisioning_answers.valid_until_s(created_s, valid_for_s, starts)
    missed = provisioning_answers.missed_start(until_s, starts, one.now_s)
    return f"The request waits until {wording.moment(until_s, one.now_s)} UTC at the latest{missed}. "


def _condition(one: RequestInput) -> Condition | None:
    return conditions.find(one.request.status.conditions, PROVISIONED)


def _message(found: Condition | None) -> tuple[str, ...]:
    return (found.message,) if found is not None and found.message else ()


def _request_facts(one: RequestInput) -> list[Fact]:
    found = [Fact(name="Class", value=one.request.spec.provisioning_class_name)]
    if one.workload:
        found.append(Fact(name="Workload", value=one.workload))
    found += [Fact(name=f"PodSet {number}", value=use.text) for number, use in enumerate(one.pod_sets)]
    if one.known is None and one.nodes:
        found.append(gangs.nodes_fact(one.nodes))
    return found
