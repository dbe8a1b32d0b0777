"""What Holdfast answers to a ProvisioningRequest: the conditions that it sets, from its state and the last plan.

The conditions and their reasons are those of Cluster Autoscaler (PR-18), since Kueue and users know them. Differences:
Provisioned is True only when every pod has capacity on a ready node, and BookingExpired is True as soon as the capacity is not
held: Kueue starts a workload on an old answer otherwise (PR-35).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.model import wording
from holdfast.model.reasons import Reason, sentences

BOOKING_S: Final = 600  # from Provisioned on (PR-19)
VALID_FOR_S: Final = 7 * 24 * 3600  # how long a request waits for capacity without a time of its own (PR-19)
TEMPLATE_WAIT_S: Final = 10  # for a template that does not exist: it may be created after the request (PR-8)
ACCEPTED, PROVISIONED, FAILED, BOOKING_EXPIRED = "Accepted", "Provisioned", "Failed", "BookingExpired"
_REASONS_MAX: Final = 4  # in one message


class Condition(NamedTuple):
    """A condition to set."""

    type: str
    status: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestState:
    """A request that neither failed nor expired, and where its virtual pods are."""

    created_s: int
    accepted: bool = True
    pods: int  # how many the request has
    bound: int = 0  # how many of them were bound
    located: Mapping[str, str]  # the virtual pods with capacity on ready nodes, and the node
    reservation_id: str | None = None  # of all of these nodes
    starting: int = 0  # virtual pods with capacity on nodes that are not ready
    provisioned_s: int | None = None  # since when it is provisioned
    launches: bool = True  # False: only existing nodes count
    retries: bool = True
    valid_for_s: int | None = None
    missing: tuple[str, ...] = ()  # templates that do not exist
    problems: tuple[Reason, ...] = ()
    reasons: tuple[Reason, ...] = ()  # why the last plan has no capacity for all of its pods
    has_quota: bool = True  # False: Kueue took the quota of its Workload back
    is_open: bool = False  # other pods may use the capacity of the booking


def answer(state: RequestState, now_s: int) -> Sequence[Condition]:
    """The conditions to set, in this order."""
    accepted = Condition(ACCEPTED, True, ACCEPTED, "Holdfast answers this request.")
    return (*(() if state.accepted else (accepted,)), *_decided(state, now_s))


def next_s(state: RequestState) -> int:
    """When the answer changes although nothing else does."""
    if state.provisioned_s is not None:
        return state.provisioned_s + BOOKING_S
    if state.missing:
        return state.created_s + TEMPLATE_WAIT_S
    return state.created_s + _valid_for_s(state)


def _decided(state: RequestState, now_s: int) -> Sequence[Condition]:
    if state.provisioned_s is not None:
        return _booked(state, now_s)
    if state.problems:
        text = f"The pods of the request cannot be planned: {_listed(state.problems)}."
        return (Condition(FAILED, True, "FailedToCreatePods", text),)
    if state.missing:
        if now_s < state.created_s + TEMPLATE_WAIT_S:
            return ()
        text = (
            f"{wording.plural('PodTemplate', len(state.missing))} {wording.listed(state.missing)} not found."
        )
        return (Condition(FAILED, True, "FailedToCreatePods", text),)
    if state.has_quota and len(state.located) + state.bound >= state.pods:
        return (_provisioned(state),)
    if now_s >= state.created_s + _valid_for_s(state):
        text = f"There was no capacity for {wording.duration(_valid_for_s(state))}."
        return (Condition(FAILED, True, "Expired", text),)
    if not state.has_quota:
        text = "The Workload of the request has no quota, so no capacity is planned for its pods."
        return (Condition(PROVISIONED, False, "CapacityIsNotFound", text),)
    if state.reasons:
        text = f"{_listed(state.reasons)}."
        if not state.retries:
            return (Condition(FAILED, True, "CapacityIsNotFound", text),)
        return (Condition(PROVISIONED, False, "CapacityIsNotFound", text),)
    if state.starting:
        ready = len(state.located) + state.bound
        text = (
            f"{ready} of {state.pods} pods have capacity on ready nodes; the other nodes are being launched."
        )
        return (Condition(PROVISIONED, False, "CapacityIsNotFound", text),)
    return ()


def _provisioned(state: RequestState) -> Condition:
    nodes = len(set(state.located.values()))
    text = f"{state.pods} pods have capacity on {nodes} {wording.plural('node', nodes)}, for {BOOKING_S // 60} minutes."
    if state.is_open:
        text += " No taint of the nodes keeps other pods out, so other pods may use the capacity."
    return Condition(
        PROVISIONED, True, "CapacityIsProvisioned" if state.launches else "CapacityIsFound", text
    )


def _booked(state: RequestState, now_s: int) -> Sequence[Condition]:
    assert state.provisioned_s is not None
    if state.bound >= state.pods:
        text = f"All {state.pods} pods of the request are scheduled."
        return (Condition(BOOKING_EXPIRED, True, "CapacityBookingConsumed", text),)
    if not state.has_quota:
        text = "The Workload of the request lost its quota, so the capacity is not held any more."
        return (Condition(BOOKING_EXPIRED, True, "WorkloadEvicted", text),)
    if now_s >= state.provisioned_s + BOOKING_S:
        text = f"{state.bound} of {state.pods} pods were scheduled within {BOOKING_S // 60} minutes."
        return (Condition(BOOKING_EXPIRED, True, "CapacityReservationTimeExpired", text),)
    if state.problems or state.missing:
        text = (
            f"The pods of the request cannot be planned any more: {_listed(state.problems) or 'no template'}."
        )
        return (Condition(BOOKING_EXPIRED, True, "CapacityIsNotFound", text),)
    if state.reasons:
        text = f"The capacity is not held any more: {_listed(state.reasons)}."
        return (Condition(BOOKING_EXPIRED, True, "CapacityIsNotFound", text),)
    return ()


def _valid_for_s(state: RequestState) -> int:
    return VALID_FOR_S if state.valid_for_s is None else state.valid_for_s


def _listed(reasons: Sequence[Reason]) -> str:
    text = sentences(reasons[:_REASONS_MAX])
    return f"{text}; and other causes" if len(reasons) > _REASONS_MAX else text
