"""Explains gangs: the parts that all of their explanations share, and the gangs of PodGroups and of labels. Pure.

The reasons are those of the last plan. A plan for the gang alone adds the reservations that its pods cannot use.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.reports import Considered, Explanation, Fact, NodeRow, ReservationRow
from holdfast.core.scheduling.gangs import incomplete
from holdfast.explain import claims, inventory, pods
from holdfast.model import wording
from holdfast.model.gangs import JOB_SET, LEADER_WORKER_SET, POD_GROUP, PROVISIONING_REQUEST, Gang
from holdfast.model.reasons import BLOCK, RESERVATION, Reason, ReasonCode
from holdfast.state.conversion import times
from holdfast.state.conversion.run_times import Limit

KIND: Final = "podgroup"
REQUEST: Final = "provisioningrequest"
JOB_SET_KIND: Final = "jobset"
GROUPS_KIND: Final = "leaderworkerset"
NAMES: Final = {
    KIND: POD_GROUP,
    REQUEST: PROVISIONING_REQUEST,
    JOB_SET_KIND: JOB_SET,
    GROUPS_KIND: LEADER_WORKER_SET,
}
WAITING: Final = "waiting"
LAUNCHING: Final = "launching"
BOOKED: Final = "booked"
RUNNING: Final = "running"
_AHEAD_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A node or NodeClaim, and how many pods of the gang it has or is planned to have."""

    row: NodeRow
    claim: NodeClaim | None
    pods: int

    @property
    def is_ready(self) -> bool:
        return self.row.state == inventory.READY


@dataclass(frozen=True, slots=True, kw_only=True)
class GangInput:
    """What is known about a gang, whatever object it comes from."""

    gang: Gang  # nominated members count as members with a node
    now_s: int
    planned_s: int | None = None  # when the last plan was made
    waiting: Sequence[Gang] = ()  # all gangs that wait, sorted by rank
    reasons: Sequence[Reason] = ()  # why the last plan leaves it out
    planned: int = 0  # pods for which the last plan creates NodeClaims
    not_reserved: Sequence[Reason] = ()  # by a plan for this gang alone
    reservations: Sequence[ReservationRow] = ()  # that the reasons name, and that the nodes use
    nodes: Sequence[NodeUse] = ()
    limits: Sequence[Limit] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInput:
    """A PodGroup, or the gang of a JobSet or of a group of a LeaderWorkerSet."""

    known: GangInput
    kind: str = KIND
    namespace: str
    name: str
    exists: bool = True
    created_s: int | None = None
    is_gang: bool = True  # False: the policy of the PodGroup is basic
    bound: int = 0  # pods on nodes
    ready: int = 0  # pods that have a node, or that kube-scheduler marked as unschedulable
    waiting_since_s: int | None = None  # the creation of the oldest pod without a node
    bound_since_s: int | None = None  # since when enough pods are on nodes

    @property
    def noun(self) -> str:
        return "group" if self.kind == GROUPS_KIND else NAMES[self.kind]


def explain(one: GroupInput) -> Explanation:
    known = one.known
    answer = Explanation(
        at=known.now_s,
        kind=one.kind,
        namespace=one.namespace,
        name=one.name,
        what="",
        since=one.created_s if one.waiting_since_s is None else one.waiting_since_s,
        facts=(_members(one), *facts(known)),
    )
    return {WAITING: _waiting, LAUNCHING: _launching, RUNNING: _running}[state_of(one)](one, answer)


def _waiting(one: GroupInput, answer: Explanation) -> Explanation:
    known, gang = one.known, one.known.gang
    exist = len(gang.bound | gang.unbound)
    if not one.exists:
        names = "names" if exist == 1 else "name"
        return replace(
            answer,
            what=f"{wording.count(exist, 'pod')} {names} a PodGroup that does not exist.",
            why=lines(known, (incomplete(gang, one.ready),)),
            changes=(f"The PodGroup {gang.name}.",),
        )
    is_incomplete = not known.reasons and gang.least is not None and one.ready < gang.least
    reasons = (incomplete(gang, one.ready),) if is_incomplete else known.reasons
    return replace(
        answer,
        what=(
            f"The {one.noun} waits: it has {wording.count(exist, 'pod')}, {len(gang.bound)} with a node, and needs "
            f"{gang.least}."
        ),
        why=lines(known, reasons),
        considered=considered(known),
        changes=claims.changes_of(reasons),
        next=_INCOMPLETE_NEXT if is_incomplete else next_plan(known),
    )


