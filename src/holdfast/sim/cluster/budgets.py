"""The disruption controller: computes how many pods may be evicted. The API server reads and decrements the count."""

from datetime import datetime
from typing import Final

from holdfast.runtime.cache import key_of
from holdfast.runtime.results import Key
from holdfast.sim.api.storage import selectors
from holdfast.sim.cluster import kinds, pods
from holdfast.sim.cluster.deployments import share
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Deployment, DisruptionBudget, Json, Pod, ReplicaSet, StatefulSet
from holdfast.sim.cluster.replicas import report

_UNCONFIRMED_S: Final = 120  # how long an eviction counts whose pod is not terminating


class Budgets:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._budgets = engine.caches.of(DisruptionBudget)
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(DisruptionBudget, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(Pod, self._of_pod)
        for kind in (Deployment, ReplicaSet, StatefulSet):
            self.worker.watch(kind, lambda one: self._of_space(one.metadata.namespace))

    async def reconcile(self, key: Key) -> float | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        test = selectors.label_test(budget.spec.get("selector"))
        mine = [
            pod
            for pod in self._engine.caches.of(Pod)
            if pod.metadata.namespace == key[0] and not pods.ended(pod) and test(pod.metadata.labels)
        ]
        disrupted, wait_s = self._disrupted(budget, mine)
        healthy = sum(
            pods.ready(pod) and pods.active(pod) and pod.metadata.name not in disrupted for pod in mine
        )
        expected, desired = self._desired(budget.spec, mine)
        status: Json = {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "disruptionsAllowed": max(0, healthy - desired) if expected else 0,
            "observedGeneration": budget.metadata.generation,
        }
        before = budget.status.get("disruptedPods") or {}
        if disrupted != before:
            status["disruptedPods"] = disrupted | {name: None for name in before if name not in disrupted}
        await report(self._engine, budget, status)
        return wait_s

    def _of_pod(self, pod: Pod) -> list[Key]:
        return [
            key
            for key in self._of_space(pod.metadata.namespace)
            if selectors.label_test(self._spec(key).get("selector"))(pod.metadata.labels)
        ]

    def _of_space(self, namespace: str) -> list[Key]:
        return [key for key in map(key_of, self._budgets) if key[0] == namespace]

    def _spec(self, key: Key) -> Json:
        budget = self._budgets.get(key)
        assert budget is not None
        return budget.spec

    def _disrupted(self, budget: DisruptionBudget, mine: list[Pod]) -> tuple[dict[str, str], float | None]:
        """The recent evictions whose pods are not terminating yet, and the seconds until the first of them expires."""
        there = {pod.metadata.name: pod for pod in mine}
        found: dict[str, str] = {}
        wait_s = None
        for name, since in (budget.status.get("disruptedPods") or {}).items():
            pod = there.get(name)
            if pod is None or pods.is_terminating(pod):
                continue
            left_s = _UNCONFIRMED_S - (self._engine.clock.now_s() - datetime.fromisoformat(since).timestamp())
            if left_s > 0:
                found[name] = since
                wait_s = min(wait_s or left_s, left_s)
        return found, wait_s

    def _desired(self, spec: Json, mine: list[Pod]) -> tuple[int, int]:
        """The expected number of pods, and how many of them must stay healthy."""
        least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
        if isinstance(least, int):
            return len(mine), least
        expected = self._scale(mine)
        if least is not None:
            return expected, share(least, expected, up=True)
        return expected, max(0, expected - share(1 if most is None else most, expected, up=True))

    def _scale(self, mine: list[Pod]) -> int:
        """The total replicas of the pods' owners."""
        wanted: dict[str, int] = {}
        for pod in mine:
            owner = kinds.controller_of(pod)
            if owner is None:
                continue
            key = (pod.metadata.namespace, owner.name)
            if owner.kind == ReplicaSet.kind:
                one = self._engine.caches.of(ReplicaSet).get(key)
                above = kinds.controller_of(one) if one is not None else None
                deployment = (
                    self._engine.caches.of(Deployment).get((key[0], above.name))
                    if above is not None
                    else None
                )
                scaled: kinds.Whole | None = deployment or one
            else:
                scaled = (
                    self._engine.caches.of(StatefulSet).get(key) if owner.kind == StatefulSet.kind else None
                )
            if scaled is not None:
                wanted[scaled.metadata.uid] = int(scaled.spec.get("replicas", 1))
        return sum(wanted.values())
