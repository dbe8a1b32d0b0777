"""Discovery as in production: real sockets, a thread pool, and the endpoint from the SDK's own configuration."""

import asyncio

import pytest

import sim_aws
from aws_environment import REGION, Environment, listed
from holdfast.api import kinds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import to_wire
from holdfast.cloud.aws.client.calls import Calls, Clients, Threads
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from manual_ports import CollectingRecorder, ManualClock, SeededIds


@pytest.mark.fact("aws-2.3.2")
def test_classes_resolved_concurrently_over_http_share_each_read(monkeypatch: pytest.MonkeyPatch) -> None:
    env = Environment()
    made = env.reserve(total=3)
    terms = [{"id": made.id}]
    classes = [env.node_class(f"c{n}", capacityReservationSelectorTerms=terms) for n in range(5)]
    threads, clock, clients = Threads(4), ManualClock(), Clients(REGION)
    with sim_aws.served(env.endpoint) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        calls = Calls(clients, executor=threads, clock=clock, ids=SeededIds(), recorder=CollectingRecorder())
        setup = Setup(cluster=Cluster(name="holdfast", endpoint=""), kubernetes=lambda: "1.36")
        discovery = Discovery(calls, setup, caches=env.caches, clock=clock, recorder=CollectingRecorder())
        for one in classes:
            env.watched(one)

        async def resolve_and_count() -> list[list[int]]:
            resolved = await asyncio.gather(*(_resolved(discovery, one) for one in classes))
            assert [listed(one) for one in resolved] == [[made.id]] * 5
            catalogs = await asyncio.gather(*(discovery.instance_types(one) for one in resolved))
            return [[o.count for it in types for o in it.offerings if o.reservation_id] for types in catalogs]

        try:
            assert asyncio.run(resolve_and_count()) == [[3]] * 5
        finally:
            threads.close()
            clients.close()
    assert env.asked("DescribeCapacityReservations") == 1
    assert env.asked("DescribeSubnets") == 1
    assert env.asked("GetParameter") == 5


async def _resolved(discovery: Discovery, node_class: EC2NodeClass) -> EC2NodeClass:
    patch = await discovery.resolve(node_class)
    status = {key: value for key, value in patch.items() if value is not None}
    made = kinds.from_plain(to_wire(node_class) | {"status": status}, EC2NodeClass)
    assert isinstance(made, EC2NodeClass)
    return made
