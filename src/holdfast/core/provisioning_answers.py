"""What Holdfast answers to a ProvisioningRequest: the conditions that it sets, from its state and the last plan.

The conditions and their reasons are those of Cluster Autoscaler (PR-18), since Kueue and users know them. Differences:
Provisioned is True only when every pod has capacity on a ready node, and BookingExpired is True as soon as the capacity is not
held: Kueue starts a workload on an old answer otherwise (PR-35).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from holdfast.model import wording
from holdfast.model.reasons import Reason, ReasonCode, sentences

BOOKING_S: Final = 600  # from Provisioned on (PR-19)
VALID_FOR_S: Final = 7 * 24 * 3600  # how long a request waits for capacity without a time of its own (PR-19)
VALID_AFTER_START_S: Final = 24 * 3600  # the same, from the start of a reservation that suits its pods
TEMPLATE_WAIT_S: Final = 10  # for a template, or another object: it may be created after the request (PR-8)
READY_S: Final = 30 * 60  # after which a node is late: 15 minutes to register, and as many to become ready
ACCEPTED, PROVISIONED, FAILED, BOOKING_EXPIRED = "Accepted", "Provisioned", "Failed", "BookingExpired"
_REASONS_MAX: Final = 4  # in one message
# Why a reservation that suits pods has no slot for them now.
_LATER: Final = (
    ReasonCode.NOT_STARTED,
    ReasonCode.FULL,
    ReasonCode.HELD,
    ReasonCode.UNHEALTHY,
    ReasonCode.WAITS_FOR_SLOT,
)


class Condition(NamedTuple):
    """A condition to set."""

    type: str
    status: bool
    reason: str
    message: str


class Start(NamedTuple):
    """When a reservation starts that suits the pods of a request, or when it started."""

    at_s: int
    reservation: str  # its kind and id


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
    late: tuple[str, ...] = ()  # those of these nodes that are not ready `READY_S` after their launch
    provisioned_s: int | None = None  # since when it is provisioned
    launches: bool = True  # False: only existing nodes count
    retries: bool = True
    valid_for_s: int | None = None
    missing: tuple[str, ...] = ()  # templates that do not exist
    problems: tuple[Reason, ...] = ()
    may_end: bool = False  # whether the problems are about other objects
    reasons: tuple[Reason, ...] = ()  # why the last plan has no capacity for all of its pods
    starts: tuple[Start, ...] = ()  # of the reservations that these reasons name
    has_quota: bool = True  # False: Kueue took the quota of its Workload back
    is_open: bool = False  # other pods may use the capacity of the booking

    @property
    def is_launching(self) -> bool:
        """Whether nodes for all of its pods are being launched: it does not expire, since they would be launched for
        nothing. A node that is late may never be ready."""
        return self.starting > 0 and not self.reasons and not self.late


def answer(state: RequestState, now_s: int) -> Sequence[Condition]:
    """The conditions to set, in this order."""
    accepted = Condition(ACCEPTED, True, ACCEPTED, "Holdfast answers this request.")
    return (*(() if state.accepted else (accepted,)), *_decided(state, now_s))


def next_s(state: RequestState) -> int | None:
    """When the answer changes although nothing else does; None: never."""
    if state.provisioned_s is not None:
        return state.provisioned_s + BOOKING_S
    if state.missing or state.may_end:
        return state.created_s + TEMPLATE_WAIT_S
    return None if state.is_launching else _valid_until_s(state)


def starts(reasons: Sequence[Reason], start_s: Mapping[str, int | None]) -> tuple[Start, ...]:
    """The starts of reservations that suit the pods of a request, the first of them first. `start_s`: by id."""
    found = {
        Start(at_s, f"{one.kind} {id_}")
        for one in reasons
        if one.code in _LATER
        for id_ in one.subjects
        if (at_s := start_s.get(id_)) is not None
    }
    return tuple(sorted(found))


def valid_until_s(created_s: int, valid_for_s: int | None, starts: Sequence[Start]) -> int:
    """How long a request waits for capacity. One without a time of its own also waits for reservations that suit its
    pods: they may start weeks later."""
    if valid_for_s is not None:
        return created_s + valid_for_s
    return max((created_s + VALID_FOR_S, *(one.at_s + VALID_AFTER_START_S for one in starts)))


def missed_start(until_s: int, starts: Sequence[Start], now_s: int) -> str:
    """`, before block cr-1 starts` if the request does not wait for any of the reservations that start later."""
    first = _first_later(starts, now_s)
    return f", before {first.reservation} starts" if first is not None and until_s <= first.at_s else ""


def _first_later(starts: Sequence[Start], now_s: int) -> Start | None:
    return next((one for one in starts if one.at_s > now_s), None)


def _decided(state: RequestState, now_s: int) -> Sequence[Condition]:
    if state.provisioned_s is not None:
        return _booked(state, now_s)
    if state.problems or state.missing:
        return _without_pods(state, now_s)
    if state.has_quota and len(state.located) + state.bound >= state.pods:
        return (_provisioned(state),)
    until_s = _valid_until_s(state)
    if now_s >= until_s and not state.is_launching:
        text = f"There was no capacity for {wording.duration(until_s - state.created_s)}."
        if state.late and not state.reasons:
            text = _late(state.late)
        return (Condition(FAILED, True, "Expired", text),)
    if not state.has_quota:
        text = "The Workload of the request has no quota, so no capacity is planned for its pods."
        return (Condition(PROVISIONED, False, "CapacityIsNotFound", text),)
    if state.reasons:
        text = f"{_listed(state.reasons)}."
        if not state.retries:
            return (Condition(FAILED, True, "CapacityIsNotFound", text),)
        text += _at_start(state, until_s, now_s)
        return (Condition(PROVISIONED, False, "CapacityIsNotFound", text),)
    if state.starting:
        return (Condition(PROVISIONED, False, "CapacityIsNotFound", _launching(state)),)
    return ()


def _without_pods(state: RequestState, now_s: int) -> Sequence[Condition]:
    """The caches of different kinds differ by seconds, and users create objects in any order."""
    if (state.missing or state.may_end) and now_s < state.created_s + TEMPLATE_WAIT_S:
        return ()
    text = f"The pods of the request cannot be planned: {_listed(state.problems)}."
    if state.missing:
        text = (
            f"{wording.plural('PodTemplate', len(state.missing))} {wording.listed(state.missing)} not found."
        )
    return (Condition(FAILED, True, "FailedToCreatePods", text),)


def _at_start(state: RequestState, until_s: int, now_s: int) -> str:
    """What happens when the next reservation starts that suits the pods."""
    first = _first_later(state.starts, now_s)
    if first is None:
        return ""
    missed = missed_start(until_s, state.starts, now_s)
    if missed:
        return f" The request waits until {wording.moment(until_s, now_s)} (UTC){missed}."
    return (
        f" The request is planned again when {first.reservation} starts, and its nodes are launched if all of its pods "
        "fit."
    )


def _late(nodes: Sequence[str]) -> str:
    found = f"{wording.plural('Node', len(nodes))} {wording.listed(nodes)} {wording.are(len(nodes))}"
    return f"{found} not ready {READY_S // 60} minutes after the launch."


def _launching(state: RequestState) -> str:
    ready = len(state.located) + state.bound
    if state.late:
        return _late(state.late)
    if state.pods == 1:
        return "The node of the pod is being launched."
    if not ready:
        return f"The nodes of {state.pods} pods are being launched."
    nodes = "a ready node" if ready == 1 else "ready nodes"
    capacity = f"{ready} of {state.pods} pods {wording.have(ready)} capacity on {nodes}"
    return f"{capacity}; the other nodes are being launched."


def _provisioned(state: RequestState) -> Condition:
    nodes = wording.count(len(set(state.located.values())), "node")
    pods = f"{wording.count(state.pods, 'pod')} {wording.have(state.pods)}"
    text = f"{pods} capacity on {nodes}, for {BOOKING_S // 60} minutes."
    if state.is_open:
        text += " No taint of the nodes keeps other pods out, so other pods may use the capacity."
    return Condition(
        PROVISIONED, True, "CapacityIsProvisioned" if state.launches else "CapacityIsFound", text
    )


def _booked(state: RequestState, now_s: int) -> Sequence[Condition]:
    assert state.provisioned_s is not None
    if state.bound >= state.pods:
        all_pods = (
            "The pod of the request is" if state.pods == 1 else f"All {state.pods} pods of the request are"
        )
        text = f"{all_pods} scheduled."
        return (Condition(BOOKING_EXPIRED, True, "CapacityBookingConsumed", text),)
    if not state.has_quota:
        text = "The Workload of the request lost its quota, so the capacity is not held any more."
        return (Condition(BOOKING_EXPIRED, True, "WorkloadEvicted", text),)
    if now_s >= state.provisioned_s + BOOKING_S:
        were = "was" if state.bound <= 1 else "were"
        pods = f"{wording.some(state.bound).capitalize()} of {state.pods} pods {were}"
        text = f"{'The pod was not' if state.pods == 1 else pods} scheduled within {BOOKING_S // 60} minutes."
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


def _valid_until_s(state: RequestState) -> int:
    return valid_until_s(state.created_s, state.valid_for_s, state.starts)


def _listed(reasons: Sequence[Reason]) -> str:
    text = sentences(reasons[:_REASONS_MAX])
    return f"{text}; and other causes" if len(reasons) > _REASONS_MAX else text
