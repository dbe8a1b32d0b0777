"""How long a snapshot of a large cluster blocks the event loop: the longest pause of the loop during a snapshot.

Run by `make bench`. Prints milliseconds of CPU time, which other work on the computer disturbs least, and asserts nothing.
The garbage collector is set up as in the controller. Five thousand nodes with their NodeClaims, ten pods on each; then as
many pending pods. One pod of each node has a volume.
"""

import asyncio
import time
from typing import Any, Final

import objects
from app_environment import AppEnvironment
from holdfast import names
from holdfast.api.meta import Object
from holdfast.app.program import App
from holdfast.runtime import process

NODES: Final = 5_000
PODS_A_NODE: Final = 10
CHANGED: Final = 200
NOMINATED: Final = 10_000
NOMINATED_NODES: Final = 600
ALLOCATABLE_STATUS: Final = {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"}}
UNSCHEDULABLE: Final = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
}


def main() -> None:
    process.raise_gc_threshold()
    asyncio.run(measure())


async def measure() -> None:
    app = AppEnvironment().app
    print(f"{'snapshot of':44}{'total':>10}{'longest pause':>16}")
    for number in range(NODES):
        add_node(app, number)
    process.freeze()
    await row(app, f"{NODES:,} nodes, {NODES * PODS_A_NODE:,} pods, for the first time")
    await row(app, "the same again")
    for number in range(CHANGED):
        put(app, pod(number * PODS_A_NODE, number, version=2))
    await row(app, f"the same, {CHANGED} pods changed")
    put(app, disk(0, version=2))
    await row(app, "the same, one volume claim changed")
    for number in range(NODES * PODS_A_NODE):
        put(app, objects.pod(f"w-{number}", {"uid": f"w-{number}", "resourceVersion": "1"}, UNSCHEDULABLE))
    await row(app, f"{NODES * PODS_A_NODE:,} pending pods more, for the first time")
    await row(app, "the same again")
    for number in range(NOMINATED):
        app.cluster_state.nominations.nominate([f"w-{number}"], f"n-{number % NOMINATED_NODES}", ready=True)
    await row(app, f"the same, {NOMINATED:,} nominated for {NOMINATED_NODES} nodes")
    await row(app, "the same again")


async def row(app: App, case: str) -> None:
    pauses: list[float] = []

    async def tick() -> None:
        while True:
            before_s = time.thread_time()
            await asyncio.sleep(0)
            pauses.append(time.thread_time() - before_s)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    began_s = time.thread_time()
    await app.cluster_state.snapshot()
    took_s = time.thread_time() - began_s
    await asyncio.sleep(0)
    ticking.cancel()
    print(f"{case:44}{took_s * 1000:>7.0f} ms{max(pauses) * 1000:>13.0f} ms", flush=True)


def add_node(app: App, number: int) -> None:
    labels = {names.NODEPOOL: "default", names.INSTANCE_TYPE: "m5.4xlarge", names.ZONE: "us-west-2a"}
    labels |= {names.REGISTERED: "true", names.INITIALIZED: "true"}
    meta: dict[str, Any] = {"labels": labels, "resourceVersion": "1"}
    provider_id = f"aws:///us-west-2a/i-{number}"
    put(app, objects.nodeclaim(f"c-{number}", meta, {"providerID": provider_id, "nodeName": f"n-{number}"}))
    put(app, objects.node(f"n-{number}", meta, spec={"providerID": provider_id}, status=ALLOCATABLE_STATUS))
    put(app, disk(number))
    for one in range(PODS_A_NODE):
        put(app, pod(number * PODS_A_NODE + one, number))


def pod(number: int, node: int, version: int = 1) -> Object:
    meta = {"uid": f"p-{number}", "resourceVersion": str(version), "labels": {"app": f"a-{number % 100}"}}
    claim = [{"name": "v", "persistentVolumeClaim": {"claimName": f"d-{node}"}}]
    return objects.pod(
        f"p-{number}", meta, nodeName=f"n-{node}", volumes=claim if number % PODS_A_NODE == 0 else []
    )


def disk(number: int, version: int = 1) -> Object:
    return objects.claim(f"d-{number}", {"resourceVersion": str(version)}, spec={"storageClassName": "gp3"})


def put(app: App, obj: Object) -> None:
    objects.store(app.caches, obj)


if __name__ == "__main__":
    main()
