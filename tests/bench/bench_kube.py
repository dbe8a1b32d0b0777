"""How fast pods are read, how much memory they use, and how long the event loop is blocked meanwhile.

Run by `make bench`. Prints a table; asserts nothing, since computers differ. The API server is a child process that sends
pods as a real one does, including managed fields; a pause of the loop is the delay of a task that runs every 2 ms. "Ours"
is the CPU time of the loop in one pause, which is the pause on a computer that is not shared. Rates are by CPU time too.
"""

import asyncio
import gc
import random
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from bench import workloads
from holdfast.api.pods import Pod
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.kube import decoding
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Fixed
from holdfast.kube.http import HttpTransport
from holdfast.runtime import logs, process
from holdfast.runtime.cache import Cache
from holdfast.runtime.clock import RealClock
from holdfast.runtime.compute import ThreadCompute
from holdfast.runtime.ids import RealIds
from holdfast.runtime.indexes import by_node, by_owner
from holdfast.runtime.lease import Election, LeaseSettings
from lease_server import LeaseServer
from planner_builders import fake_types, pool, request

PODS: Final = 100_000
DECODED: Final = 10_000
EVENTS: Final = 50_000
PLANNED: Final = 50_000
TICK_S: Final = 0.002


def main() -> None:
    if "--serve" in sys.argv:
        serve()
        return
    process.raise_gc_threshold()
    logs.configure(clock=RealClock(), level="warning", as_json=False)
    print("| what | measured | goal |\n| --- | --- | --- |")
    decode()
    asyncio.run(watch())
    asyncio.run(large_cluster(plan_request()))


def decode() -> None:
    body = page(0, DECODED, 1)
    took_s = min(timed(body) for _ in range(3))
    print(f"| decode {DECODED:,} pods ({len(body) / 1e6:.0f} MB) | {took_s:.2f} s | 0.3 s |", flush=True)


def timed(body: bytes) -> float:
    began_s = time.process_time()
    decoding.page(Pod, body)
    return time.process_time() - began_s


async def watch() -> None:
    lines = b"".join(b'{"type":"ADDED","object":%s}\n' % pod(n, 1) for n in range(EVENTS))
    cache = Cache(Pod, clock=RealClock())
    cache.index(by_node)

    async def chunks() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(lines), 65_536):
            yield lines[start : start + 65_536]

    began_s = time.process_time()
    async for change in decoding.changes(Pod, chunks()):
        cache.apply(change)
    rate = EVENTS / (time.process_time() - began_s)
    assert len(cache) == EVENTS
    print(f"| watch events a second, into the cache | {rate:,.0f} | 10,000 |", flush=True)


async def large_cluster(asked: SolveRequest) -> None:
    before_mb = resident_mb()
    async with server() as transport:
        clock, ids = RealClock(), RealIds()
        settings = ClientSettings(per_second=1e6, burst=1000)
        kube = Client(transport=transport, clock=clock, ids=ids, settings=settings)
        lease = Election(kube=kube, clock=clock, ids=ids, settings=LeaseSettings("default"), identity="bench")
        await lease.acquire()
        holding = asyncio.create_task(lease.hold())
        cache = Cache(Pod, clock=clock)
        cache.index(by_node)
        cache.index(by_owner)
        await report("first list of 100,000 pods", cache.replace(kube.pages(Pod)))
        print(
            f"| memory of {len(cache):,} pods | {resident_mb() - before_mb:,.0f} MB | 1,200 MB |", flush=True
        )
        await report("the freeze after it (before leading)", asyncio.to_thread(lambda: None), process.freeze)
        await report("relist, nothing new", cache.replace(kube.pages(Pod)))
        await report("relist, every pod new", cache.replace(kube.pages(Pod)))
        print(f"| peak memory | {peak_mb():,.0f} MB | |", flush=True)
        compute = ThreadCompute()
        await report(f"a plan of {PLANNED:,} pods in the Compute port", compute.run(solve, asked))
        compute.close()
        print(f"| Lease held all the time | {'yes' if not holding.done() else 'NO'} | yes |", flush=True)
        holding.cancel()


def plan_request() -> SolveRequest:
    """The request of the plan; what is loaded once is loaded before, as in a controller that is ready."""
    wanted = [pool("default", fake_types(400))]
    solve(request(wanted, workloads.views(workloads.mix(100)), well_known=workloads.KNOWN))
    return request(wanted, workloads.views(workloads.mix(PLANNED)), well_known=workloads.KNOWN)


