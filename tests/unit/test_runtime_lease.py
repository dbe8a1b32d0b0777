"""Leader election: one leads, never two, whatever the network and the clocks on the wall do."""

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
        began_s = asyncio.get_running_loop().time()
        await second.acquire()
        assert not first.leads()
        assert 15 <= asyncio.get_running_loop().time() - began_s <= 25

    time.run(program())


def test_a_leader_without_an_api_server_stops_before_the_lease_expires() -> None:
    async def program() -> None:
        server = LeaseServer(random.Random(1))
        first = candidate(server, "first")
        await first.acquire()
        server.trouble = 1
        began_s = asyncio.get_running_loop().time()
        await first.hold()
        assert not first.leads()
        assert asyncio.get_running_loop().time() - began_s <= 15

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
        server._store(path, server.leases[path])  # an annotation, say
        holding = asyncio.create_task(first.hold())
        await asyncio.sleep(60)
        assert first.leads()
        holding.cancel()

    time.run(program())


@pytest.mark.parametrize("seed", range(12))
def test_there_are_never_two_leaders_and_finally_one(seed: int) -> None:
    """An hour of a bad network, of clocks that are set at random and of replicas that come and go."""

    async def program() -> None:
        dice = random.Random(seed)
        server = LeaseServer(dice, trouble=0.2)
        clocks = [VirtualClock(START) for _ in range(3)]
        elections = [candidate(server, f"{seed}-{n}", clock) for n, clock in enumerate(clocks)]
        stop = asyncio.Event()
        lives = [asyncio.create_task(live(election, dice, stop)) for election in elections]
        led = 0
        for _ in range(3600 * 4):
            await asyncio.sleep(0.25)
            leaders = [election for election in elections if election.leads()]
            assert len(leaders) <= 1
            led += len(leaders)
            if dice.random() < 0.01:
                dice.choice(clocks).jumped_s = dice.uniform(-1e6, 1e6)
        assert led > 0
        server.trouble = 0
        stop.set()
        await asyncio.sleep(60)
        assert len([election for election in elections if election.leads()]) == 1
        for task in lives:
            task.cancel()
        await asyncio.gather(*lives, return_exceptions=True)

    time.run(program())


async def live(election: Election, dice: random.Random, stop: asyncio.Event) -> None:
    """Leads when it can; leaves now and then, in order or not, until the trouble is over."""
    while True:
        await election.acquire()
        if stop.is_set():
            await election.hold()
            continue
        try:
            async with asyncio.timeout(dice.uniform(10, 300)):
                await election.hold()
        except TimeoutError:
            if dice.random() < 0.5:
                await election.release()
            await asyncio.sleep(dice.uniform(0, 30))
