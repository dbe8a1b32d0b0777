"""Watches of the embedded API server, through both fronts."""

import asyncio

from api_fronts import NODES, PATIENCE_S, PODS, Line, each_front, each_server, line, node, pod


@each_server
async def test_watch_continues_from_a_version_without_gaps(line: Line) -> None:
    await line.create(PODS, pod("a"))
    version = (await line.get(PODS))["metadata"]["resourceVersion"]
    await line.create(PODS, pod("b"))
    async with line.watching(f"{PODS}?watch=true&resourceVersion={version}") as events:
        await line.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
        await line.ask("DELETE", f"{PODS}/b")
        received = [await events.next() for _ in range(4)]
    assert [(e["type"], e["object"]["metadata"]["name"]) for e in received] == [
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("MODIFIED", "b"),  # its deletionTimestamp was set
        ("DELETED", "b"),
    ]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in received]
    assert versions == sorted(set(versions))  # the deletion has its own version


@each_server
async def test_watch_without_a_version_starts_with_the_existing_objects(line: Line) -> None:
    await line.create(PODS, pod("a"))
    for query in ("watch=1", "watch=true&resourceVersion=0"):
        async with line.watching(f"{PODS}?{query}") as events:
            assert await events.next_changes(1) == [("ADDED", "a")]


@each_server
async def test_watchlist_ends_its_initial_events_with_a_bookmark(line: Line) -> None:
    await line.create(PODS, pod("a"))
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with line.watching(f"{PODS}?{query}") as events:
        assert await events.next_changes(1) == [("ADDED", "a")]
        bookmark = await events.next()
        assert bookmark["type"] == "BOOKMARK"
        assert (bookmark["object"]["kind"], bookmark["object"]["apiVersion"]) == ("Pod", "v1")
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        version = bookmark["object"]["metadata"]["resourceVersion"]
        assert version == (await line.get(PODS))["metadata"]["resourceVersion"]
        await line.create(PODS, pod("b"))
        assert await events.next_changes(1) == [("ADDED", "b")]
    refused = await line.ask("GET", f"{PODS}?watch=true&sendInitialEvents=true")
    assert (refused.status, refused.value["reason"]) == (422, "Invalid")


@each_server
async def test_watch_with_a_selector_adds_and_deletes_objects_when_labels_change(line: Line) -> None:
    version = (await line.get(PODS))["metadata"]["resourceVersion"]
    async with line.watching(f"{PODS}?watch=true&resourceVersion={version}&labelSelector=app=web") as events:
        await line.create(PODS, pod("a"))
        await line.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "db"}}})
        await line.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}})
        await line.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "web"}}})
        assert await events.next_changes(3) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


@each_server
async def test_patch_without_a_change_causes_no_event(line: Line) -> None:
    made = await line.create(PODS, pod("a"))
    async with line.watching(
        f"{PODS}?watch=true&resourceVersion={made['metadata']['resourceVersion']}"
    ) as events:
        await line.patch(f"{PODS}/a", {"metadata": {"labels": {"app": "web"}}})
        await line.create(PODS, pod("b"))
        assert await events.next_changes(1) == [("ADDED", "b")]


@each_front
async def test_watch_ends_after_its_timeout(line: Line) -> None:
    version = (await line.get(NODES))["metadata"]["resourceVersion"]
    async with line.watching(f"{NODES}?watch=true&resourceVersion={version}&timeoutSeconds=30") as events:
        assert await asyncio.wait_for(events.ends(), PATIENCE_S) == b""


@each_front
async def test_idle_watch_receives_bookmarks(line: Line) -> None:
    version = (await line.get(NODES))["metadata"]["resourceVersion"]
    await line.create(PODS, pod())
    query = f"watch=true&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds=100"
    async with line.watching(f"{NODES}?{query}") as events:
        bookmark = await events.next()
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) > int(version)


@each_front
async def test_watch_of_metadata_has_only_metadata(line: Line) -> None:
    await line.create(PODS, pod("a"))
    accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    accept += "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
    async with line.watching(f"{PODS}?watch=true", accept) as events:
        event = await events.next()
    assert event["object"].keys() == {"kind", "apiVersion", "metadata"}
    assert (event["object"]["kind"], event["object"]["metadata"]["name"]) == ("PartialObjectMetadata", "a")


@each_front
async def test_watch_ends_when_its_crd_is_deleted(line: Line) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.x.dev"},
        "spec": {
            "group": "x.dev",
            "scope": "Cluster",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    await line.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    async with line.watching("/apis/x.dev/v1/things?watch=true") as events:
        await line.create(
            "/apis/x.dev/v1/things", {"apiVersion": "x.dev/v1", "kind": "Thing", "metadata": {"name": "a"}}
        )
        assert await events.next_changes(1) == [("ADDED", "a")]
        await line.ask("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.dev")
        await asyncio.wait_for(events.ends(), PATIENCE_S)
    assert (await line.ask("GET", "/apis/x.dev/v1/things")).status == 404


def test_version_beyond_the_window_has_expired() -> None:
    async def run() -> None:
        async with line(window=5) as small:
            first = (await small.get(NODES))["metadata"]["resourceVersion"]
            for n in range(12):
                await small.create(NODES, node(f"n{n}"))
            async with small.watching(f"{NODES}?watch=true&resourceVersion={first}") as events:
                error = await events.next()
            assert (error["type"], error["object"]["code"], error["object"]["reason"]) == (
                "ERROR",
                410,
                "Expired",
            )
            stale = await small.ask("GET", f"{NODES}?resourceVersion={first}&resourceVersionMatch=Exact")
            assert (stale.status, stale.value["reason"]) == (410, "Expired")

    asyncio.run(run())


def test_watch_that_falls_behind_has_expired() -> None:
    async def run() -> None:
        async with line(window=5) as small:
            version = (await small.get(NODES))["metadata"]["resourceVersion"]
            async with small.watching(f"{NODES}?watch=true&resourceVersion={version}") as events:
                for n in range(12):
                    await small.create(NODES, node(f"n{n}"))
                assert (await events.next())["object"]["code"] == 410

    asyncio.run(run())
