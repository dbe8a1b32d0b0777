"""Reads a file of `holdfast record` into values that a simulation replays.

Times are seconds after the beginning of the recording. Templates are those of pods: metadata and a spec that the API
server accepts. An incomplete last line is ignored with a note, because a recording may end in a crash; any other mistake
is an error with its line.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.api.pods import PodSpec
from holdfast.api.recording import (
    JOB,
    VERSION,
    Budget,
    Daemon,
    End,
    Gap,
    Group,
    Header,
    Line,
    Replicas,
    Rollout,
    Run,
    Shape,
    Stop,
    Tick,
)
from holdfast.app.recording import recording_file
from holdfast.app.recording.recording_file import TextLine
from holdfast.model import wording
from holdfast.sim.cluster.timings import RUNS_FOR

Json = dict[str, Any]

_UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_IMAGE: Final = "pause"
_PRIORITY_MAX: Final = 1_000_000_000  # of a PriorityClass that users can create
_SYSTEM_CLASSES: Final = {2_000_000_000: "system-cluster-critical", 2_000_001_000: "system-node-critical"}


@dataclass(frozen=True, slots=True)
class RecordedGroup:
    """A Deployment, or another controller that keeps a number of pods."""

    name: str
    namespace: str
    kind: str
    templates: tuple[tuple[int, Json], ...]  # since when; a later one is a rollout
    changes: tuple[tuple[int, int], ...]  # since when, and how many pods

    @property
    def template(self) -> Json:
        return self.templates[0][1]


@dataclass(frozen=True, slots=True)
class RecordedDaemon:
    """A DaemonSet."""

    name: str
    namespace: str
    templates: tuple[tuple[int, Json], ...]  # since when
    deleted_s: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A pod of a Job, or one without a controller. Its template has the annotation with its length."""

    name: str
    namespace: str
    after_s: int
    length_s: int | None  # from running to its end; None: it never ran, or it ran when the recording ended
    ended_s: int | None  # None: it had not ended when the recording ended
    how: str  # succeeded, failed or deleted; empty: it had not ended
    template: Json
    job: str | None  # equal for the pods of one Job


@dataclass(frozen=True, slots=True)
class RecordedBudget:
    """A PodDisruptionBudget."""

    name: str
    namespace: str
    spec: Json


@dataclass(frozen=True, slots=True)
class Recording:
    begins_s: int  # since the epoch
    until_s: int  # the time of the last line
    groups: tuple[RecordedGroup, ...] = ()
    daemons: tuple[RecordedDaemon, ...] = ()
    runs: tuple[RecordedRun, ...] = ()  # by their time
    budgets: tuple[RecordedBudget, ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()  # from, until: the cluster could not be followed
    notes: tuple[str, ...] = ()  # for the user


def read(path: Path) -> Recording:
    """Raises InvalidInput with the file and the line."""
    try:
        with path.open("rb") as stream:
            return _Reading(path).recording(recording_file.lines(stream, str(path)))
    except OSError as error:
        raise errors.InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error


def setup(recording: Recording) -> list[Json]:
    """The objects that the pods of a recording need: Namespaces, PriorityClasses and PodDisruptionBudgets."""
    parts: tuple[RecordedGroup | RecordedDaemon | RecordedRun | RecordedBudget, ...]
    parts = (*recording.groups, *recording.daemons, *recording.runs, *recording.budgets)
    found: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in sorted({one.namespace for one in parts})
    ]
    found += [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": _priority_class(priority)},
            "value": priority,
        }
        for priority in sorted({one["spec"].get("priority", 0) for one in _templates(recording)})
        if priority and priority not in _SYSTEM_CLASSES
    ]
    found += [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": one.name, "namespace": one.namespace},
            "spec": one.spec,
        }
        for one in recording.budgets
    ]
    return found


def _templates(recording: Recording) -> Iterator[Json]:
    kept: tuple[RecordedGroup | RecordedDaemon, ...] = (*recording.groups, *recording.daemons)
    yield from (template for one in kept for _, template in one.templates)
    yield from (one.template for one in recording.runs)


# --- Lines ------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    line: Group
    templates: list[tuple[int, int]]  # since when, and the shape
    changes: list[tuple[int, int]]


@dataclass(slots=True)
class _Daemon:
    templates: list[tuple[int, int]] = field(default_factory=list)
    deleted_s: int | None = None


