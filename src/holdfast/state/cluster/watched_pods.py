"""The pods of a running cluster as values, updated as they change.

The cost of a snapshot depends on the pods that changed since the last one, not on the size of the cluster. So each
version of a pod is converted once, in batches that do not block the event loop. Pods are indexed by node, and
subscribers get the nodes whose pods changed.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.api.workloads import DaemonSet
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.model.pods import PodView
from holdfast.model.reasons import Reason
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache, key_of
from holdfast.runtime.results import Key
from holdfast.state.conversion import daemonsets, pod_states, volumes
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.pod_shapes import Converted, PodContext
from holdfast.state.conversion.pods import PodConverter
from holdfast.state.conversion.snapshot import Pods

_CONVERTED_AT_ONCE: Final = 500  # pods, in about 5 ms
_UNUSED_SHAPES: Final = 1_024  # that are cached at least before any is dropped
_SORTED_AT_ONCE: Final = 5000  # new pods, merged into any number of sorted pods in about 5 ms


class WatchedPods:
    def __init__(self, watched: Cache[Pod], rules: LabelRules, *, clock: Clock) -> None:
        self.converter = _RememberingConverter(rules)
        self._pods = watched
        self._clock = clock
        self._changed_on: list[Callable[[str], None]] = []
        self._by_node = watched.index(indexes.by_node)
        self._by_claim = watched.index(_claims)
        self._of_daemon_set = watched.index(_daemon_set)
        self._newest: dict[str, Pod | None] = {}  # by DaemonSet; removed when one of its pods changes
        self._changed: dict[Key, None] = dict.fromkeys(map(key_of, watched))
        self._waiting: dict[str, tuple[PodView, tuple[Reason, ...]]] = {}  # pods that wait for a node
        self._sorted: Pods | None = None  # pods of `_waiting`, sorted; None: one changed
        self._passing: dict[str, None] = {}  # nodes with pods that are converted for every snapshot
        self._passing_waiting: dict[Key, None] = {}  # pending pods that are converted for every snapshot
        watched.subscribe(self._on_pod)

    def subscribe(self, changed_on: Callable[[str], None]) -> None:
        """Calls `changed_on` with the node of each pod that changes from now on, before and after the change."""
        self._changed_on.append(changed_on)

    def use(self, context: PodContext, claims: Iterable[Key] | None) -> None:
        """Converts pods in this context from now on. `claims`: the volume claims that changed; None: any object did."""
        self.converter.use(context)
        if claims is None:
            again = self.converter.depending()
        else:
            again = [pod for claim in claims for pod in self._by_claim.get("/".join(claim))]
        self.convert_again(again)

    def convert_again(self, pods: Iterable[Pod]) -> None:
        """Converts these pods again, because an object that they depend on changed."""
        for pod in pods:
            self.converter.discard(pod.metadata.uid)
            self._on_pod(None, pod)

    async def convert_new(self) -> None:
        """Converts changed pods in batches: all pods of a large cluster at once would block the event loop for 0.5 s."""
        self._read_passing()
        for number in range(0, len(self._changed), _CONVERTED_AT_ONCE):
            self._convert(_CONVERTED_AT_ONCE)
            await self._clock.sleep(0)
            if number % _SORTED_AT_ONCE == 0 and self._sorted is None:
                self._sort()
                await self._clock.sleep(0)

    def sorted_out(self) -> Pods:
        self._convert(len(self._changed))  # pods that changed since `convert_new`
        if self._sorted is None:
            self._sort()
            rows = self._waiting.values()
            pending = tuple(view for view, reasons in rows if not reasons)
            rejected = tuple(Unplaced(view.uid, reasons) for view, reasons in rows if reasons)
            self._sorted = Pods(pending, rejected, self._newest_of)
        return self._sorted

    def _sort(self) -> None:
        self._waiting = {name: self._waiting[name] for name in sorted(self._waiting)}

    def _read_passing(self) -> None:
        """Converts pods again whose view depends on the time."""
        self._changed |= self._passing_waiting
        self._passing_waiting = {}
        for node in self._passing:
            self._notify(node)
        self._passing = {}

    def _convert(self, most: int) -> None:
        """Converts at most this many of the changed pods."""
        for key in list(islice(self._changed, most)):
            del self._changed[key]
            pod = self._pods.get(key)
            if pod is None or not pod_states.is_active(pod):
                continue
            view, reasons = self._view(pod)
            if pod_states.is_provisionable(pod):
                self._waiting[view.full_name] = (view, reasons)
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
                    self._notify(pod.spec.node_name)
                if self._waiting.pop(_full_name(pod), None) is not None:
                    self._sorted = None
        if after is not None:
            self._changed[key_of(after)] = None
        last = after or before
        if last is not None and (after is None or pod_states.is_terminal(after)):
            self.converter.discard(last.metadata.uid)

    def _notify(self, node: str) -> None:
        for changed_on in self._changed_on:
            changed_on(node)


class _RememberingConverter(PodConverter):
    """Caches views by pod: an unchanged pod has the same view. The pods of a Job have labels of their own, so shapes of
    pods that are over are dropped."""

    def __init__(self, rules: LabelRules) -> None:
        super().__init__(rules)
        self._full_at = _UNUSED_SHAPES
        self._views: dict[str, tuple[Pod, PodView, tuple[Reason, ...]]] = {}
        self._depending: dict[str, Pod] = {}  # pods whose view depends on the context

    def view(self, pod: Pod, *, now_s: int, uid: str = "") -> tuple[PodView, tuple[Reason, ...]]:
        known = self._views.get(pod.metadata.uid)
        if known is not None and known[0] is pod:
            return known[1], known[2]
        view, problems = super().view(pod, now_s=now_s, uid=uid)
        if not _is_passing(pod):
            self._views[pod.metadata.uid] = (pod, view, problems)
        return view, problems

    def convert(self, pod: Pod) -> Converted:
        converted = super().convert(pod)
        if not converted.self_contained:
            self._depending[pod.metadata.uid] = pod
        return converted

    def _drop_unused(self) -> None:
        self._keep({id(view.shape) for _, view, _ in self._views.values()}, _UNUSED_SHAPES)

    def depending(self) -> list[Pod]:
        return list(self._depending.values())

    def discard(self, uid: str) -> None:
        self._views.pop(uid, None)
        self._depending.pop(uid, None)


def _is_passing(pod: Pod) -> bool:
    """Whether the pod's view depends on the time: its do-not-disrupt annotation may be a duration."""
    return pod.metadata.annotations.get(names.DO_NOT_DISRUPT, "true") != "true"


def _full_name(pod: Pod) -> str:
    """The same as `PodView.full_name`."""
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def _claims(pod: Pod) -> tuple[str, ...]:
    """The PersistentVolumeClaims of the pod, as namespace/name."""
    names_ = volumes.claim_names(pod.metadata.name, pod.spec.volumes)
    return tuple(f"{pod.metadata.namespace}/{name}" for name in names_)


def _daemon_set(pod: Pod) -> Iterable[str]:
    owners = (owner.name for owner in pod.metadata.owner_references if owner.kind == pod_states.DAEMON_SET)
    return tuple(f"{pod.metadata.namespace or 'default'}/{owner}" for owner in owners)
