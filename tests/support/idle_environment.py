"""A cluster in which everything has settled, for whoever counts what the whole program still asks AWS for."""

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
# Heartbeats are most of what happens in a quiet cluster, and none of what is counted here.
QUIET = Timings(boot_s=5, ready_s=2, devices_s=1, startup_taints=(), heartbeat_s=600, grace_s=1800, poll_s=5)


def calls(nodes: int, reservations: int, minutes: int, *, consolidate_after: str = "30s") -> Counter[str]:
    """By operation, all calls but those of SQS in so many minutes of a settled cluster. Its nodes are in the slots of
    the reservations as far as those go, the others are bought."""
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
