"""The gangs of a running cluster, updated as pods and PodGroups change.

If PodGroup is not among the watched kinds, because the API server does not serve it, there are no gangs and nothing is
indexed.
"""

from holdfast.api.pods import Pod
from holdfast.api.scheduling import PodGroup
from holdfast.model.gangs import Gang
from holdfast.runtime.cache import Caches
from holdfast.state.conversion import gangs


class WatchedGangs:
    def __init__(self, caches: Caches) -> None:
        self._groups = caches.find(PodGroup)
        self._known: dict[str, Gang] = {}  # by the name of the PodGroup
        self._sorted: tuple[Gang, ...] = ()
        self._changed: dict[str, None] = {}  # names of PodGroups
        if self._groups is not None:
            self._pods = caches.of(Pod).index(gangs.group_of)
            caches.of(Pod).subscribe(self._on_pod)
            self._groups.subscribe(self._on_group)

    def all(self) -> tuple[Gang, ...]:
        """The gangs that have pods, sorted by key. The same object while none of them changes."""
        if not self._changed:
            return self._sorted
        for name in self._changed:
            self._known.pop(name, None)
            for gang in gangs.gangs(self._groups_of(name), {name: tuple(self._pods.get(name))}, _uid):
                self._known[name] = gang
        self._changed = {}
        self._sorted = tuple(self._known[name] for name in sorted(self._known))
        return self._sorted

    def _groups_of(self, name: str) -> tuple[PodGroup, ...]:
        assert self._groups is not None
        namespace, _, own = name.partition("/")
        found = self._groups.get((namespace, own))
        return (found,) if found is not None else ()

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None:
                self._changed |= dict.fromkeys(gangs.group_of(pod))

    def _on_group(self, before: PodGroup | None, after: PodGroup | None) -> None:
        for group in (before, after):
            if group is not None:
                self._changed[f"{group.metadata.namespace}/{group.metadata.name}"] = None


def _uid(pod: Pod) -> str:
    return pod.metadata.uid