async def report(what: str, work: Awaitable[Any], inline: Any = None) -> None:
    """Runs the work and prints how long it took, and the longest pause of the event loop."""
    late_s: list[float] = []
    busy_s: list[float] = []

    async def tick() -> None:
        while True:
            began_s, cpu_s = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_S)
            late_s.append(time.perf_counter() - began_s - TICK_S)
            busy_s.append(time.thread_time() - cpu_s)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0.05)
    late_s.clear()
    busy_s.clear()
    began_s = time.perf_counter()
    if inline is not None:
        inline()
    await work
    took_s = time.perf_counter() - began_s
    await asyncio.sleep(0.01)
    ticking.cancel()
    worst, own = max(late_s) * 1000, max(busy_s) * 1000
    print(
        f"| {what} | {took_s:.2f} s, worst pause {worst:.0f} ms, {own:.0f} ms of it ours | 50 ms |",
        flush=True,
    )


def resident_mb() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


# --- The API server of the benchmark, a child process --------------------------------------------------


@asynccontextmanager
async def server() -> AsyncIterator[HttpTransport]:
    child = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)  # noqa: ASYNC220 - before the measurement
    assert child.stdout is not None
    transport = HttpTransport(Connection(Server(child.stdout.readline().strip()), Fixed()))
    try:
        yield transport
    finally:
        await transport.aclose()
        child.terminate()
        child.wait()


def serve() -> None:
    leases = LeaseServer(random.Random(1))
    lists = 0

    async def pods(asked: web.Request) -> web.Response:
        nonlocal lists
        start, size = int(asked.query.get("continue", "0")), int(asked.query["limit"])
        lists += start == 0
        # The third list has a new version of every pod; the first two are equal.
        return web.Response(
            body=page(start, min(size, PODS - start), 1 + lists // 3), content_type="application/json"
        )

    async def lease(asked: web.Request) -> web.Response:
        answer = await leases.request(asked.method, asked.path, {}, {}, await asked.read())
        assert isinstance(answer.body, bytes)
        return web.Response(status=answer.status, body=answer.body, content_type="application/json")

    async def run() -> None:
        app = web.Application()
        app.add_routes(
            [web.get("/api/v1/pods", pods), web.route("*", "/apis/coordination.k8s.io/{_:.*}", lease)]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def page(start: int, size: int, version: int) -> bytes:
    end = start + size
    following = b"" if end >= PODS else b',"continue":"%d"' % end
    items = b",".join(each(start, end, version))
    return b'{"kind":"PodList","metadata":{"resourceVersion":"9000000"%s},"items":[%s]}' % (following, items)


def each(start: int, end: int, version: int) -> Iterator[bytes]:
    return (pod(number, version) for number in range(start, end))


def pod(number: int, version: int) -> bytes:
    found = TEMPLATE.replace(b"NUMBER", b"%06d" % number).replace(b"NODE", b"ip-10-0-0-%d" % (number // 20))
    return found.replace(b"OWNER", b"%05d" % (number // 10)).replace(
        b"VERSION", b"%d" % (version * 1_000_000 + number)
    )


def template() -> bytes:
    """A pod as a Deployment creates it and a kubelet reports it, including fields that Holdfast does not read."""
    field = {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {f"f:{name}": {} for name in "abcdefghij"},
    }
    managed = [
        {
            "manager": name,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": field,
        }
        for name in ("kube-controller-manager", "kubelet")
    ]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web-OWNER",
        "uid": "uid-of-OWNER",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    resources = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
    mount = {
        "name": "kube-api-access-NUMBER",
        "readOnly": True,
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    }
    main = {
        "name": "main",
        "image": "registry.example.com/team/web:v1.2.3",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"SETTING_{n}", "value": "some value"} for n in range(8)],
        "resources": resources,
        "volumeMounts": [mount],
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {
            "key": f"node.kubernetes.io/{key}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for key in ("not-ready", "unreachable")
    ]
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    started = {
        "name": "main",
        "state": {"running": {"startedAt": "2026-01-01T00:00:10Z"}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "image": "registry.example.com/team/web:v1.2.3",
        "imageID": "registry.example.com/team/web@sha256:NUMBER",
        "containerID": "containerd://NUMBER",
        "started": True,
        "allocatedResources": {"cpu": "250m", "memory": "512Mi"},
        "resources": resources,
    }
    made = {
        "metadata": {"name": "web-OWNER-NUMBER", "generateName": "web-OWNER-", "namespace": "team", "uid": "uid-NUMBER", "resourceVersion": "VERSION", "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web", "pod-template-hash": "OWNER"}, "annotations": {"example.com/checksum": "NUMBER"}, "ownerReferences": [owner], "managedFields": managed},
        "spec": {"volumes": [{"name": "kube-api-access-NUMBER", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}], "defaultMode": 420}}], "containers": [main], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "nodeName": "NODE", "securityContext": {}, "schedulerName": "default-scheduler", "tolerations": tolerations, "topologySpreadConstraints": [spread], "priority": 0, "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority"},
        "status": {"phase": "Running", "conditions": conditions, "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [started], "qosClass": "Burstable"},
    }  # fmt: skip
    return msgspec.json.encode(made)


TEMPLATE: Final = template()

if __name__ == "__main__":
    main()
