"""Injected faults have the same effect on a client through both fronts."""

import aiohttp
import pytest

from api_fronts import NODES, PODS, Line, each_front, node, pod
from holdfast.sim.api.serving.faults import Cut, Delay, Half, Lose, Refuse, Stale
from holdfast.sim.api.serving.front import Request

BROKEN = (ConnectionResetError, aiohttp.ClientError)


def everything(_request: Request) -> bool:
    return True


def watches(request: Request) -> bool:
    return "watch" in request.query


@each_front
async def test_refused_request_has_no_effect_and_a_retry_after_header(line: Line) -> None:
    line.faults.add(Refuse("TooManyRequests", retry_after_s=2), everything, times=2)
    for _ in range(2):
        answer = await line.ask("POST", NODES, node())
        assert (answer.status, answer.headers["retry-after"], answer.value["reason"]) == (
            429,
            "2",
            "TooManyRequests",
        )
    assert (await line.get(NODES))["items"] == []


@each_front
async def test_a_lost_request_has_no_effect_and_a_lost_answer_has(line: Line) -> None:
    for name, fault in (("n1", Lose()), ("n2", Lose(after_effect=True))):
        line.faults.add(fault, everything)
        with pytest.raises(BROKEN):
            await line.ask("POST", NODES, node(name))
    assert [item["metadata"]["name"] for item in (await line.get(NODES))["items"]] == ["n2"]


@each_front
async def test_half_an_answer_breaks_the_connection(line: Line) -> None:
    await line.create(NODES, node())
    line.faults.add(Half(40), everything)
    with pytest.raises(BROKEN):
        await line.ask("GET", NODES)
    assert len((await line.get(NODES))["items"]) == 1


@each_front
async def test_a_watch_may_break_in_the_middle_of_a_line(line: Line) -> None:
    await line.create(PODS, pod())
    line.faults.add(Half(60), watches)
    async with line.watching(f"{PODS}?watch=true") as events:
        with pytest.raises(BROKEN):
            await events.next()


@each_front
async def test_watch_may_end_after_a_complete_event(line: Line) -> None:
    await line.create(PODS, pod())
    line.faults.add(Cut(chunks=1), watches)
    async with line.watching(f"{PODS}?watch=true") as events:
        assert await events.next_changes(1) == [("ADDED", "a")]
        assert await events.ends() == b""


@each_front
async def test_stale_list_has_an_older_resource_version(line: Line) -> None:
    first = await line.create(NODES, node("n1"))
    await line.create(NODES, node("n2"))
    line.faults.add(Stale(versions=1), everything)
    stale = await line.get(NODES)
    assert [item["metadata"]["name"] for item in stale["items"]] == ["n1"]
    assert stale["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert len((await line.get(NODES))["items"]) == 2


@each_front
async def test_delayed_answer_advances_the_clock(line: Line) -> None:
    before = line.clock.now
    line.faults.add(Delay(9), everything)
    assert (await line.ask("GET", NODES)).status == 200
    assert line.clock.now == before + 9
