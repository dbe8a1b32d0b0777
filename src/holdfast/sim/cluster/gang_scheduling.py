"""Gangs of kube-scheduler 1.36: the pods of a PodGroup are bound when at least minCount of them fit, else none.

`scheduler` calls it for a pod that names a PodGroup. As in kube-scheduler, pods of a gang that is not complete wait
without a condition (PG-5), a gang that does not fit makes every pod Unschedulable (PG-6), members are tried once in the
order of their priority and age (PG-11), and bound members count (PG-8).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.runtime.cache import Caches
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.engine import Engine
from holdfast.sim.cluster.kinds import Json, Pod, PodGroup

WAITING: Final = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)
_SCHEDULED: Final = "PodGroupScheduled"


@dataclass(frozen=True, slots=True)
class Gang:
    name: tuple[str, str]  # namespace and name
    group: PodGroup | None  # None: it does not exist
    bound: tuple[Pod, ...]
    unbound: tuple[Pod, ...]

    @property
    def least(self) -> int:
        assert self.group is not None
        return int(self.group.spec["schedulingPolicy"]["gang"]["minCount"])

    @property
    def is_complete(self) -> bool:
        return self.group is not None and len(self.bound) + len(self.unbound) >= self.least

    def needs_more(self, placed: int) -> bool:
        return len(self.bound) + placed < self.least


class Gangs:
    """The gangs of a cluster. Without PodGroups in the caches no pod is in one."""

    def __init__(self, caches: Caches) -> None:
        self._groups = caches.find(PodGroup)
        self.assumed: set[str] = (
            set()
        )  # uids of pods that were bound; the watch may not have delivered it yet
        if self._groups is not None:
            self._by_group = caches.of(Pod).index(_group_name)

    def subscribe(self, changed: Callable[[], None]) -> None:
        if self._groups is not None:
            self._groups.subscribe(lambda _before, _after: changed())

    def of(self, pod: Pod) -> Gang | None:
        """The gang of a pod; None: it is scheduled alone."""
        if self._groups is None:
            return None
        for name in _group_name(pod):
            namespace, _, own = name.partition("/")
            group = self._groups.get((namespace, own))
            if group is not None and "gang" not in group.spec.get("schedulingPolicy", {}):
                return None
            members = [one for one in self._by_group.get(name) if pods.active(one)]
            bound = [one for one in members if pods.node_of(one) or one.metadata.uid in self.assumed]
            unbound = [one for one in members if one not in bound]
            return Gang((namespace, own), group, tuple(bound), tuple(unbound))
        return None


def condition(gang: Gang, engine: Engine, *, is_scheduled: bool) -> Json | None:
    """The changed status of the PodGroup; None: it has this condition. It is never reset (PG-9)."""
    assert gang.group is not None
    before = pods.condition(gang.group.status, _SCHEDULED).get("status")
    if before == "True" or (before == "False" and not is_scheduled):
        return None
    changed = {
        "type": _SCHEDULED,
        "status": "True" if is_scheduled else "False",
        "reason": "Scheduled" if is_scheduled else "Unschedulable",
        "message": "" if is_scheduled else "pod group is unschedulable",
    }
    return {"status": {"conditions": pods.with_conditions(gang.group.status, engine.now(), changed)}}


def _group_name(pod: Pod) -> Iterator[str]:
    name = (pod.spec.get("schedulingGroup") or {}).get("podGroupName")
    if name:
        yield f"{pod.metadata.namespace}/{name}"