def _launching(one: GroupInput, answer: Explanation) -> Explanation:
    gang = one.known.gang
    nominated = len(gang.bound) - one.bound
    return replace(
        answer,
        what=(
            f"The {one.noun} waits for nodes: it needs {wording.count(gang.least or 0, 'pod')}; "
            f"{wording.some(one.bound)} {wording.are(one.bound)} on {pods.nodes(one.bound)}, and {nominated} should schedule on "
            f"{pods.nodes(nominated)}."
        ),
        why=tuple(progress(one.known)),
        considered=considered(one.known),
        next="If a launch fails, its pods are planned again at once.",
    )


def _running(one: GroupInput, answer: Explanation) -> Explanation:
    number = f"{wording.count(one.bound, 'pod')} of it {wording.are(one.bound)} on {pods.nodes(one.bound)}"
    if not one.is_gang:
        what = f"The PodGroup is no gang, and {number}."
        return replace(answer, what=what, why=(_BASIC,), since=one.created_s)
    return replace(
        answer,
        what=f"The {one.noun} runs: {number}, and it needs {one.known.gang.least}.",
        since=answer.since if one.bound_since_s is None else one.bound_since_s,
    )


_INCOMPLETE_NEXT: Final = (
    "Holdfast plans its pods as soon as enough of them exist and kube-scheduler marked them as unschedulable."
)
_BASIC: Final = (
    "Its scheduling policy is basic, so it is no gang: Holdfast plans its pods like pods without a PodGroup."
)


def state_of(one: GroupInput) -> str:
    gang = one.known.gang
    if not one.is_gang or (gang.least is not None and one.bound >= gang.least):
        return RUNNING
    return WAITING if gang.is_waiting else LAUNCHING


def _members(one: GroupInput) -> Fact:
    gang = one.known.gang
    exist, nominated = len(gang.bound | gang.unbound), len(gang.bound) - one.bound
    parts = [f"{exist} exist{'s' if exist == 1 else ''}", f"{one.bound} on {pods.nodes(one.bound)}"]
    if nominated:
        parts.append(f"{nominated} should schedule on a node")
    if one.is_gang and gang.least is not None:
        parts.append(f"{gang.least} needed")
    return Fact(name="Pods", value=", ".join(parts))


# --- Parts that explanations share ----------------------------------------------------------------------


def lines(known: GangInput, reasons: Sequence[Reason]) -> tuple[str, ...]:
    """Why it waits."""
    if reasons:
        return tuple(f"{pods.upper(reason.sentence)}." for reason in reasons)
    if known.planned:
        return (f"The plan launches nodes for {wording.count(known.planned, 'pod')} of it.",)
    return ("The next plan includes its pods.",)


def summary(known: GangInput, why: Sequence[str]) -> str:
    """Why it waits, with the start of the reservation that it waits for."""
    is_later = known.gang.is_waiting and ReasonCode.NOT_STARTED in (one.code for one in known.reasons[1:2])
    return " ".join(why[: 2 if is_later else 1])


def next_plan(known: GangInput) -> str:
    if known.planned_s is None:
        return pods.REPLAN
    return f"{pods.REPLAN} The last plan was made at {wording.moment(known.planned_s, known.now_s)} UTC."


def considered(known: GangInput) -> tuple[Considered, ...]:
    """Reservations with their slots, their dates and why they are not used. Once nodes are launched: why these nodes are
    not in reservations."""
    if known.gang.is_waiting:
        named = {id_ for reason in known.reasons for id_ in reason.subjects}
        others = [one for one in known.not_reserved if not named.issuperset(one.subjects)]
        return (*dict.fromkeys(_own(known)), *claims.of_reasons(others))
    return tuple(
        dict.fromkeys(
            found for use in known.nodes if use.claim is not None for found in claims.considered(use.claim)
        )
    )