class _Reading:
    """Collects the lines of one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0  # of the line
        self._last_s = 0
        self._is_stopped = False
        self._notes: list[str] = []
        self._shapes: dict[int, Shape] = {}
        self._templates: dict[int, Json] = {}
        self._groups: dict[int, _Group] = {}
        self._daemons: dict[int, _Daemon] = {}
        self._runs: dict[int, Run] = {}
        self._ends: dict[int, End] = {}
        self._budgets: dict[int, Budget] = {}
        self._gaps: list[tuple[int, int]] = []

    def recording(self, lines: Iterator[TextLine]) -> Recording:
        header = self._header(next(lines, None))
        decoder = msgspec.json.Decoder(Line)
        for line in lines:
            self._number = line.number
            try:
                decoded = decoder.decode(line.text)
            except _UNDECODABLE as error:
                if not line.is_whole:
                    self._notes.append("the last line is incomplete and is ignored")
                    break
                raise self._wrong(f"the line cannot be read: {error}") from error
            self._add(decoded)
        if not self._is_stopped:
            self._notes.append("the recording was interrupted; it is used up to its last line")
        return self._result(header)

    def _header(self, first: TextLine | None) -> Header:
        if first is None:
            raise errors.InvalidInput(f"{self._path} is empty; is it a file of `holdfast record`?")
        self._number = first.number
        try:
            header = msgspec.json.decode(first.text, type=Header)
        except _UNDECODABLE as error:
            raise self._wrong("this is not a file of `holdfast record`") from error
        if header.holdfast_record != VERSION:
            raise self._wrong(
                f"the recording has version {header.holdfast_record}, this program reads version {VERSION};"
                f" use the version of Holdfast that wrote it ({header.holdfast or 'unknown'}), or record again"
            )
        return header

    def _wrong(self, what: str) -> errors.InvalidInput:
        return errors.InvalidInput(f"{self._path}: line {self._number}: {what}")

    # --- What a line changes ----------------------------------------------------------------------------

    def _add(self, line: Line) -> None:
        if isinstance(line, Shape):
            self._add_shape(line)
            return
        if line.t < self._last_s:
            raise self._wrong(f"time goes backwards, from {self._last_s} to {line.t}")
        self._last_s = line.t
        match line:
            case Group() | Replicas() | Rollout():
                self._add_to_group(line)
            case Daemon():
                self._add_daemon(line)
            case Run() | End():
                self._add_to_run(line)
            case Budget():
                self._budgets[line.id] = line
            case Gap():
                self._gaps.append((max(0, line.t - line.lasted), line.t))
            case Stop():
                self._is_stopped = True
            case Tick():
                pass

    def _add_to_group(self, line: Group | Replicas | Rollout) -> None:
        match line:
            case Group():
                self._unique(line.id, self._groups, "group")
                at_s, shape = self._at_s(line), self._shape(line.shape)
                self._groups[line.id] = _Group(line, [(at_s, shape)], [(at_s, line.count)])
            case Replicas():
                group = self._group(line.group)
                group.changes.append((self._after(line, group.changes[-1][0]), line.count))
            case Rollout():
                self._group(line.group).templates.append((line.t, self._shape(line.shape)))

    def _add_to_run(self, line: Run | End) -> None:
        if isinstance(line, Run):
            self._at_s(line)
            self._unique(line.id, self._runs, "run")
            self._shape(line.shape)
            self._runs[line.id] = line
        else:
            self._known(line.run, self._runs, "run")
            self._unique(line.run, self._ends, "end of run")
            self._after(line, self._at_s(self._runs[line.run]))
            self._ends[line.run] = line

    def _add_shape(self, line: Shape) -> None:
        self._unique(line.id, self._shapes, "shape")
        template = pod_template(line)
        try:
            msgspec.convert(template["spec"], PodSpec)
        except msgspec.ValidationError as error:
            raise self._wrong(f"the spec of a pod is wrong: {error}") from error
        self._shapes[line.id], self._templates[line.id] = line, template

    def _add_daemon(self, line: Daemon) -> None:
        if line.shape is None:
            self._known(line.id, self._daemons, "daemon")
            self._daemons[line.id].deleted_s = line.t
            return
        daemon = self._daemons.setdefault(line.id, _Daemon())
        daemon.templates.append((line.t, self._shape(line.shape)))

    def _shape(self, number: int) -> int:
        self._known(number, self._shapes, "shape")
        return number

    def _group(self, number: int) -> _Group:
        self._known(number, self._groups, "group")
        return self._groups[number]

    def _known(self, number: int, known: dict[int, Any], what: str) -> None:
        if number not in known:
            raise self._wrong(f"there is no {what} {number} above")

    def _unique(self, number: int, known: dict[int, Any], what: str) -> None:
        if number in known:
            raise self._wrong(f"there is another {what} {number} above")

    def _at_s(self, line: Group | Replicas | Run | End) -> int:
        if line.ago > line.t:
            raise self._wrong(f"{line.ago} s ago is before the beginning")
        return line.t - line.ago

    def _after(self, line: Replicas | End, earlier_s: int) -> int:
        at_s = self._at_s(line)
        if at_s < earlier_s:
            raise self._wrong(f"time goes backwards, from {earlier_s} to {at_s}")
        return at_s

    # --- The result ---------------------------------------------------------------------------------------

    def _result(self, header: Header) -> Recording:
        runs = [self._recorded_run(one) for one in self._runs.values()]
        return Recording(
            begins_s=header.begins,
            until_s=self._last_s,
            groups=tuple(self._recorded_group(one) for one in self._groups.values()),
            daemons=tuple(self._recorded_daemon(number, one) for number, one in self._daemons.items()),
            runs=tuple(sorted(runs, key=lambda one: one.after_s)),
            budgets=tuple(
                RecordedBudget(f"budget-{one.id}", one.ns, one.spec) for one in self._budgets.values()
            ),
            gaps=tuple(self._gaps),
            notes=(*self._notes, *self._content_notes()),
        )

    def _content_notes(self) -> Iterator[str]:
        if self._gaps:
            lost_s = sum(until_s - since_s for since_s, until_s in self._gaps)
            yield f"the cluster was not followed for {lost_s} s, in {wording.count(len(self._gaps), 'gap')}"
        with_volumes = sum(bool(self._shapes[one.shape].volumes) for one in self._runs.values())
        with_volumes += sum(bool(self._shapes[one.line.shape].volumes) for one in self._groups.values())
        if with_volumes:
            yield f"{with_volumes} groups and pods have PersistentVolumeClaims, which are not in the recording"

    def _recorded_group(self, group: _Group) -> RecordedGroup:
        return RecordedGroup(
            f"group-{group.line.id}",
            self._shapes[group.line.shape].ns,
            group.line.kind,
            tuple((at_s, self._templates[shape]) for at_s, shape in group.templates),
            tuple(group.changes),
        )

    def _recorded_daemon(self, number: int, daemon: _Daemon) -> RecordedDaemon:
        templates = tuple((at_s, self._templates[shape]) for at_s, shape in daemon.templates)
        namespace = self._shapes[daemon.templates[0][1]].ns
        return RecordedDaemon(f"daemon-{number}", namespace, templates, daemon.deleted_s)

    def _recorded_run(self, run: Run) -> RecordedRun:
        name, job = f"run-{run.id}", None if run.job is None else f"job-{run.job}"
        end = self._ends.get(run.id)
        template: Json = _with_job(self._templates[run.shape], job or name)
        template["spec"]["restartPolicy"] = "Never"
        length_s = None if end is None else end.ran
        if length_s is not None:
            template["metadata"]["annotations"][RUNS_FOR] = str(length_s)
        return RecordedRun(
            name=name,
            namespace=self._shapes[run.shape].ns,
            after_s=run.t - run.ago,
            length_s=length_s,
            ended_s=None if end is None else end.t - end.ago,
            how="" if end is None else end.how,
            template=template,
            job=job,
        )


def pod_template(shape: Shape) -> Json:
    """The template of the pods of a shape, with all that the API server requires."""
    spec = copy.deepcopy(shape.spec)
    for key in ("containers", "initContainers"):
        if isinstance(spec.get(key), list):
            spec[key] = [
                {"name": f"{key.lower()}-{number}", "image": _IMAGE} | (one if isinstance(one, dict) else {})
                for number, one in enumerate(spec[key])
            ]
    priority = spec.get("priority")
    if isinstance(priority, int) and priority:
        if priority not in _SYSTEM_CLASSES:
            priority = spec["priority"] = min(priority, _PRIORITY_MAX)
        spec["priorityClassName"] = _SYSTEM_CLASSES.get(priority) or _priority_class(priority)
    return {
        "metadata": {"labels": dict(shape.labels), "annotations": dict(shape.annotations)},
        "spec": spec,
    }


def _priority_class(priority: int) -> str:
    return f"recorded-minus-{-priority}" if priority < 0 else f"recorded-{priority}"


def _with_job(value: Any, job: str) -> Any:
    """A copy with the name of the Job."""
    if isinstance(value, dict):
        return {key: _with_job(one, job) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_job(one, job) for one in value]
    return job if value == JOB else value
