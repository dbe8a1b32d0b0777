"""The pod workers of all kubelets: start pods, report them ready, complete and stop them.

A pod on a node without a running kubelet does not change.
"""

from typing import Any

from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds, pods, timings
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Job, Json, Pod
from holdfast.sim.cluster.kubelet import Kubelet
from holdfast.sim.cluster.kubelet_starter import KubeletStarter
from holdfast.sim.cluster.timings import Timings


class PodWorkers:
    def __init__(self, engine: Engine, kubelets: KubeletStarter, times: Timings) -> None:
        self._engine = engine
        self._kubelets = kubelets
        self._timings = times
        self._first_seen_s: dict[str, float] = {}  # by uid, when the kubelet first saw it
        self._ran_s: dict[str, float] = {}  # when it started to run
        self._addresses = 0  # number of addresses assigned so far
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Pod, lambda pod: [_key(pod)] if pods.node_of(pod) else ())
        engine.caches.of(Pod).subscribe(self._forget)
        kubelets.on_start(self._wake)

    async def reconcile(self, key: Key) -> float | None:
        pod = self._engine.caches.of(Pod).get(key)
        kubelet = self._kubelets.of_node(pods.node_of(pod)) if pod is not None else None
        if pod is None or kubelet is None:
            return None
        if pods.is_terminating(pod):
            return await self._stop(pod)
        if pods.ended(pod):
            return None
        if pod.status.get("phase") != "Running":
            return await self._start(pod, kubelet)
        return await self._go_on(pod)

    def _wake(self, node: str) -> None:
        for pod in self._engine.pods_by_node.get(node):
            self.worker.add(_key(pod))

    def _forget(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._first_seen_s.pop(before.metadata.uid, None)
            self._ran_s.pop(before.metadata.uid, None)

    async def _start(self, pod: Pod, kubelet: Kubelet) -> float | None:
        left_s = self._left_s(self._first_seen_s, pod, self._timings.pod_start_s)
        if left_s > 0:
            return left_s
        self._ran_s[pod.metadata.uid] = self._engine.clock.monotonic_s()
        address = self._address(pod, kubelet)
        now = self._engine.now()
        ready = _seconds(pod, timings.READY_AFTER, 0) <= 0
        status: Json = {
            "phase": "Running",
            "startTime": now,
            "hostIP": kubelet.address,
            "hostIPs": [{"ip": kubelet.address}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": self._conditions(pod, ready=ready),
            "containerStatuses": _containers(pod, {"running": {"startedAt": now}}, ready=ready),
        }
        await self._report(pod, status)
        return None

    async def _go_on(self, pod: Pod) -> float | None:
        """Sets a running pod ready, and completes it if it has a duration."""
        waits_s = self._left_s(self._ran_s, pod, _seconds(pod, timings.READY_AFTER, 0))
        if waits_s <= 0 and not pods.ready(pod):
            running = {"running": {"startedAt": pod.status.get("startTime") or self._engine.now()}}
            status: Json = {
                "conditions": self._conditions(pod, ready=True),
                "containerStatuses": _containers(pod, running, ready=True),
            }
            await self._report(pod, status)
            return None
        ends = kinds.owner_key(pod, Job) or timings.RUNS_FOR in pod.metadata.annotations
        left_s = self._left_s(self._ran_s, pod, _seconds(pod, timings.RUNS_FOR, self._timings.job_s))
        if ends and left_s <= 0:
            await self._end(pod, "Succeeded")
            return None
        waits = [wait_s for wait_s in (waits_s, left_s if ends else 0) if wait_s > 0]
        return min(waits, default=None)

    async def _stop(self, pod: Pod) -> float | None:
        meta = pod.metadata
        assert meta.deletion_timestamp is not None
        grace_s = meta.deletion_grace_period_seconds or 0
        deleted_s = meta.deletion_timestamp.timestamp() - grace_s
        takes_s = min(_seconds(pod, timings.STOPS_AFTER, self._timings.pod_stop_s), grace_s)
        left_s = deleted_s + takes_s - self._engine.clock.now_s()
        if left_s > 0:
            return left_s
        if meta.finalizers and not pods.ended(pod):
            await self._end(pod, "Failed")
        if not meta.finalizers or grace_s:
            await self._engine.kube.delete(pod, grace_period_s=0)
        return None

    async def _end(self, pod: Pod, phase: str) -> None:
        now, code = self._engine.now(), 0 if phase == "Succeeded" else 137
        state = {
            "terminated": {
                "exitCode": code,
                "finishedAt": now,
                "startedAt": pod.status.get("startTime") or now,
            }
        }
        status = {
            "phase": phase,
            "conditions": self._conditions(pod, ready=False),
            "containerStatuses": _containers(pod, state, ready=False),
        }
        await self._report(pod, status)

    async def _report(self, pod: Pod, status: dict[str, Any]) -> None:
        await self._engine.kube.patch(pod, {"status": status}, status=True, only_if_unchanged=True)

    def _conditions(self, pod: Pod, *, ready: bool) -> list[Json]:
        state = "True" if ready else "False"
        return pods.with_conditions(
            pod.status,
            self._engine.now(),
            {"type": "Initialized", "status": "True", "lastProbeTime": None},
            {"type": pods.READY, "status": state, "lastProbeTime": None},
            {"type": "ContainersReady", "status": state, "lastProbeTime": None},
        )

    def _left_s(self, since_s: dict[str, float], pod: Pod, takes_s: float) -> float:
        now_s = self._engine.clock.monotonic_s()
        return since_s.setdefault(pod.metadata.uid, now_s) + takes_s - now_s

    def _address(self, pod: Pod, kubelet: Kubelet) -> str:
        if pod.spec.get("hostNetwork"):
            return kubelet.address
        self._addresses += 1
        number = self._addresses % 2**22
        return f"100.{64 + number // 2**16}.{number // 2**8 % 2**8}.{number % 2**8}"


def _key(pod: Pod) -> Key:
    return pod.metadata.namespace, pod.metadata.name


def _seconds(pod: Pod, annotation: str, default: float) -> float:
    try:
        return float(pod.metadata.annotations.get(annotation, default))
    except ValueError:
        return default


def _containers(pod: Pod, state: Json, *, ready: bool) -> list[Json]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": container.get("image", ""),
            "ready": ready,
            "started": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        for container in pod.spec["containers"]
    ]
