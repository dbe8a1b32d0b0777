"""A list confirms a cache whose watch is silent only if the list has nothing that the watch did not deliver."""

import json
from typing import Any

import pytest

import objects
from holdfast.api.pods import Pod
from holdfast.ports import Change
from holdfast.runtime.cache import SILENT_S, Caches
from holdfast.sim import time
from holdfast.sim.time import VirtualClock
from scripted import START, Response, Script, client


def pod(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": str(version)}}


def unreadable(name: str, version: int) -> dict[str, Any]:
    return pod(name, version) | {"status": [5]}


def pages(*items: dict[str, Any]) -> Any:
    body = json.dumps({"metadata": {"resourceVersion": "30"}, "items": list(items)}).encode()
    return client(Script(Response(200, body))).pages(Pod)


@pytest.mark.parametrize(
    ("listed", "nothing_new"),
    [
        ([pod("a", 1), pod("b", 2), unreadable("c", 3)], True),
        ([pod("a", 9), pod("b", 2), unreadable("c", 3)], False),  # changed
        ([pod("a", 1), unreadable("c", 3)], False),  # deleted
        ([pod("a", 1), pod("b", 2), unreadable("c", 3), pod("d", 9)], False),  # created
        ([pod("a", 1), pod("b", 2), unreadable("c", 9)], False),
        ([pod("a", 1), pod("b", 2), pod("c", 9)], False),  # readable again
        ([pod("a", 1), pod("b", 2)], False),
        ([pod("a", 1), pod("b", 2), unreadable("c", 3), unreadable("d", 9)], False),
    ],
)
def test_list_confirms_a_cache_only_if_it_has_nothing_new(
    listed: list[dict[str, Any]],
    nothing_new: bool,  # noqa: FBT001
) -> None:
    async def program() -> None:
        clock = VirtualClock(START)
        caches = Caches((Pod,), clock=clock)
        cache = caches.of(Pod)
        await cache.replace(pages(pod("a", 1), pod("b", 2), unreadable("c", 3)))
        await clock.sleep(SILENT_S - 1)
        assert await cache.confirm(pages(*listed)) is nothing_new
        assert {("default", one["metadata"]["name"]) for one in listed} == {
            *((one.metadata.namespace, one.metadata.name) for one in cache),
            *cache.unreadable,
        }
        await clock.sleep(1)
        assert (cache.silent_s < SILENT_S) is nothing_new
        cache.apply(Change("BOOKMARK", objects.pod("any", {"resourceVersion": "31"})))
        caches.check_fresh()

    time.run(program())
