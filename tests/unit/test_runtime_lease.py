"""Leader election: never two leaders, whatever the network and the wall clocks do."""

import asyncio
import random

import pytest

from holdfast.kube.client import Client, ClientSettings
from holdfast.runtime.lease import Election, LeaseSettings
from holdfast.sim import time
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from lease_server import LeaseServer
from scripted import START


def candidate(server: LeaseServer, name: str, clock: VirtualClock | None = None) -> Election:
    clock = clock or VirtualClock(START)
    ids = SeededIds(name)
    kube = Client(transport=server, clock=clock, ids=ids, settings=ClientSettings(attempts=2))
    return Election(kube=kube, clock=clock, ids=ids, settings=LeaseSettings("kube-system"), identity=name)


def spec(server: LeaseServer) -> dict[str, object]:
    (lease,) = server.leases.values()
    found = lease["spec"]
    assert isinstance(found, dict)
    return found


@pytest.mark.fact("O-4")
def test_the_first_replica_leads_and_the_second_waits() -> None:
    async def program() -> None:
        server = LeaseServer(random.Random(1))
        first, second = candidate(server, "first"), candidate(server, "second")
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(3600)
        assert first.leads()
        assert not waiting.done()
        assert spec(server)["holderIdentity"] == "first"
        assert spec(server)["leaseTransitions"] == 1
        holding.cancel()
        waiting.cancel()

    time.run(program())


def test_a_released_lease_is_acquired_at_once() -> None:
    async def program() -> None:
        server = LeaseServer(random.Random(1))
        first, second = candidate(server, "first"), candidate(server, "second")
        await first.acquire()
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(5)
        await first.release()
        assert not first.leads()
        await asyncio.wait_for(waiting, 5)
        assert second.leads()
        assert spec(server)["leaseTransitions"] == 2

    time.run(program())


def test_the_lease_of_a_crashed_leader_is_acquired_after_it_expires() -> None:
    async def program() -> None:
        server = LeaseServer(random.Random(1))
        first, second = candidate(server, "first"), candidate(server, "second")
        await first.acquire()
        start_s = asyncio.get_running_loop().time()
        await second.acquire()
        assert not first.leads()
        assert 15 <= asyncio.get_running_loop().time() - start_s <= 25

    time.run(program())


def test_a_leader_without_an_api_server_stops_before_the_lease_expires() -> None:
    async def program() -> None:
        server = LeaseServer(random.Random(1))
        first = candidate(server, "first")
        await first.acquire()
        server.trouble = 1
        start_s = asyncio.get_running_loop().time()
        await first.hold()
        assert not first.leads()
        assert asyncio.get_running_loop().time() - start_s <= 15

    time.run(program())


def test_a_paused_process_does_not_lead_afterwards() -> None:
    async def program() -> None:
        first = candidate(LeaseServer(random.Random(1)), "first")
        await first.acquire()
        assert first.leads()
        await asyncio.sleep(10)
        assert not first.leads()

    time.run(program())


def test_a_lease_changed_by_another_writer_is_read_again_and_renewed() -> None:
    async def program() -> None:
        server = LeaseServer(random.Random(1))
        first = candidate(server, "first")
        await first.acquire()
        (path,) = server.leases
        server._store(path, server.leases[path])  # for example an annotation
        holding = asyncio.create_task(first.hold())
        await asyncio.sleep(60)
        assert first.leads()
        holding.cancel()

    time.run(program())


@pytest.mark.parametrize("seed", range(12))
def test_there_are_never_two_leaders_and_finally_one(seed: int) -> None:
    """One hour with a faulty network, clocks set at random, and replicas that start and stop."""

    async def program() -> None:
        rng = random.Random(seed)
        server = LeaseServer(rng, trouble=0.2)
        clocks = [VirtualClock(START) for _ in range(3)]
        elections = [candidate(server, f"{seed}-{n}", clock) for n, clock in enumerate(clocks)]
        stop = asyncio.Event()
        replicas = [asyncio.create_task(run_replica(election, rng, stop)) for election in elections]
        leader_count = 0
        for _ in range(3600 * 4):
            await asyncio.sleep(0.25)
            leaders = [election for election in elections if election.leads()]
            assert len(leaders) <= 1
            leader_count += len(leaders)
            if rng.random() < 0.01:
                rng.choice(clocks).jumped_s = rng.uniform(-1e6, 1e6)
        assert leader_count > 0
        server.trouble = 0
        stop.set()
        await asyncio.sleep(60)
        assert len([election for election in elections if election.leads()]) == 1
        for task in replicas:
            task.cancel()
        await asyncio.gather(*replicas, return_exceptions=True)

    time.run(program())


async def run_replica(election: Election, rng: random.Random, stop: asyncio.Event) -> None:
    """Leads when it can; until `stop` is set it stops at random times, with or without a release."""
    while True:
        await election.acquire()
        if stop.is_set():
            await election.hold()
            continue
        try:
            async with asyncio.timeout(rng.uniform(10, 300)):
                await election.hold()
        except TimeoutError:
            if rng.random() < 0.5:
                await election.release()
            await asyncio.sleep(rng.uniform(0, 30))
