"""The Job controller: creates pods until enough of them have succeeded.

A pod has a finalizer until it is counted, so that each pod is counted exactly once, even if a client deletes it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds, pods
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Job, Json, Pod
from holdfast.sim.cluster.replicas import report

TRACKED: Final = "batch.kubernetes.io/job-tracking"
_OVER: Final = ("Complete", "Failed")


@dataclass(frozen=True, slots=True)
class Count:
    succeeded: int
    failed: int


class Jobs:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Job, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(Pod, lambda pod: kinds.owner_key(pod, Job))

    async def reconcile(self, key: Key) -> float | None:
        owner = self._engine.caches.of(Job).get(key)
        if owner is None:
            return None
        mine = list(self._engine.pods_by_owner.get(owner.metadata.uid))
        tracked = [pod for pod in mine if TRACKED in pod.metadata.finalizers]
        owner, count = await self._count(owner, [pod for pod in tracked if pods.ended(pod)])
        left_s = self._left_s(owner)
        running = [pod for pod in mine if pods.active(pod)]
        if owner.metadata.deletion_timestamp is None and not _is_over(owner):
            running = await self._proceed(owner, running, count)
            await self._report(owner, running, count, is_late=left_s is not None and left_s <= 0)
            return left_s if left_s is not None and left_s > 0 else None
        for pod in running:
            await self._engine.kube.delete(pod)
        return None

    async def _count(self, owner: Job, ended: list[Pod]) -> tuple[Job, Count]:
        """Counts each ended pod once: its uid is in the status until its finalizer is removed."""
        pending = owner.status.get("uncountedTerminatedPods") or {}
        counted = {*(pending.get("succeeded") or ()), *(pending.get("failed") or ())}
        new = [pod for pod in ended if pod.metadata.uid not in counted]
        good = [pod.metadata.uid for pod in new if pod.status["phase"] == "Succeeded"]
        bad = [pod.metadata.uid for pod in new if pod.status["phase"] == "Failed"]
        if new:
            change: Json = {
                "succeeded": owner.status.get("succeeded", 0) + len(good),
                "failed": owner.status.get("failed", 0) + len(bad),
                "uncountedTerminatedPods": {
                    "succeeded": [*(pending.get("succeeded") or ()), *good],
                    "failed": [*(pending.get("failed") or ()), *bad],
                },
            }
            owner = await self._engine.kube.patch(
                owner, {"status": change}, status=True, only_if_unchanged=True
            )
        for pod in ended:
            left = [finalizer for finalizer in pod.metadata.finalizers if finalizer != TRACKED]
            await self._engine.kube.patch(
                pod, {"metadata": {"finalizers": left or None}}, only_if_unchanged=True
            )
        if ended:
            owner = await self._engine.kube.patch(
                owner, {"status": {"uncountedTerminatedPods": None}}, status=True
            )
        return owner, Count(owner.status.get("succeeded", 0), owner.status.get("failed", 0))

    async def _proceed(self, owner: Job, running: list[Pod], count: Count) -> list[Pod]:
        wanted = int(owner.spec.get("parallelism", 1))
        if owner.spec.get("completions") is not None:
            wanted = min(wanted, owner.spec["completions"] - count.succeeded)
        elif count.succeeded:
            wanted = len(running)  # after the first success of a work queue no pods are created
        if owner.spec.get("suspend") or count.failed > owner.spec.get("backoffLimit", 6):
            wanted = 0
        for pod in running[max(0, wanted) :]:
            await self._engine.kube.delete(pod)
        running = running[: max(0, wanted)]
        for _ in range(wanted - len(running)):
            template = owner.spec["template"]
            meta = template.get("metadata") or {}
            held = {
                **template,
                "metadata": {**meta, "finalizers": [*(meta.get("finalizers") or ()), TRACKED]},
            }
            running.append(await self._engine.kube.create(kinds.from_template(held, owner)))
        return running

    def _left_s(self, owner: Job) -> float | None:
        """Until the deadline of the Job; None: it has none, or it has not started."""
        start, deadline_s = owner.status.get("startTime"), owner.spec.get("activeDeadlineSeconds")
        if start is None or deadline_s is None or _is_over(owner):
            return None
        return datetime.fromisoformat(start).timestamp() + float(deadline_s) - self._engine.clock.now_s()

    async def _report(self, owner: Job, running: list[Pod], count: Count, *, is_late: bool) -> None:
        status: Json = {"active": len(running), "ready": sum(pods.ready(pod) for pod in running)}
        if "startTime" not in owner.status and not owner.spec.get("suspend"):
            status["startTime"] = self._engine.now()
        completions = owner.spec.get("completions")
        enough = count.succeeded >= (1 if completions is None else completions)
        if count.failed > owner.spec.get("backoffLimit", 6):
            status["conditions"] = [self._condition("Failed", "BackoffLimitExceeded")]
        elif is_late:
            status["conditions"] = [self._condition("Failed", "DeadlineExceeded")]
        elif enough and not running:
            status["conditions"] = [self._condition("Complete", "CompletionsReached")]
            status["completionTime"] = self._engine.now()
        await report(self._engine, owner, status)

    def _condition(self, kind: str, reason: str) -> Json:
        now = self._engine.now()
        condition = {"type": kind, "status": "True", "reason": reason, "message": reason}
        return {**condition, "lastProbeTime": now, "lastTransitionTime": now}


def _is_over(owner: Job) -> bool:
    return any(pods.condition(owner.status, kind).get("status") == "True" for kind in _OVER)
