"""The complete controller in a cluster with hostile objects, which must not affect healthy objects.

Used by tests/fuzz/test_hostile_objects.py and scripts/fuzz_hostile.py. A seed is one cluster in virtual time. The objects
bypass the validation of the API server, like objects that are older than a change of their CRD. The controller runs in
strict mode, so an unexpected exception ends the run.
"""

import dataclasses
from random import Random

import msgspec

import app_environment
import hostile
from app_environment import AppEnvironment
from holdfast.api.meta import Object, Wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.app import explaining
from holdfast.explain.reports import NodeQuery
from holdfast.runtime.cache import key_of

HOSTILE = "hostile-"
OBJECTS = 40
DISRUPTION = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}


def run(seed: int, *, objects: int = OBJECTS) -> None:
    """Raises if a healthy pod gets no node, an empty node remains, or the controller has a bug."""
    dice = Random(seed)

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        requirements = [app_environment.instance_types("m5.large")]
        await env.node_pool(requirements=requirements, disruption=DISRUPTION)
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        for number in range(objects):
            write(env, dice.choice(hostile.kinds()), number, dice)
        await env.sleep(30)
        await explain_everything(env)
        await env.app.refresh_metrics()
        assert "karpenter_pods_state{" in env.app.metrics.text().decode()
        await env.deploy("late", 1, cpu="1500m")
        await env.until_running(1, "late")
        await env.scale("web", 0)

        async def one_is_left() -> bool:
            return len([claim for claim in await env.claims() if is_healthy(claim)]) == 1

        await env.until(one_is_left, within_s=600)
        await env.until_running(1, "late")
        await explain_everything(env)
        await env.app.refresh_metrics()

    settings = dataclasses.replace(app_environment.SETTINGS, metrics_per_object=bool(seed % 2))
    app_environment.run(program, seed=seed, settings=settings)


async def explain_everything(env: AppEnvironment) -> None:
    """Every document can be made and written as JSON, whatever the objects have."""
    explain = explaining.explain(env.app)
    reports, caches = explain.reports, env.app.caches
    documents: list[Wire] = [
        await reports.status(),
        await reports.reservations(),
        await reports.nodes(NodeQuery()),
        await reports.pending(),
        await reports.plan(),
        await reports.search(""),
        reports.decisions(),
    ]
    asked: list[tuple[str, Object]] = [("pod", pod) for pod in caches.of(Pod)]
    asked += [("node", node) for node in caches.of(Node)]
    asked += [("nodeclaim", claim) for claim in caches.of(NodeClaim)]
    asked += [("nodepool", pool) for pool in caches.of(NodePool)]
    for kind, obj in asked:
        namespace, name = key_of(obj)
        documents.append(await explain.answers.explain(kind, namespace, name))
    for document in documents:
        msgspec.json.encode(document)


def write(env: AppEnvironment, kind: str, number: int, dice: Random) -> None:
    document = hostile.document(kind, f"{HOSTILE}{kind.lower()}-{number}", dice, stored=True)
    document["metadata"] |= {"uid": f"{HOSTILE}{number}", "creationTimestamp": "2026-11-15T10:00:00Z"}
    env.server.registry.store.put(hostile.bucket(kind), document)


def is_healthy(obj: Object) -> bool:
    return not obj.metadata.name.startswith(HOSTILE)
