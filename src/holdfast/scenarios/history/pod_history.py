"""Turns the states of pods into lines of a recording. Pure: the caller passes pods and times, and gets lines.

A controller that keeps a number of pods is a group with a count. Pods of Jobs and pods without a controller are runs. Only
pods that have not ended are in memory.

Times are seconds since the beginning. A change is dated when it is observed. After a gap it is dated by the times in the
object, but never before the last contact with the API server, so a wrong clock of a node cannot move a change by hours.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

import msgspec

from holdfast.api import conditions
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Pod
from holdfast.api.recording import Budget, Daemon, End, Gap, Group, Line, Replicas, Rollout, Run, Stop, Tick
from holdfast.api.workloads import DaemonSet
from holdfast.scenarios.history import owners
from holdfast.scenarios.history.owners import Owner
from holdfast.scenarios.history.replica_counts import ReplicaCount
from holdfast.scenarios.history.shapes import Shapes
from holdfast.state.conversion import pod_states, times

ROLLOUT_S: Final = (
    600  # while pods of two revisions exist, the count has surge pods: it counts again after this time
)
TICK_S: Final = 600
_JOBS_MAX: Final = 50_000  # a Job whose last pod began long ago gets another number
_RUNNING: Final = "Running"
_How = Literal["succeeded", "failed", "deleted"]
_ENDS: Final[Mapping[str, _How]] = {"Succeeded": "succeeded", "Failed": "failed"}

_GroupKey = tuple[str, str, str, str, int]


@dataclass(slots=True)
class _Group:
    key: _GroupKey
    kind: str
    members: dict[str, str] = field(default_factory=dict)  # revisions by uid
    newest: Pod | None = None  # its shape is not written yet
    began_s: int = 0
    id: int = 0  # 0: not written yet
    shape: int = 0
    count: ReplicaCount = field(default_factory=lambda: ReplicaCount(0))
    rolling_since_s: int | None = None


@dataclass(slots=True)
class _Run:
    id: int
    began_s: int
    started_s: int | None = None


class PodHistory:
    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._begins_s: int | None = None  # since the epoch; None: `begin` was not called yet
        self._contact_s = 0  # until when all changes are known
        self._lines: list[Line] = []
        self._written_s = 0
        self._ids = 0
        self._groups: dict[_GroupKey, _Group] = {}
        self._group_of: dict[str, _Group] = {}  # by uid of a pod
        self._changed: dict[_GroupKey, _Group] = {}  # not settled yet
        self._runs: dict[str, _Run] = {}  # by uid
        self._jobs: OrderedDict[str, int] = OrderedDict()  # by uid; the last used is the last
        self._daemons: dict[str, Daemon] = {}  # by uid
        self._budgets: dict[str, Budget] = {}  # by uid
        self.pods = 0  # seen so far

    # --- Pods -------------------------------------------------------------------------------------------

    def observe(self, pod: Pod, at_s: int, *, is_new: bool) -> None:
        """A pod as it is now. `is_new`: the caller has not passed it before."""
        owner = owners.owner_of(pod)
        if owner.is_ignored or pod.spec.scheduling_gates:
            return
        if owner.counts:
            self._observe_member(pod, owner, at_s)
        else:
            self._observe_run(pod, owner, at_s, is_new=is_new)

    def remove(self, uid: str, at_s: int) -> None:
        """The pod does not exist any more."""
        self._drop_member(uid)
        run = self._runs.pop(uid, None)
        if run is not None:
            self._end(run, at_s, "deleted", at_s)

    def _observe_member(self, pod: Pod, owner: Owner, at_s: int) -> None:
        """A StatefulSet creates the next pod when the last one of the name is gone, so a terminating pod counts."""
        uid = pod.metadata.uid
        stays = owner.kind == pod_states.STATEFUL_SET and not pod_states.is_terminal(pod)
        if not (stays or pod_states.is_active(pod)):
            self._drop_member(uid)
            return
        if uid in self._group_of:
            return
        self.pods += 1
        # The pods of another controller may differ, such as the head and the workers of a RayCluster.
        shape = 0 if owner.kind else self._shape(pod)
        key = (owner.kind, owner.namespace, owner.name, owner.uid, shape)
        group = self._groups.get(key)
        if group is None:
            began_s = self._when(pod.metadata.creation_timestamp, at_s)
            group = self._groups[key] = _Group(key, owner.kind or "Pod", began_s=began_s)
        group.members[uid] = owner.revision
        if group.newest is None or _created(group.newest) <= _created(pod):
            group.newest = pod
        self._group_of[uid] = group
        self._changed[key] = group

    def _drop_member(self, uid: str) -> None:
        group = self._group_of.pop(uid, None)
        if group is not None:
            del group.members[uid]
            self._changed[group.key] = group

    def _observe_run(self, pod: Pod, owner: Owner, at_s: int, *, is_new: bool) -> None:
        uid, how = pod.metadata.uid, _ENDS.get(pod.status.phase)
        run = self._runs.get(uid)
        if run is None:
            if how is not None and (self._begins_s is None or not is_new):
                return  # it ended before the recording, or its end is written
            run = self._begin(pod, owner, at_s)
        if run.started_s is None and (pod.status.phase == _RUNNING or (how and pod.status.start_time)):
            run.started_s = max(run.began_s, self._when(pod.status.start_time, at_s))
        if how is not None:
            self._runs.pop(uid, None)
            is_deleted = pod_states.is_terminating(pod)
            self._end(run, self._when(_ended(pod), at_s), "deleted" if is_deleted else how, at_s)

    def _begin(self, pod: Pod, owner: Owner, at_s: int) -> _Run:
        self.pods += 1
        began_s = self._when(pod.metadata.creation_timestamp, at_s)
        run = self._runs[pod.metadata.uid] = _Run(self._next_id(), began_s)
        shape = self._shape(pod, job_name=owner.name)
        job = self._job(owner.uid) if owner.uid else None
        self._write(Run(t=at_s, id=run.id, shape=shape, job=job, ago=at_s - began_s))
        return run

    def _end(self, run: _Run, ended_s: int, how: _How, at_s: int) -> None:
        ended_s = max(ended_s, run.began_s if run.started_s is None else run.started_s)
        ran_s = None if run.started_s is None else ended_s - run.started_s
        self._write(End(t=at_s, run=run.id, ran=ran_s, how=how, ago=at_s - ended_s))

    def _job(self, uid: str) -> int:
        if uid not in self._jobs:
            self._jobs[uid] = self._next_id()
            if len(self._jobs) > _JOBS_MAX:
                self._jobs.popitem(last=False)
        self._jobs.move_to_end(uid)
        return self._jobs[uid]

    # --- DaemonSets and PodDisruptionBudgets --------------------------------------------------------------

    def observe_daemon_set(self, daemon_set: DaemonSet, at_s: int) -> None:
        meta, template = daemon_set.metadata, daemon_set.spec.template
        pod = Pod(
            metadata=ObjectMeta(
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
            ),
            spec=template.spec,
        )
        known = self._daemons.get(meta.uid)
        line = Daemon(id=known.id if known else self._next_id(), shape=self._shape(pod))
        if line != known:
            self._daemons[meta.uid] = line
            self._write(msgspec.structs.replace(line, t=at_s))

    def remove_daemon_set(self, uid: str, at_s: int) -> None:
        known = self._daemons.pop(uid, None)
        if known is not None:
            self._write(Daemon(t=at_s, id=known.id))

    def observe_budget(self, budget: PodDisruptionBudget, at_s: int) -> None:
        """Written once for each spec: the status changes with each pod."""
        known = self._budgets.get(budget.metadata.uid)
        line = self._shapes.budget(budget, known.id if known else self._next_id())
        if line != known:
            self._budgets[budget.metadata.uid] = line
            self._write(msgspec.structs.replace(line, t=at_s))

    def remove_budget(self, uid: str) -> None:
        self._budgets.pop(uid, None)

    # --- Lines --------------------------------------------------------------------------------------------

    def begin(self, begins_s: int) -> list[Line]:
        """The lines of everything that was observed before the recording begins."""
        lines = self.take(0)
        self._begins_s = begins_s
        return lines

    def gap(self, since_s: int, at_s: int) -> None:
        """The cluster could not be followed in between."""
        self._write(Gap(t=at_s, lasted=at_s - since_s))

    def take(self, at_s: int, *, contact_s: int | None = None) -> list[Line]:
        """The lines since the last call. `contact_s`: until when the API server has reported all changes."""
        for group in tuple(self._changed.values()):
            self._update(group, at_s)
        if self._lines:
            self._written_s = at_s
        elif at_s - self._written_s >= TICK_S:
            self._write(Tick(t=at_s))
            self._written_s = at_s
        self._contact_s = max(self._contact_s, at_s if contact_s is None else contact_s)
        lines, self._lines = self._lines, []
        return lines

    def finish(self, at_s: int) -> list[Line]:
        """The last lines. Changes of counts that may be dips are written as they are."""
        lines = self.take(at_s)
        for group in tuple(self._changed.values()):
            self._write_counts(group, at_s, final=True)
        lines += self._lines
        return [*lines, Stop(t=at_s)]

    def _update(self, group: _Group, at_s: int) -> None:
        count = len(group.members)
        if group.newest is not None:
            self._update_shape(group, group.newest, count, at_s)
            group.newest = None
        if not self._is_rolling(group, at_s):
            group.count.observe(at_s, count)
        self._write_counts(group, at_s)
        if group.count.is_settled and group.rolling_since_s is None:
            del self._changed[group.key]
            if count == 0:
                del self._groups[group.key]

    def _update_shape(self, group: _Group, newest: Pod, count: int, at_s: int) -> None:
        shape = self._shape(newest)
        if not group.id:
            if not count:
                return  # all of its pods ended since the last call
            group.id, group.shape, group.count = self._next_id(), shape, ReplicaCount(count)
            ago_s = at_s - group.began_s
            self._write(Group(t=at_s, id=group.id, kind=group.kind, shape=shape, count=count, ago=ago_s))
        elif shape != group.shape:
            group.shape = shape
            self._write(Rollout(t=at_s, group=group.id, shape=shape))

    def _is_rolling(self, group: _Group, at_s: int) -> bool:
        if len(set(group.members.values())) <= 1:
            group.rolling_since_s = None
            return False
        if group.rolling_since_s is None:
            group.rolling_since_s = at_s
        return at_s - group.rolling_since_s < ROLLOUT_S

    def _write_counts(self, group: _Group, at_s: int, *, final: bool = False) -> None:
        for since_s, count in group.count.settled(at_s, final=final):
            self._write(Replicas(t=at_s, group=group.id, count=count, ago=at_s - since_s))

    def _shape(self, pod: Pod, *, job_name: str = "") -> int:
        number, line = self._shapes.of(pod, job_name=job_name)
        if line is not None:
            self._write(line)
        return number

    def _write(self, line: Line) -> None:
        self._lines.append(line)

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids

    def _when(self, moment: datetime | None, at_s: int) -> int:
        if moment is None or self._begins_s is None:
            return at_s
        return max(min(self._contact_s, at_s), min(at_s, times.epoch_s(moment) - self._begins_s))


def _created(pod: Pod) -> int:
    return times.epoch_s_or_none(pod.metadata.creation_timestamp) or 0


def _ended(pod: Pod) -> datetime | None:
    """The kubelet sets Ready to False when the last container has ended."""
    wanted = (conditions.READY, conditions.FALSE)
    found = (one for one in pod.status.conditions if (one.type, one.status) == wanted)
    return next((one.last_transition_time for one in found), None)
