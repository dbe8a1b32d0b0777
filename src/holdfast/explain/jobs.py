"""Explains a Job, a JobSet or a LeaderWorkerSet: its pods, and the gangs and requests that its pods start with. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.pods import Pod
from holdfast.api.reports import Considered, Explanation, Fact
from holdfast.api.workloads import JobTimes
from holdfast.explain import claims, gangs, pods
from holdfast.explain.pods import PodInput
from holdfast.model import wording
from holdfast.model.reasons import ReasonCode
from holdfast.state.conversion import pod_states, times
from holdfast.state.conversion.run_times import Limit

KIND: Final = "job"
_EXAMPLES_MAX: Final = 3
# The gang of the pods has these reasons.
_OF_GANG: Final = (ReasonCode.GANG_INCOMPLETE, ReasonCode.GANG_DOES_NOT_FIT, ReasonCode.USES_REQUEST)

_Groups = Sequence[tuple[tuple[str, str], Sequence[PodInput]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    kind: str = KIND
    noun: str = "Job"
    namespace: str
    name: str
    now_s: int
    job: JobTimes | None = None  # None: Jobs are not read, or it is deleted and has pods
    pods: Sequence[PodInput] = ()
    workload: str = ""  # of Kueue, with its namespace
    gangs: Sequence[Explanation] = ()  # of the gangs and ProvisioningRequests that its pods start with
    limits: Sequence[Limit] = ()  # of the run time


def of_job(pod: Pod) -> tuple[str, ...]:
    """An index function: namespace/name of the Job that owns the pod."""
    return tuple(
        f"{pod.metadata.namespace}/{owner.name}"
        for owner in pod.metadata.owner_references
        if owner.kind == "Job" and owner.api_version.startswith("batch/")
    )


def explain(known: JobInput) -> Explanation:
    ended = [one for one in known.pods if pod_states.is_terminal(one.pod)]
    waiting = [one for one in known.pods if not one.pod.spec.node_name and pod_states.is_active(one.pod)]
    bound = len(known.pods) - len(ended) - len(waiting)
    what = f"The {known.noun} has {wording.count(len(known.pods), 'pod')}: {bound} on {pods.nodes(bound)}, {len(waiting)} pending, {len(ended)} ended."
    suspended = _suspended(known)
    if not known.pods:
        what = f"The {known.noun} has no pods{': it is suspended' if suspended else ''}."
    groups = _grouped(waiting, known.gangs)
    reasons = [reason for one in waiting if one.unplaced is not None for reason in one.unplaced.reasons]
    changed = claims.changes_of(reasons) if groups else ()
    return Explanation(
        at=known.now_s,
        kind=known.kind,
        namespace=known.namespace,
        name=known.name,
        what=what,
        since=_since_s(known),
        why=(
            *suspended,
            *(f"{wording.count(len(found), 'pod')}: {text}" for (_, text), found in groups),
            *(line for one in known.gangs for line in _lines(one)),
        ),
        considered=(
            *(
                Considered(subject=f"pod {name}", text=text)
                for (_, text), found in groups
                for name in sorted(one.pod.metadata.name for one in found)[:_EXAMPLES_MAX]
            ),
            *dict.fromkeys(found for one in known.gangs for found in one.considered),
        ),
        changes=tuple(dict.fromkeys((*changed, *(text for one in known.gangs for text in one.changes)))),
        next=next((one.next for one in known.gangs if one.next), pods.REPLAN if waiting else ""),
        facts=tuple(_facts(known)),
    )


def _grouped(waiting: Sequence[PodInput], of_gangs: Sequence[Explanation]) -> _Groups:
    """The pending pods by reason, without those whose reason is that of their gang."""
    groups: dict[tuple[str, str], list[PodInput]] = {}
    for one in waiting:
        groups.setdefault(pods.group(one), []).append(one)
    return [(key, groups[key]) for key in sorted(groups) if not of_gangs or key[0] not in _OF_GANG]


def _suspended(known: JobInput) -> tuple[str, ...]:
    """What a suspended Job waits for; empty: it is not suspended."""
    if known.job is None or not known.job.spec.suspend:
        return ()
    if known.workload:
        return (f"The Job is suspended until Kueue admits its Workload {known.workload}.",)
    return ("The Job is suspended (spec.suspend), and gets pods when it is resumed.",)


def _lines(one: Explanation) -> tuple[str, ...]:
    return (f"{gangs.NAMES[one.kind]} {one.namespace}/{one.name}: {one.what}", *one.why)


def _since_s(known: JobInput) -> int | None:
    """The creation of its oldest pod; without pods, that of the Job."""
    created = [times.epoch_s_or_none(one.pod.metadata.creation_timestamp) for one in known.pods]
    if known.job is not None and not known.pods:
        created.append(times.epoch_s_or_none(known.job.metadata.creation_timestamp))
    return min((at for at in created if at is not None), default=None)


def _facts(known: JobInput) -> Iterator[Fact]:
    nodes = sorted({one.pod.spec.node_name for one in known.pods if one.pod.spec.node_name})
    yield Fact(name="Nodes", value=f"{len(nodes)}{': ' if nodes else ''}{wording.listed(nodes)}")
    if known.workload:
        yield Fact(name="Workload", value=known.workload)
    yield Fact(name="Run time", value=gangs.run_time(known.limits, known.now_s))
    own = {"Nodes", "Workload", "Run time"}
    for one in known.gangs:
        yield Fact(name=gangs.NAMES[one.kind], value=f"{one.namespace}/{one.name}")
        yield from (fact for fact in one.facts if fact.name not in own)
