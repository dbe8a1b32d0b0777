"""The pods of a running cluster as values, kept up to date as they change.

Called by `live`. The rule: what a snapshot costs follows from the pods that changed since the last one, not from all
there are. So a pod is converted once for each version of it, a few at a time with others running in between; pods are
looked up by their node; and who asks is told which nodes have pods that changed.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from operator import itemgetter
from typing import Final

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.api.workloads import DaemonSet
from holdfast.core.scheduling.plan import Reason, Unplaced
from holdfast.model.pods import PodView
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache, key_of
from holdfast.runtime.results import Key
from holdfast.state import daemonsets, pod_states
from holdfast.state.node_terms import LabelRules
from holdfast.state.pod_shapes import Surroundings
from holdfast.state.pods import PodConverter
from holdfast.state.snapshot import Pods

_CONVERTED_AT_ONCE: Final = 500  # pods, in about 5 ms


class WatchedPods:
    def __init__(
        self, pods: Cache[Pod], rules: LabelRules, *, clock: Clock, changed_on: Callable[[str], None]
    ) -> None:
        """`changed_on` is told the node of every pod that changed, as it was and as it is."""
        self.converter = _RememberingConverter(rules)
        self._pods = pods
        self._clock = clock
        self._changed_on = changed_on
        self._by_node = pods.index(indexes.by_node)
        self._of_daemon_set = pods.index(_daemon_set)
        self._newest: dict[str, Pod | None] = {}  # by DaemonSet, where none of its pods changed since
        self._changed: dict[Key, None] = dict.fromkeys(map(key_of, pods))
        self._waiting: dict[Key, tuple[str, PodView, tuple[Reason, ...]]] = {}  # pods that wait for a node
        self._sorted: Pods | None = None  # those in order, where none changed since
        self._passing: dict[str, None] = {}  # nodes with pods that are read anew each time,
        self._passing_waiting: dict[Key, None] = {}  # and such pods that wait for one
        pods.subscribe(self._on_pod)

    def use(self, around: Surroundings) -> None:
        """From now on pods are read in these surroundings."""
        self.converter.use(around)
        self.converter.forget_all()
        self._changed = dict.fromkeys(map(key_of, self._pods))
        self._sorted = None

    async def convert_new(self) -> None:
        """A few at a time, with others running in between: those of a large cluster take half a second."""
        for _ in range(0, len(self._changed), _CONVERTED_AT_ONCE):
            self._convert(_CONVERTED_AT_ONCE)
            await self._clock.sleep(0)

    def sorted_out(self) -> Pods:
        self._changed |= self._passing_waiting
        self._passing_waiting = {}
        self._convert(len(self._changed))  # what changed since, too
        for node in self._passing:
            self._changed_on(node)
        self._passing = {}
        if self._sorted is None:
            rows = sorted(self._waiting.values(), key=itemgetter(0))
            pending = tuple(view for _, view, reasons in rows if not reasons)
            rejected = tuple(Unplaced(view.uid, reasons) for _, view, reasons in rows if reasons)
            self._sorted = Pods(pending, rejected, self.on_node, self._newest_of)
        return self._sorted

    def _convert(self, most: int) -> None:
        """Pods that changed; not more than that."""
        for key in list(islice(self._changed, most)):
            del self._changed[key]
            pod = self._pods.get(key)
            if pod is None or not pod_states.is_active(pod):
                continue
            view, reasons = self._view(pod)
            if pod_states.is_provisionable(pod):
                self._waiting[key] = (view.full_name, view, reasons)
                self._sorted = None
                if _is_passing(pod):
                    self._passing_waiting[key] = None

    def on_node(self, node: str) -> list[PodView]:
        there = [pod for pod in self._by_node.get(node) if not pod_states.is_terminal(pod)]
        if any(map(_is_passing, there)):
            self._passing[node] = None
        return [self._view(pod)[0] for pod in there]

    def _view(self, pod: Pod) -> tuple[PodView, tuple[Reason, ...]]:
        return self.converter.view(pod, now_s=self._clock.now_s(), uid=pod.metadata.uid)

    def _newest_of(self, daemon_set: DaemonSet) -> Pod | None:
        key = f"{daemon_set.metadata.namespace or 'default'}/{daemon_set.metadata.name}"
        if key not in self._newest:
            self._newest[key] = next(
                iter(daemonsets.newest_pods(self._of_daemon_set.get(key)).values()), None
            )
        return self._newest[key]

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                for daemon_set in _daemon_set(pod):
                    self._newest.pop(daemon_set, None)
                if pod.spec.node_name:
                    self._changed_on(pod.spec.node_name)
                if self._waiting.pop(key_of(pod), None) is not None:
                    self._sorted = None
        if after is not None:
            self._changed[key_of(after)] = None
        elif before is not None:
            self.converter.forget(before.metadata.uid)


class _RememberingConverter(PodConverter):
    """A pod that did not change is the same view again."""

    def __init__(self, rules: LabelRules) -> None:
        super().__init__(rules)
        self._views: dict[str, tuple[Pod, PodView, tuple[Reason, ...]]] = {}

    def view(self, pod: Pod, *, now_s: int, uid: str = "") -> tuple[PodView, tuple[Reason, ...]]:
        known = self._views.get(pod.metadata.uid)
        if known is not None and known[0] is pod:
            return known[1], known[2]
        seen, reasons = super().view(pod, now_s=now_s, uid=uid)
        if not _is_passing(pod):
            self._views[pod.metadata.uid] = (pod, seen, reasons)
        return seen, reasons

    def forget(self, uid: str) -> None:
        self._views.pop(uid, None)

    def forget_all(self) -> None:
        self._views.clear()


def _is_passing(pod: Pod) -> bool:
    """Whether what is read from it may be true for a while only."""
    return names.DO_NOT_DISRUPT in pod.metadata.annotations


def _daemon_set(pod: Pod) -> Iterable[str]:
    owners = (owner.name for owner in pod.metadata.owner_references if owner.kind == pod_states.DAEMON_SET)
    return tuple(f"{pod.metadata.namespace or 'default'}/{owner}" for owner in owners)
