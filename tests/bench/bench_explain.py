"""How long the JSON API takes on a large cluster, how long it blocks the event loop, and how much it sends.

Run by `make bench`. 10,000 nodes with ten pods each, 500 reservations of 20 slots, 3,000 pending pods; the planner's
thread is real. Each document is requested by curl with compression. Prints a table and asserts nothing.
"""

import asyncio
import dataclasses
import logging
import time
from typing import Any, Final

import structlog

import builders
import objects
from app_environment import AppEnvironment
from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.app import explaining
from holdfast.app.program import App
from holdfast.explain.server import Explain, application
from holdfast.runtime import health, process
from holdfast.runtime.clock import RealClock
from holdfast.runtime.compute import ThreadCompute

NODES: Final = 10_000
PODS_A_NODE: Final = 10
PENDING: Final = 3_000
RESERVATIONS: Final = 500
SLOTS: Final = 20
UNSCHEDULABLE: Final = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
}
PATHS: Final = (
    "/api/v1/status",
    "/api/v1/reservations",
    "/api/v1/nodes?limit=100",
    "/api/v1/nodes?search=n-99&limit=100",
    "/api/v1/pods",
    "/api/v1/plan",
    "/api/v1/search?q=p-9999",
    "/api/v1/explain/node/n-77",
    "/api/v1/explain/pod/default/p-77",
    "/api/v1/explain/nodepool/default",
)


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    process.raise_gc_threshold()
    asyncio.run(measure())


async def measure() -> None:
    env = AppEnvironment()
    app = env.app
    ids = [env.reserve(total=SLOTS).id for _ in range(RESERVATIONS)]
    put(app, node_class(ids))
    for number in range(NODES):
        add_node(app, number, ids[number // SLOTS % RESERVATIONS])
    for number in range(PENDING):
        put(app, objects.pod(f"w-{number}", {"uid": f"w-{number}", "resourceVersion": "1"}, UNSCHEDULABLE))
    await app.cluster_state.slots(max_age_s=0)
    process.freeze()
    sources = dataclasses.replace(explaining.explain(app).sources, clock=RealClock(), compute=ThreadCompute())
    process_ = dataclasses.replace(sources.process, problem=str)
    explain = Explain(dataclasses.replace(sources, process=process_))
    print(
        f"{NODES:,} nodes, {NODES * PODS_A_NODE:,} pods, {PENDING:,} pending pods, "
        f"{len(app.cluster_state.reservations)} reservations of {SLOTS} slots"
    )
    print(f"{'request':44}{'first':>10}{'again':>10}{'longest pause':>16}{'sent':>10}")
    async with health.serve(
        application(explain, page=True, clock=RealClock(), only_local_hosts=True),
        host=explaining.LOOPBACK,
        port=0,
    ) as port:
        for path in PATHS:
            await row(f"http://{explaining.LOOPBACK}:{port}", path)


async def row(url: str, path: str) -> None:
    pauses: list[float] = []

    async def tick() -> None:
        while True:
            before_s = time.perf_counter()
            await asyncio.sleep(0.001)
            pauses.append(time.perf_counter() - before_s - 0.001)

    ticking = asyncio.create_task(tick())
    first_s, sent = await request(url + path)
    await asyncio.sleep(2.1)  # the list of reservations is reused for two seconds
    again_s, _ = await request(url + path)
    ticking.cancel()
    print(
        f"{path:44}{first_s * 1000:>7.0f} ms{again_s * 1000:>7.0f} ms{max(pauses) * 1000:>13.0f} ms"
        f"{sent / 1024:>7.1f} KiB",
        flush=True,
    )


async def request(url: str) -> tuple[float, int]:
    words = (
        "curl",
        "-s",
        "-o",
        "/dev/null",
        "-H",
        "Accept-Encoding: gzip",
        "-w",
        "%{time_total} %{size_download}",
    )
    process_ = await asyncio.create_subprocess_exec(*words, url, stdout=asyncio.subprocess.PIPE)
    out, _ = await process_.communicate()
    seconds, size = out.decode().split()
    return float(seconds), int(size)


def add_node(app: App, number: int, reservation: str) -> None:
    labels = {
        names.NODEPOOL: "default",
        names.INSTANCE_TYPE: "m5.large",
        names.ZONE: "us-west-2a",
        names.CAPACITY_TYPE: names.RESERVED if number % 3 else names.ON_DEMAND,
        names.REGISTERED: "true",
        names.INITIALIZED: "true",
    }
    if number % 3:
        labels[aws.CAPACITY_RESERVATION_ID] = reservation
    meta: dict[str, Any] = {
        "labels": labels,
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-15T09:00:00Z",
    }
    provider_id = f"aws:///us-west-2a/i-{number:017x}"
    status = {
        "providerID": provider_id,
        "nodeName": f"n-{number}",
        "conditions": [
            {"type": type_, "status": "True", "lastTransitionTime": "2026-11-15T09:00:00Z"}
            for type_ in ("Launched", "Registered", "Initialized")
        ],
    }
    put(app, objects.nodeclaim(f"c-{number}", meta, status))
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    put(app, objects.node(f"n-{number}", meta, spec={"providerID": provider_id}, status=ready))
    for one in range(PODS_A_NODE):
        name = f"p-{number * PODS_A_NODE + one}"
        put(app, objects.pod(name, {"uid": name, "resourceVersion": "1"}, nodeName=f"n-{number}"))


def node_class(ids: list[str]) -> EC2NodeClass:
    document = builders.ec2nodeclass_document(
        "default", capacityReservationSelectorTerms=[{"id": id_} for id_ in ids[:30]]
    )
    return objects.read(EC2NodeClass, "default", {"resourceVersion": "1"}, spec=document["spec"])


def put(app: App, obj: Object) -> None:
    objects.store(app.caches, obj)


if __name__ == "__main__":
    main()
