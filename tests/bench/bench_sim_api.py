"""How fast the embedded API server is: writes a second with one watcher, watch events a second, lists, requests.

Called by `make bench`. It prints a table and asserts nothing.
"""

import asyncio
import json
import time
from collections.abc import Callable

from api_fronts import MERGE, NODES, PODS, Json, StillClock, node, pod
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.front import Request
from holdfast.sim.api.storage.store import Store
from holdfast.sim.ids import SeededIds

WRITES = 20_000
OBJECTS = 10_000
REQUESTS = 2_000
PAGE = 500


async def main() -> None:
    await store_writes()
    await requests()
    await watch_events()
    await lists()


def report(what: str, count: int, seconds: float) -> None:
    print(f"{what:<58} {count / seconds:>10,.0f} /s   ({count:,} in {seconds:.2f} s)")


def timed(what: str, count: int, work: Callable[[], object]) -> None:
    began = time.perf_counter()
    work()
    report(what, count, time.perf_counter() - began)


def a_pod(number: int) -> Json:
    value = pod(f"p{number}")
    value["metadata"] |= {"uid": f"u{number}", "namespace": "default"}
    return value


async def store_writes() -> None:
    """The store alone: encoding, versions, history, and a watcher that reads each change."""
    store = Store()
    values = [a_pod(number % 1000) for number in range(WRITES)]
    bucket = store.bucket("/pods")
    position, heard = bucket.end, 0

    def write() -> None:
        nonlocal position, heard
        for number, value in enumerate(values):
            store.put("/pods", value)
            if number % 100 == 0:
                changes = bucket.changes(position)
                heard += sum(len(change.after.body) for change in changes)
                position += len(changes)

    timed("store: writes with one watcher", WRITES, write)


async def requests() -> None:
    """Complete requests through the in-process front: decoding, defaults, validation, managed fields, storage, response."""
    server = ApiServer(clock=StillClock(), ids=SeededIds(1))

    async def each(
        what: str, method: str, path: Callable[[int], str], body: Callable[[int], Json], type_: str
    ) -> None:
        requests_to_send = [
            Request(
                method,
                path(n),
                {},
                {"content-type": type_, "user-agent": "bench/1"},
                json.dumps(body(n)).encode(),
            )
            for n in range(REQUESTS)
        ]
        began = time.perf_counter()
        for request in requests_to_send:
            answer = await server.handle(request)
            assert answer.status in (200, 201), answer.body
        report(what, REQUESTS, time.perf_counter() - began)

    await each("requests: create a pod", "POST", lambda _: PODS, lambda n: pod(f"p{n}"), "application/json")
    await each(
        "requests: merge patch of a pod's status",
        "PATCH",
        lambda n: f"{PODS}/p{n}/status",
        lambda _: {"status": {"phase": "Running"}},
        MERGE,
    )
    await each(
        "requests: create a node", "POST", lambda _: NODES, lambda n: node(f"n{n}"), "application/json"
    )
    await each("requests: get a pod", "GET", lambda n: f"{PODS}/p{n}", lambda _: {}, "application/json")


async def watch_events() -> None:
    """From the store to the lines of a watch, as a client in the same process gets them."""
    server = ApiServer(clock=StillClock(), ids=SeededIds(1), window=WRITES)
    version = server.registry.store.version
    for number in range(OBJECTS):
        server.registry.store.put(
            "/nodes", {**node(f"n{number}"), "metadata": {"name": f"n{number}", "uid": f"u{number}"}}
        )
    answer = await server.handle(Request("GET", NODES, {"watch": "true", "resourceVersion": str(version)}))
    assert not isinstance(answer.body, bytes)
    began, heard = time.perf_counter(), 0
    async for chunk in answer.body:
        heard += chunk.count(b"\n")
        if heard == OBJECTS:
            break
    await answer.body.aclose()
    report("watch: events to one watcher", heard, time.perf_counter() - began)


async def lists() -> None:
    server = ApiServer(clock=StillClock(), ids=SeededIds(1))
    for number in range(OBJECTS):
        value = a_pod(number)
        server.registry.store.put("/pods", {**value, "spec": {**value["spec"], "nodeName": ""}})
    began, query, found = time.perf_counter(), {"limit": str(PAGE)}, 0
    while True:
        answer = await server.handle(Request("GET", "/api/v1/pods", query))
        assert isinstance(answer.body, bytes)
        page = json.loads(answer.body)
        found += len(page["items"])
        if "continue" not in page["metadata"]:
            break
        query = {"limit": str(PAGE), "continue": page["metadata"]["continue"]}
    report(f"list: objects in pages of {PAGE}, decoded", found, time.perf_counter() - began)


if __name__ == "__main__":
    asyncio.run(main())
