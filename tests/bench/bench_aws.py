"""How long the catalog of a region takes, and how many AWS calls are made while nothing happens.

Run by `make bench`. Prints tables; asserts nothing, since computers differ. AWS is simulated, with complete requests and
responses; times are CPU times without that of the simulation, so they are those of Holdfast and botocore.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import aws_environment
from aws_environment import Environment, run
from holdfast.api import kinds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.model.instances import Instance
from holdfast.sim.aws.fronts import before_send
from holdfast.sim.ec2 import control
from launch_environment import LaunchEnvironment, capacity_type
from objects import nodeclaim

ROUNDS = 20
MINUTE = 60
IDLE_MINUTES = 30
FLEET = 1000  # as many as one call may launch


def main() -> None:
    catalog()
    print()
    idle()


def catalog() -> None:
    env = Environment()
    reservations = [env.reserve() for _ in range(50)]
    run(env.calls.call("ec2", "DescribeSubnets"))  # makes the client
    node_class = env.selecting({"ownerID": aws_environment.ACCOUNT})
    types, cold_s = timed(lambda: run(env.discovery.instance_types(node_class)))
    refreshed = []
    for n in range(ROUNDS):
        control.take(env.ec2.region, reservations[n].id, 1)
        run(env.discovery.count_again())
        _, seconds = timed(lambda: run(env.discovery.instance_types(node_class)))
        refreshed.append(seconds)
    _, prices_s = timed(lambda: run(env.discovery.schedule.step()))
    _, repriced_s = timed(lambda: run(env.discovery.instance_types(node_class)))
    offerings = sum(len(it.offerings) for it in types)
    print(
        f"catalog of {env.calls.region}: {len(types)} types, {offerings} offerings, {len(reservations)} reservations"
    )
    print(f"  empty cache, types and zones read        {cold_s:6.3f} s   (goal 2)")
    print(f"  one reservation's count has changed      {statistics.median(refreshed):6.3f} s   (goal 0.1)")
    print(f"  all prices read                          {prices_s:6.3f} s")
    print(f"  all prices have changed                  {repriced_s:6.3f} s")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result, and the CPU time outside of the simulation."""
    inside = 0.0
    answer = before_send.BeforeSend.answer

    def measured(self: Any, request: Any, **more: object) -> Any:
        nonlocal inside
        began = time.thread_time()
        try:
            return answer(self, request, **more)
        finally:
            inside += time.thread_time() - began

    before_send.BeforeSend.answer = measured  # type: ignore[method-assign]
    try:
        began = time.process_time()
        result = work()
        return result, time.process_time() - began - inside
    finally:
        before_send.BeforeSend.answer = answer  # type: ignore[method-assign]


def idle() -> None:
    print("calls a minute while nothing happens, without SQS (goal 8)")
    print("  nodes  reservations  classes   calls/min   by operation")
    for nodes, reservations, classes in (
        (0, 0, 1),
        (10, 1, 1),
        (100, 10, 1),
        (1000, 100, 3),
        (5000, 500, 10),
    ):
        counts = idle_calls(nodes, reservations, classes)
        details = ", ".join(f"{name} {count / IDLE_MINUTES:.2f}" for name, count in counts.most_common())
        rate = counts.total() / IDLE_MINUTES
        print(f"  {nodes:5}  {reservations:12}  {classes:7}   {rate:9.2f}   {details}")


def idle_calls(nodes: int, reservations: int, classes: int) -> Counter[str]:
    """Each minute every EC2NodeClass is resolved, including dry runs, all instances and their statuses are listed once, and
    every NodeClaim is checked for drift and reads the counts."""
    env = LaunchEnvironment()
    for _ in range(reservations):
        env.reserve(tags={"team": "ml"})
    terms = {"capacityReservationSelectorTerms": [{"tags": {"team": "ml"}}]} if reservations else {}
    node_classes = minute(env, [env.node_class(f"c{n}", **terms) for n in range(classes)], [])
    claims = launched_claims(env, node_classes[0], nodes)
    node_classes = minute(env, node_classes, claims)
    env.endpoint.log.clear()
    for _ in range(IDLE_MINUTES):
        node_classes = minute(env, node_classes, claims)
    return Counter(call.operation for call in env.endpoint.log)


def launched_claims(env: LaunchEnvironment, node_class: EC2NodeClass, nodes: int) -> list[NodeClaim]:
    claims = []
    for start in range(0, nodes, FLEET):
        count = min(FLEET, nodes - start)
        for found in env.launch(env.requests(node_class, capacity_type("on-demand"), count=count)):
            assert isinstance(found, Instance), found
            meta = {"labels": dict(found.labels), "annotations": dict(found.annotations)}
            claims.append(nodeclaim(found.claim or "", meta, {"providerID": found.provider_id}))
    return claims


def minute(
    env: LaunchEnvironment, classes: list[EC2NodeClass], claims: list[NodeClaim]
) -> list[EC2NodeClass]:
    classes = [resolved(env, node_class) for node_class in classes]
    run(env.cloud.instances())
    run(env.cloud.instance_statuses())
    for claim in claims[:: max(1, len(claims) // 100)]:  # the other NodeClaims make the same calls
        assert run(env.cloud.drift(claim, classes[0])) is None
        run(env.cloud.reservations())
    until_s = env.clock.monotonic_s() + MINUTE
    while env.clock.monotonic_s() < until_s:
        env.clock.advance(run(env.discovery.schedule.step()))
    return classes


def resolved(env: LaunchEnvironment, node_class: EC2NodeClass) -> EC2NodeClass:
    body = to_wire(node_class)
    status = {**body.get("status", {}), **run(env.cloud.resolve(node_class))}
    body["status"] = {key: value for key, value in status.items() if value is not None}
    node_classes = kinds.from_plain(body, EC2NodeClass)
    assert isinstance(node_classes, EC2NodeClass)
    return node_classes


if __name__ == "__main__":
    main()
