"""An idle cluster, for tests and benchmarks that count the AWS calls of the controller."""

import dataclasses
from collections import Counter
from typing import Any

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.sim.cluster.timings import Timings

ONE_PER_NODE = {"cpu": "1500m"}
SETTLES_S = 300
SLOTS = 10  # of each reservation
SETTINGS = dataclasses.replace(app_environment.SETTINGS, interruption_queue=app_environment.QUEUE)
# Few heartbeats: they dominate the run time of an idle cluster and cause no AWS calls.
QUIET = Timings(boot_s=5, ready_s=2, devices_s=1, startup_taints=(), heartbeat_s=600, grace_s=1800, poll_s=5)


def calls(nodes: int, reservations: int, minutes: int, *, consolidate_after: str = "30s") -> Counter[str]:
    """Counts the AWS calls by operation, except SQS, during `minutes` in an idle cluster. Nodes that do not fit into the
    reservations are on-demand."""
    counted: Counter[str] = Counter()

    async def program(env: AppEnvironment) -> None:
        for _ in range(reservations):
            env.reserve(total=SLOTS, tags={"team": "ml"})
        terms: dict[str, Any] = {"capacityReservationSelectorTerms": [{"tags": {"team": "ml"}}]}
        await env.node_class(**(terms if reservations else {}))
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("reserved", "on-demand")],
            disruption={"consolidateAfter": consolidate_after},
        )
        await env.deploy("web", nodes, **ONE_PER_NODE)
        await env.until_running(nodes, within_s=1800)
        await env.sleep(SETTLES_S)
        env.endpoint.log.clear()
        await env.sleep(minutes * 60)
        counted.update(call.operation for call in env.endpoint.log if call.service != "sqs")

    app_environment.run(program, settings=SETTINGS, timings=QUIET)
    return counted
