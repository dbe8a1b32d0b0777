"""A bounded part of `make faults`: real processes, faults between them and their endpoints, from fixed seeds."""

import asyncio
import gc
import json
import random
import socket
from typing import Any

import pytest

from faults import calls, campaign, damage, environment, kills, pauses, proxy, steps, views
from faults.calls import Call
from faults.damage import Kind
from faults.wire import Answer, Request
from holdfast.sim.api.serving import certificates

SEED = 1
FAULTS = 24
STEPS = ("grow", "replace")


def failures(found: dict[str, Any]) -> list[str]:
    return [
        f"{row['call']}: {row['kind']} during {row['step']}: {row['outcome']}"
        for row in found["results"]
        if row["outcome"] not in ("recovered", "not met")
    ]


def test_controller_recovers_from_faults_of_single_calls() -> None:
    async def main() -> campaign.Outcome:
        step_calls = await campaign.discover(step_names=STEPS)
        chosen = campaign.sample(campaign.pairs(step_calls), FAULTS, SEED)
        return await campaign.run(step_calls, chosen, seed=SEED, time_s=60, environments=2)

    outcome = asyncio.run(main())
    assert not failures(outcome.plain())
    assert sum(result.injected for result in outcome.results) > 0


def test_paused_leader_writes_nothing_to_the_cloud_after_another_replica_leads() -> None:
    assert not failures(asyncio.run(pauses.run(2, SEED, shortest_s=16)))


def test_controller_recovers_from_kills_at_random_writes() -> None:
    assert not failures(asyncio.run(kills.run(3, SEED, environments=1)))


def test_silent_pod_watch_terminates_no_running_pod() -> None:
    assert not failures(asyncio.run(views.run_stale(1, SEED)))


@pytest.mark.parametrize("number", [0, 3])
def test_clock_offset_causes_no_additional_launch(number: int) -> None:
    assert not failures(asyncio.run(views.run_clocks(1, SEED, first=number)))


def test_judge_reports_a_node_that_is_launched_next_to_a_free_slot() -> None:
    """Without ReservedCapacity, Holdfast uses no slots."""

    async def main() -> list[str]:
        async with environment.serving() as made:
            await made.set_up()
            await made.app(steps.APP, 1)
            process = await made.prepare()
            process.environ["FEATURE_GATES"] = "ReservedCapacity=false"
            await process.start()
            return [*await made.converged(60), *made.broken_rules()]

    found = asyncio.run(main())
    assert any("runs on demand" in one for one in found), found
    assert any("slots of" in one and "were unused" in one for one in found), found


# --- The harness itself ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("GET", "/version", "get /version"),
        ("GET", "/api/v1/pods?limit=500", "list pods"),
        ("GET", "/api/v1/pods?watch=true&resourceVersion=5", "watch pods"),
        ("GET", "/api/v1/nodes/a", "get nodes"),
        ("POST", "/api/v1/namespaces/default/pods/a/eviction", "create pods/eviction"),
        ("PATCH", "/apis/karpenter.sh/v1/nodeclaims/a/status", "patch nodeclaims/status"),
        ("DELETE", "/apis/karpenter.sh/v1/nodeclaims/a", "delete nodeclaims"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a", "get leases"),
        ("GET", "/api/v1/namespaces?limit=500", "list namespaces"),
    ],
)
def test_calls_are_named_by_verb_and_resource(method: str, target: str, name: str) -> None:
    assert calls.of_kubernetes(Request(method, target, [])) == Call(calls.KUBERNETES, name)


def test_dry_run_is_not_a_write() -> None:
    assert Call(calls.AWS, "ec2 CreateFleet").is_write
    assert not Call(calls.AWS, "ec2 CreateFleet", dry_run=True).is_write
    assert not Call(calls.AWS, "ec2 DescribeInstances").is_write


@pytest.mark.parametrize("seed", range(20))
def test_wrong_types_change_one_value(seed: int) -> None:
    body = json.dumps({"metadata": {"name": "a"}, "items": [1, "b", {"c": [True]}]}).encode()
    damaged = damage.wrong_types(body, random.Random(seed))
    assert json.loads(damaged) != json.loads(body)
    assert damaged == damage.wrong_types(body, random.Random(seed))


@pytest.mark.parametrize("kind", sorted(damage.REPLACING))
def test_replaced_answer_has_an_error_status(kind: Kind) -> None:
    answer = damage.replacement(kind, random.Random(1))
    assert answer.status >= 300
    assert isinstance(answer, Answer)


@pytest.mark.parametrize("rounds", range(5))
def test_connection_that_was_just_accepted_is_closed_with_its_server(rounds: int) -> None:
    """`rounds`: of the event loop between the connection and the end of the server."""

    async def main() -> None:
        tls = environment.server_tls(certificates.make("127.0.0.1"))
        upstream = proxy.Upstream("127.0.0.1", 1)
        async with proxy.Proxy(upstream, calls.of_kubernetes, 0, tls=tls).serving() as served:
            client = socket.create_connection(("127.0.0.1", served.port))
            for _ in range(rounds):
                await asyncio.sleep(0)
        client.close()

    asyncio.run(main())
    gc.collect()
