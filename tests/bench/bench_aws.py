"""How long the catalog of a region takes, and how often AWS is asked while nothing happens.

Run by `make bench`. Prints tables; asserts nothing, since machines differ. AWS is the simulated one, on the full
wire; the time that the simulation itself takes is measured and taken off, so what is left is ours and botocore's.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import aws_world
from aws_world import World, run
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.sim.aws.fronts import before_send
from holdfast.sim.ec2 import control

ROUNDS = 20
MINUTE = 60
IDLE_MINUTES = 30


def main() -> None:
    catalog()
    print()
    idle()


def catalog() -> None:
    world = World()
    made = [world.reserve() for _ in range(50)]
    run(world.calls.call("ec2", "DescribeSubnets"))  # makes the client
    node_class = world.selecting({"ownerID": aws_world.ACCOUNT})
    types, cold_s = timed(lambda: run(world.discovery.instance_types(node_class)))
    refreshed = []
    for n in range(ROUNDS):
        control.take(world.ec2.world, made[n].id, 1)
        run(world.discovery.count_again())
        _, seconds = timed(lambda: run(world.discovery.instance_types(node_class)))
        refreshed.append(seconds)
    _, prices_s = timed(lambda: run(world.discovery.schedule.step()))
    _, repriced_s = timed(lambda: run(world.discovery.instance_types(node_class)))
    offerings = sum(len(it.offerings) for it in types)
    print(
        f"catalog of {world.calls.region}: {len(types)} types, {offerings} offerings, {len(made)} reservations"
    )
    print(f"  from cold, types and zones read          {cold_s:6.3f} s   (goal 2)")
    print(f"  one reservation's count has changed      {statistics.median(refreshed):6.3f} s   (goal 0.1)")
    print(f"  all prices read                          {prices_s:6.3f} s")
    print(f"  all prices have changed                  {repriced_s:6.3f} s")


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and how long it took outside of the simulation."""
    inside = 0.0
    answer = before_send.BeforeSend.answer

    def measured(self: Any, request: Any, **more: object) -> Any:
        nonlocal inside
        began = time.perf_counter()
        try:
            return answer(self, request, **more)
        finally:
            inside += time.perf_counter() - began

    before_send.BeforeSend.answer = measured  # type: ignore[method-assign]
    try:
        began = time.perf_counter()
        result = work()
        return result, time.perf_counter() - began - inside
    finally:
        before_send.BeforeSend.answer = answer  # type: ignore[method-assign]


def idle() -> None:
    print("calls a minute while nothing happens (discovery alone; goal of all together 8, without SQS)")
    print("  nodes  reservations  classes   calls/min   which")
    world = World()  # one that grows: reading a region takes long
    run(world.discovery.schedule.step())
    made = 0
    for nodes, reservations, classes in (
        (0, 0, 1),
        (10, 1, 1),
        (100, 10, 1),
        (1000, 100, 3),
        (5000, 500, 10),
    ):
        for _ in range(reservations - made):
            world.reserve(tags={"team": "ml"})
        made = reservations
        which = idle_calls(world, nodes, classes, selecting=bool(reservations))
        words = ", ".join(f"{name} {count / IDLE_MINUTES:.2f}" for name, count in which.most_common())
        rate = which.total() / IDLE_MINUTES
        print(f"  {nodes:5}  {reservations:12}  {classes:7}   {rate:9.2f}   {words}")


def idle_calls(world: World, nodes: int, classes: int, *, selecting: bool) -> Counter[str]:
    """Nodes only ask for counts, once a minute each, which costs nothing."""
    terms = {"capacityReservationSelectorTerms": [{"tags": {"team": "ml"}}]} if selecting else {}
    made = minute(world, [world.node_class(f"c{n}", **terms) for n in range(classes)], nodes)
    world.endpoint.log.clear()
    for _ in range(IDLE_MINUTES):
        made = minute(world, made, nodes)
    return Counter(call.operation for call in world.endpoint.log)


def minute(world: World, classes: list[EC2NodeClass], nodes: int) -> list[EC2NodeClass]:
    classes = [world.resolve(node_class) for node_class in classes]
    for _ in range(min(nodes, 100)):
        run(world.discovery.reservations())
    until_s = world.clock.monotonic_s() + MINUTE
    while world.clock.monotonic_s() < until_s:
        world.clock.advance(run(world.discovery.schedule.step()))
    return classes


if __name__ == "__main__":
    main()
