"""Conditions and terminations of NodeClaims, NodePools, node classes and Nodes, under the names of awslabs/operatorpkg.

Karpenter uses that library. A cluster has a dozen conditions for each node, so without --metrics-per-object the series of
NodeClaims and Nodes have the number of objects and the longest time. NodePools and node classes always have their own,
except in the metrics without a kind in their names, which operatorpkg has for old dashboards.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.controllers.metrics import node_groups
from holdfast.ports import Clock, Recorder
from holdfast.runtime.cache import Cache, Caches, key_of
from holdfast.runtime.metrics import Metric
from holdfast.state.conversion import times

PERIOD_S: Final = 30.0  # between two counts of all conditions
_BUCKETS: Final = tuple(0.5 * 4**power for power in range(8))  # every other one of Karpenter's
_OF_OBJECT: Final = ("namespace", "name")
_CONDITION: Final = ("type", "status", "reason")
_GROUP: Final = ("group", "kind")

Labels = tuple[str, ...]


class _Condition(Protocol):
    @property
    def type(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def last_transition_time(self) -> datetime | None: ...


def _family(prefix: str, extra: Labels) -> tuple[Metric, ...]:
    each = (*_OF_OBJECT, *_CONDITION, *extra)
    return (
        Metric(f"{prefix}_status_condition_count", "gauge", "Objects with a condition.", each),
        Metric(
            f"{prefix}_status_condition_current_status_seconds",
            "gauge",
            "How long a condition has had its status.",
            each,
        ),
        Metric(
            f"{prefix}_status_condition_transition_seconds",
            "histogram",
            "How long a condition had a status before it changed.",
            ("type", "status", "to_status", *extra),
            _BUCKETS,
        ),
        Metric(
            f"{prefix}_status_condition_transitions_total",
            "counter",
            "Changes of conditions to a status.",
            (*_CONDITION, *extra),
        ),
        Metric(
            f"{prefix}_termination_current_time_seconds",
            "gauge",
            "How long objects have been deleting.",
            (*_OF_OBJECT, *extra),
        ),
        Metric(
            f"{prefix}_termination_duration_seconds",
            "histogram",
            "From the deletion of an object until it was removed.",
            extra,
            _BUCKETS,
        ),
    )


@dataclass(frozen=True, slots=True)
class ClassNames:
    """How metrics name node classes. They are the same for all kinds of classes of a cloud."""

    kind: str  # in names of metrics
    label: str  # of NodeClaims and Nodes, with the name of their class


def metrics(classes: ClassNames) -> tuple[Metric, ...]:
    of_node = (_label(classes.label), _label(names.NODEPOOL))
    return (
        *_family("operator", _GROUP),
        *_family("operator_nodeclaim", of_node),
        *_family("operator_node", (*of_node, _label(names.INITIALIZED))),
        *_family("operator_nodepool", ()),
        *_family(f"operator_{classes.kind}", ()),
    )


def _label(key: str) -> str:
    return key.replace("/", "_").replace(".", "_").replace("-", "_")


@dataclass(frozen=True, slots=True)
class _Kind:
    prefix: str
    label_keys: Labels
    label_names: Labels
    is_named: bool  # whether each object has series
    group: Labels | None  # the values of `_GROUP`; None: not in the metrics of all kinds


class Conditions:
    def __init__(
        self,
        *,
        caches: Caches,
        class_kind: type[Object],
        classes: ClassNames,
        clock: Clock,
        recorder: Recorder,
        leads: Callable[[], bool],
        per_object: bool,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._counted_s: float | None = None
        self._leads = leads
        self._per_object = per_object
        keys = (classes.label, names.NODEPOOL)
        node_keys = (*keys, names.INITIALIZED)
        self._kinds: list[tuple[Cache[Any], _Kind]] = []
        for kind, prefix, label_keys, is_named in (
            (NodeClaim, "operator_nodeclaim", keys, per_object),
            (Node, "operator_node", node_keys, per_object),
            (NodePool, "operator_nodepool", (), True),
            (class_kind, f"operator_{classes.kind}", (), True),
        ):
            group, _, _ = kind.api_version.rpartition("/")
            about = _Kind(
                prefix,
                label_keys,
                tuple(map(_label, label_keys)),
                is_named,
                None if kind is Node else (group, kind.kind),
            )
            cache: Cache[Any] = caches.of(kind)
            self._kinds.append((cache, about))
            cache.subscribe(self._handler(about))

    def _handler(self, about: _Kind) -> Any:
        def changed(before: Any | None, after: Any | None) -> None:
            if before is None or not self._leads():
                return
            if after is None or after.metadata.uid != before.metadata.uid:
                self._removed(before, about)
            else:
                self._compare(before, after, about)

        return changed

    def _removed(self, obj: Any, about: _Kind) -> None:
        since = obj.metadata.deletion_timestamp
        if since is not None:
            duration_s = max(0, self._clock.now_s() - times.epoch_s(since))
            for prefix, labels in self._written(obj, about):
                self._recorder.observe(f"{prefix}_termination_duration_seconds", labels, duration_s)

    def _compare(self, before: Any, after: Any, about: _Kind) -> None:
        if before.status.conditions is after.status.conditions:
            return
        was: dict[str, _Condition] = {one.type: one for one in before.status.conditions}
        for one in after.status.conditions:
            old = was.get(one.type)
            if old is not None and old.status == one.status:
                continue
            for prefix, labels in self._written(after, about):
                now = {"type": one.type, "status": one.status, "reason": one.reason or ""}
                self._recorder.count(f"{prefix}_status_condition_transitions_total", now | labels)
                duration_s = _between_s(old, one) if old is not None else None
                if old is not None and duration_s is not None:
                    status = {"type": old.type, "status": old.status, "to_status": one.status}
                    name = f"{prefix}_status_condition_transition_seconds"
                    self._recorder.observe(name, status | labels, duration_s)

    def _written(self, obj: Object, about: _Kind) -> Iterable[tuple[str, dict[str, str]]]:
        """The metrics that an object is counted in: their prefix, and labels of the object."""
        yield about.prefix, dict(zip(about.label_names, _extra(obj, about), strict=True))
        if about.group is not None:
            yield "operator", dict(zip(_GROUP, about.group, strict=True))

    # --- Scrapes --------------------------------------------------------------------------------------

    async def export(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._counted_s is not None and now_s < self._counted_s + PERIOD_S:
            return
        self._counted_s = now_s
        of_all = _Series()
        for cache, about in self._kinds:
            found = _Series()
            for number, obj in enumerate(tuple(cache), start=1):
                self._add(obj, about, found, of_all)
                if number % node_groups.AT_ONCE == 0:
                    await self._clock.sleep(0)
            self._replace(about.prefix, found)
        self._replace("operator", of_all)

    def _add(self, obj: Any, about: _Kind, found: "_Series", of_all: "_Series") -> None:
        meta, now_s = obj.metadata, self._clock.now_s()
        name = key_of(obj) if about.is_named else ("", "")
        of_kind = name if self._per_object else ("", "")
        extra = _extra(obj, about)
        for one in obj.status.conditions:
            key = (*name, one.type, one.status, one.reason or "")
            since = one.last_transition_time
            age_s = max(0, now_s - times.epoch_s(since)) if since is not None else 0
            found.add((*key, *extra), age_s)
            if about.group is not None:
                of_all.add((*of_kind, *key[2:], *about.group), age_s)
        if meta.deletion_timestamp is not None:
            age_s = max(0, now_s - times.epoch_s(meta.deletion_timestamp))
            found.ending[*name, *extra] = max(age_s, found.ending[*name, *extra])
            if about.group is not None:
                of_all.ending[*of_kind, *about.group] = max(age_s, of_all.ending[*of_kind, *about.group])

    def _replace(self, prefix: str, found: "_Series") -> None:
        self._recorder.replace(f"{prefix}_status_condition_count", found.counts)
        self._recorder.replace(f"{prefix}_status_condition_current_status_seconds", found.ages_s)
        self._recorder.replace(f"{prefix}_termination_current_time_seconds", found.ending)


class _Series:
    def __init__(self) -> None:
        self.counts: defaultdict[Labels, float] = defaultdict(float)
        self.ages_s: defaultdict[Labels, float] = defaultdict(float)
        self.ending: defaultdict[Labels, float] = defaultdict(float)

    def add(self, key: Labels, age_s: float) -> None:
        self.counts[key] += 1
        self.ages_s[key] = max(age_s, self.ages_s[key])


def _extra(obj: Object, about: _Kind) -> Labels:
    """The labels of the object's own; empty if objects share series."""
    labels: Mapping[str, str] = obj.metadata.labels if about.is_named else {}
    return tuple(labels.get(key, "") for key in about.label_keys)


def _between_s(old: _Condition, new: _Condition) -> float | None:
    if old.last_transition_time is None or new.last_transition_time is None:
        return None
    return max(0, times.epoch_s(new.last_transition_time) - times.epoch_s(old.last_transition_time))
