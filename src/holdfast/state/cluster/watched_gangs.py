"""The gangs of a running cluster, updated as pods and PodGroups change.

If PodGroup is not among the watched kinds, because the API server does not serve it, there are no gangs of PodGroups. Pods
of JobSets and LeaderWorkerSets are known by their labels.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from holdfast.api.pods import Pod
from holdfast.api.scheduling import PodGroup
from holdfast.model.gangs import LABELLED, Gang
from holdfast.ports import Clock
from holdfast.runtime.cache import Caches
from holdfast.state.conversion import gangs, labelled_gangs
from holdfast.state.conversion.labelled_gangs import LabelledGangs


class WatchedGangs:
    def __init__(
        self, caches: Caches, *, clock: Clock, sources: AbstractSet[str] = frozenset(LABELLED)
    ) -> None:
        """`sources`: of the gangs that are known by the labels of their pods."""
        self._clock = clock
        self._groups = caches.find(PodGroup)
        self._labels = LabelledGangs(sources)
        self._known: dict[str, Gang] = {}  # by key
        self._growing: dict[str, int] = {}  # by key of a gang, until when more members are expected
        self._sorted: tuple[Gang, ...] = ()
        self._changed_groups: dict[str, None] = {}  # names of PodGroups
        self._changed_labels: dict[str, None] = {}  # keys of the other gangs
        self._labelled = caches.of(Pod).index(self._labels.keys_of)
        caches.of(Pod).subscribe(self._on_pod)
        if self._groups is not None:
            self._of_group = caches.of(Pod).index(gangs.group_of)
            self._groups.subscribe(self._on_group)
        for pod in caches.of(Pod):
            self._on_pod(None, pod)

    def all(self) -> tuple[Gang, ...]:
        """The gangs that have pods, sorted by key. The same object while none of them changes."""
        now_s = self._clock.now_s() if self._growing or self._changed_labels else 0
        self._changed_labels |= dict.fromkeys(key for key, at_s in self._growing.items() if at_s <= now_s)
        if not self._changed_groups and not self._changed_labels:
            return self._sorted
        for name in self._changed_groups:
            pods = {name: tuple(self._of_group.get(name))}
            self._replace(gangs.key_of(name), gangs.gangs(self._groups_of(name), pods, _uid))
        for key in self._changed_labels:
            pods = {key: tuple(self._labelled.get(key))}
            self._replace(key, labelled_gangs.all_of(pods, _uid, now_s=now_s))
        self._changed_groups, self._changed_labels = {}, {}
        self._sorted = tuple(self._known[key] for key in sorted(self._known))
        return self._sorted

    def of(self, pod: Pod) -> Gang | None:
        """The gang that the labels of a pod name."""
        key = self._labels.key_of(pod)
        if not key:
            return None
        self.all()
        return self._known.get(key)

    def _replace(self, key: str, found: Iterable[Gang]) -> None:
        self._known.pop(key, None)
        self._growing.pop(key, None)
        for gang in found:
            self._known[key] = gang
            if gang.grows_until_s is not None:
                self._growing[key] = gang.grows_until_s

    def _groups_of(self, name: str) -> tuple[PodGroup, ...]:
        assert self._groups is not None
        namespace, _, own = name.partition("/")
        found = self._groups.get((namespace, own))
        return (found,) if found is not None else ()

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                self._changed_labels |= dict.fromkeys(self._labels.keys_of(pod))
                if self._groups is not None:
                    self._changed_groups |= dict.fromkeys(gangs.group_of(pod))

    def _on_group(self, before: PodGroup | None, after: PodGroup | None) -> None:
        for group in (before, after):
            if group is not None:
                self._changed_groups[f"{group.metadata.namespace}/{group.metadata.name}"] = None


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