def _own(known: GangInput) -> Iterator[Considered]:
    """The reservations that the last plan names. Those without a row are listed together."""
    rows = {row.id: row for row in known.reservations}
    for reason in known.reasons:
        if reason.kind not in (RESERVATION, BLOCK):
            continue
        for id_ in reason.subjects:
            if id_ in rows:
                text = f"{reason.text}; {slots(rows[id_], known.now_s, reason.code)}"
                yield Considered(subject=f"{reason.kind} {id_}", text=text)
        left = tuple(id_ for id_ in reason.subjects if id_ not in rows)
        if left:
            yield from claims.of_reasons((dataclasses.replace(reason, subjects=left),))


def slots(row: ReservationRow, now_s: int, code: object = None) -> str:
    """The slots of a reservation, and its dates. `code`: of a reason that names some of them already."""
    names_start = code is ReasonCode.NOT_STARTED
    names_drain = names_start or code in (ReasonCode.ENDS_TOO_SOON, ReasonCode.DRAINING)
    dates = [
        f"{text} {wording.moment(at_s, now_s)} UTC"
        for text, at_s in (
            ("it starts at", row.starts if row.window == "upcoming" and not names_start else None),
            ("its nodes are drained from", None if names_drain else row.drains),
            ("it ends at", row.ends),
        )
        if at_s is not None
    ]
    return "; ".join((*(() if names_start else (claims.counts(row),)), *dates))


def progress(known: GangInput) -> Iterator[str]:
    """What the nodes that are not ready wait for."""
    found = Counter(
        claims.progress(use.claim) for use in known.nodes if use.claim is not None and not use.is_ready
    )
    for text, count in sorted(found.items()):
        if text:
            yield f"{wording.count(count, 'node')}: {text}."
    if not any(found):
        yield "Its nodes are ready, and kube-scheduler has not bound all of its pods yet."


def facts(known: GangInput) -> Iterator[Fact]:
    gang = known.gang
    keys = [one.key for one in known.waiting]
    if gang.key in keys and gang.least is not None:
        place = keys.index(gang.key)
        text = f"{place + 1} of {wording.count(len(keys), 'waiting gang')}, with priority {gang.priority}"
        ahead = [f"{one.source} {one.name}" for one in known.waiting[:place]]
        after = f"; after {wording.listed(ahead, shown=_AHEAD_MAX)}" if ahead else ""
        yield Fact(name="Rank", value=f"{text}, since {times.text(gang.since_s)}{after}")
    if gang.together is not None:
        yield Fact(name="Together", value=f"all pods need the same {gang.together}")
    yield Fact(name="Run time", value=run_time(known.limits, known.now_s))
    if known.nodes:
        yield nodes_fact(known.nodes)
    rows = {row.id: row for row in known.reservations}
    used: Counter[str] = Counter()
    for use in known.nodes:
        used[use.row.reservation] += use.pods
    for id_, count in sorted(used.items()):
        if id_ in rows:
            yield Fact(
                name=f"In {id_}", value=f"{wording.count(count, 'pod')}; {slots(rows[id_], known.now_s)}"
            )


def nodes_fact(nodes: Sequence[NodeUse]) -> Fact:
    return Fact(name="Nodes", value=wording.listed([_node(use) for use in nodes]))


def _node(use: NodeUse) -> str:
    state = "" if use.is_ready else f", {use.row.state}"
    return f"{use.row.name} ({wording.count(use.pods, 'pod')}{state})"


def run_time(limits: Sequence[Limit], now_s: int) -> str:
    """The limits that count: the least length and the first end, with their fields."""
    lengths = [(one.lasts_s, one.source) for one in limits if one.lasts_s is not None]
    ends = [(one.end_s, one.source) for one in limits if one.end_s is not None]
    parts = []
    if lengths:
        lasts_s, source = min(lengths)
        parts.append(f"at most {wording.duration(lasts_s)} ({source})")
    if ends:
        end_s, source = min(ends)
        parts.append(f"until {wording.moment(end_s, now_s)} UTC ({source})")
    return ", ".join(parts) or "not stated, so blocks that end soon are used too"
