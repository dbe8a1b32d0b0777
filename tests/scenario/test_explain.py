"""What Holdfast answers when a user asks why, in more than forty situations. The real controllers run in virtual time.

`explanations.md` has the answers as a user reads them. After a change of a text, read the new answers, then write them
with `REVIEWED=1 pytest tests/scenario/test_explain.py -n 0`.
"""

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

import app_environment
import aws_environment
import cluster_environment
import gang_situations
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import errors, names
from holdfast.api.pods import Pod
from holdfast.api.reports import Explanation
from holdfast.app import explaining
from holdfast.app.settings import Settings
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control

REVIEWED: Final = Path(__file__).with_name("explanations.md")
ONE_PER_NODE: Final = {"cpu": "1500m"}  # of an m5.large
MINUTE_S: Final = 60
GPU: Final = "p5.48xlarge"
_IDS: Final = re.compile(
    r"\b(?:cr|i)-[0-9a-f]{8,17}\b|\b[a-z]+-[0-9a-z]{8,10}-[0-9a-z]{5}\b|\bdefault-[0-9a-f]{8}\b"
    r"|\bip-[0-9-]+\.[a-z0-9.-]+internal\b|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]+Z"
)

Situation = Callable[[AppEnvironment], Awaitable[Explanation]]


# --- The answers as text --------------------------------------------------------------------------------


OF_GANGS: Final = ("job", "jobset", "leaderworkerset", "podgroup", "provisioningrequest")


def text(answer: Explanation) -> str:
    lines = [answer.what, *(f"- {line}" for line in answer.why)]
    if answer.considered:
        lines += ["", "Considered:", *(f"- {one.subject}: {one.text}" for one in answer.considered)]
    if answer.changes:
        lines += ["", "What would change it:", *(f"- {line}" for line in answer.changes)]
    if answer.next:
        lines += ["", f"Next: {answer.next}"]
    if answer.kind in OF_GANGS:
        lines += ["", "Facts:", *(f"- {one.name}: {one.value}" for one in answer.facts)]
    return _without_ids("\n".join(lines))


def _without_ids(text: str) -> str:
    """Generated names as `cr-1`, `pod-1`, `node-1`; instants as a word."""
    known: dict[str, str] = {}

    def replaced(match: re.Match[str]) -> str:
        found = match.group()
        kind = {"cr-": "cr", "ip-": "node"}.get(found[:3], "i" if found.startswith("i-") else "name")
        if found.endswith("Z") and found.startswith("20"):
            return "TIME"
        number = sum(one.startswith(f"{kind}-") for one in known.values()) + 1
        return known.setdefault(found, f"{kind}-{number}")

    return _IDS.sub(replaced, text)


def reviewed() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", REVIEWED.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: body.strip() for name, body in zip(parts[::2], parts[1::2], strict=True)}


def write(name: str, answer: str) -> None:
    head = REVIEWED.read_text(encoding="utf-8").partition("\n## ")[0].rstrip()
    known = reviewed() | {name: answer}
    body = "".join(f"\n## {one}\n\n{known[one]}\n" for one in sorted(known))
    REVIEWED.write_text(f"{head}\n{body}", encoding="utf-8")


# --- Asking ---------------------------------------------------------------------------------------------


async def ask(env: AppEnvironment, kind: str, name: str, namespace: str = "") -> Explanation:
    return await explaining.explain(env.app).answers.explain(kind, namespace, name)


async def ask_pod(env: AppEnvironment, app: str = "web") -> Explanation:
    pods = [pod for pod in await env.all(Pod) if pod.metadata.name.startswith(app)]
    waiting = sorted(pod.metadata.name for pod in pods if not pod.spec.node_name)
    return await ask(env, "pod", waiting[0], "default")


async def ask_node(env: AppEnvironment, capacity_type: str = "") -> Explanation:
    found = [
        node.metadata.name
        for node in await env.nodes()
        if capacity_type in ("", node.metadata.labels.get(names.CAPACITY_TYPE))
    ]
    return await ask(env, "node", found[0])


async def reserved_only(env: AppEnvironment, *ids: str, **pool: Any) -> None:
    await env.node_class(capacityReservationSelectorTerms=[{"id": id_} for id_ in ids])
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("reserved")], **pool)


async def reserved_and_on_demand(env: AppEnvironment, *ids: str, **pool: Any) -> None:
    await env.node_class(capacityReservationSelectorTerms=[{"id": id_} for id_ in ids])
    allowed = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    await env.node_pool(requirements=allowed, **pool)


# --- Situations -----------------------------------------------------------------------------------------


async def pod_in_a_slot(env: AppEnvironment) -> Explanation:
    await reserved_and_on_demand(env, env.reserve(total=1).id)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    (pod,) = await env.pods()
    return await ask(env, "pod", pod.metadata.name, "default")


async def node_on_demand_beside_a_full_reservation(env: AppEnvironment) -> Explanation:
    await reserved_and_on_demand(env, env.reserve(total=1).id)
    await env.deploy("web", 2, **ONE_PER_NODE)
    await env.until_running(2)
    await env.sleep(20)
    return await ask_node(env, "on-demand")


async def node_on_demand_in_another_zone_than_the_reservation(env: AppEnvironment) -> Explanation:
    await reserved_and_on_demand(env, env.reserve(total=1).id)
    zone = {names.ZONE: f"{aws_environment.REGION}b"}
    await env.deploy("web", 1, nodeSelector=zone, **ONE_PER_NODE)
    await env.until_running(1)
    await env.sleep(10)  # until the next disruption pass
    return await ask_node(env, "on-demand")


async def another_account_uses_the_reservation(env: AppEnvironment) -> Explanation:
    await reserved_only(env, env.reserve(total=2, elsewhere=2).id)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.sleep(30)
    return await ask_pod(env)


async def pod_waits_for_a_slot(env: AppEnvironment) -> Explanation:
    await reserved_and_on_demand(env, env.reserve(total=1).id)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    await env.scale("web", 0)
    await env.kube.delete((await env.claims())[0])
    await env.sleep(2)
    await env.deploy("api", 1, **ONE_PER_NODE)
    await env.sleep(10)
    return await ask_pod(env, "api")


async def block_is_closed(env: AppEnvironment) -> Explanation:
    now_s = env.ec2_clock.now_s()
    block = env.reserve(GPU, 1, kind="capacity-block", start_s=now_s - 60, end_s=now_s + 35 * MINUTE_S)
    await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])
    await env.node_pool(requirements=[capacity_types("reserved")])
    await env.deploy("train", 1, cpu="64")
    await env.sleep(60)
    return await ask_pod(env, "train")


async def block_has_not_started(env: AppEnvironment) -> Explanation:
    now_s = env.ec2_clock.now_s()
    starts = {"start_s": now_s + 90 * MINUTE_S, "end_s": now_s + 1530 * MINUTE_S}
    block = env.reserve(GPU, 1, kind="capacity-block", **starts)
    await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])
    await env.node_pool(requirements=[capacity_types("reserved")])
    await env.deploy("train", 1, cpu="64")
    await env.sleep(60)
    return await ask_pod(env, "train")


async def reservation_that_has_not_started(env: AppEnvironment) -> Explanation:
    now_s = env.ec2_clock.now_s()
    starts = {"start_s": now_s + 90 * MINUTE_S, "end_s": now_s + 1530 * MINUTE_S}
    block = env.reserve(GPU, 1, kind="capacity-block", **starts)
    await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])
    await env.node_pool(requirements=[capacity_types("reserved")])
    await env.sleep(90)
    return await ask(env, "reservation", block.id)


async def node_in_a_block_that_ends(env: AppEnvironment) -> Explanation:
    now_s = env.ec2_clock.now_s()
    ends_s = now_s + 24 * 60 * MINUTE_S
    block = env.reserve(GPU, 1, kind="capacity-block", start_s=now_s - 60, end_s=ends_s)
    await env.node_class(capacityReservationSelectorTerms=[{"id": block.id}])
    await env.node_pool(requirements=[capacity_types("reserved")])
    await env.deploy("train", 1, cpu="64")
    await env.until_running(1, "train")
    await env.sleep(10)  # until the next disruption pass
    return await ask_node(env)


async def limits_are_reached(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(
        requirements=[instance_types("m5.large"), capacity_types("on-demand")], limits={"cpu": "2"}
    )
    await env.deploy("web", 2, **ONE_PER_NODE)
    await env.sleep(60)
    return await ask_pod(env)


async def daemon_set_is_too_big(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
    await env.create("/apis/apps/v1/namespaces/default/daemonsets", _daemon_set(cpu="1200m"))
    await env.deploy("web", 1, cpu="1000m")
    await env.sleep(30)
    return await ask_pod(env)


async def pod_of_a_daemon_set(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    await env.create("/apis/apps/v1/namespaces/default/daemonsets", _daemon_set(cpu="1200m"))
    await env.sleep(30)
    return await ask_pod(env, "agent")


def _daemon_set(**requests: str) -> dict[str, object]:
    labels = {"app": "agent"}
    container = {"name": "main", "image": "agent", "resources": {"requests": requests}}
    return {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def taint_is_not_tolerated(env: AppEnvironment) -> Explanation:
    await env.node_class()
    taints = [{"key": "team", "value": "ml", "effect": "NoSchedule"}]
    await env.node_pool(requirements=[capacity_types("on-demand")], taints=taints)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.sleep(30)
    return await ask_pod(env)


async def there_is_no_node_pool(env: AppEnvironment) -> Explanation:
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.sleep(30)
    return await ask_pod(env)


async def pod_has_a_scheduling_gate(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(requirements=[capacity_types("on-demand")])
    await env.deploy("web", 1, schedulingGates=[{"name": "example.com/quota"}], **ONE_PER_NODE)
    await env.sleep(30)
    return await ask_pod(env)


async def node_has_not_joined(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until(lambda: _has_instances(env))
    await env.sleep(20)
    (claim,) = await env.claims()
    return await ask(env, "nodeclaim", claim.metadata.name)


async def _has_instances(env: AppEnvironment) -> bool:
    return bool(env.ec2_instances)


async def pod_disruption_budget_keeps_a_node(env: AppEnvironment) -> Explanation:
    await env.one_node("on-demand")
    await env.forbid_evictions()
    await env.sleep(60)
    return await ask_node(env)


async def budget_of_the_node_pool_keeps_a_node(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(
        requirements=[instance_types("m5.large"), capacity_types("on-demand")],
        disruption={"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]},
    )
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    await env.scale("web", 0)
    await env.sleep(60)
    return await ask_node(env)


async def pod_with_do_not_disrupt_keeps_a_node(env: AppEnvironment) -> Explanation:
    await env.node_class()
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
    annotations = {names.DO_NOT_DISRUPT: "true"}
    await env.deploy("web", 1, annotations=annotations, **ONE_PER_NODE)
    await env.until_running(1)
    await env.sleep(60)
    return await ask_node(env)


async def idle_reservation(env: AppEnvironment) -> Explanation:
    slots = env.reserve(total=3)
    await reserved_and_on_demand(env, slots.id)
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    return await ask(env, "reservation", slots.id)


async def reservation_that_no_class_selects(env: AppEnvironment) -> Explanation:
    selected, other = env.reserve(total=1), env.reserve("c5.large", total=2)
    await reserved_and_on_demand(env, selected.id)
    await env.sleep(90)
    return await ask(env, "reservation", other.id)


async def node_pool_that_is_not_ready(env: AppEnvironment) -> Explanation:
    await env.node_pool(requirements=[capacity_types("on-demand")])
    await env.sleep(30)
    return await ask(env, "nodepool", "default")


async def node_on_spot_that_ec2_interrupts(env: AppEnvironment) -> Explanation:
    await env.one_node("spot")
    (instance,) = env.ec2_instances
    control.interrupt_spot(env.ec2.region, instance.id)
    await env.sleep(25)
    return await ask(env, "nodeclaim", min(claim.metadata.name for claim in await env.claims()))


async def node_with_a_pod_that_consolidation_moved_recently(env: AppEnvironment) -> Explanation:
    """Consolidation moves `small` to the node of `large`. Without `large` a cheaper node would do, but not yet."""
    await env.node_class()
    allowed = [instance_types("m5.large", "c5.large"), capacity_types("on-demand")]
    every = {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]}
    await env.node_pool(requirements=allowed, disruption=every)
    await env.deploy("small", 2, cpu="900m", memory="1Gi")
    await env.until_running(2, "small")
    await env.deploy("large", 1, cpu="900m", memory="5Gi")
    await env.until_running(1, "large")
    await env.scale("small", 1)
    await env.until(lambda: _has_nodes(env, 1), within_s=600)
    await env.scale("large", 0)
    await env.sleep(40)
    return await ask_node(env)


async def _has_nodes(env: AppEnvironment, count: int) -> bool:
    return len(await env.nodes()) == count


async def node_that_consolidation_removed(env: AppEnvironment) -> Explanation:
    await env.one_node("on-demand")
    (node,) = await env.nodes()
    await env.scale("web", 0)
    await env.until(lambda: _has_nodes(env, 0), within_s=600)
    return await ask(env, "node", node.metadata.name)


SITUATIONS: Final = (
    node_that_consolidation_removed,
    node_with_a_pod_that_consolidation_moved_recently,
    pod_in_a_slot,
    node_on_demand_beside_a_full_reservation,
    node_on_demand_in_another_zone_than_the_reservation,
    another_account_uses_the_reservation,
    pod_waits_for_a_slot,
    block_is_closed,
    block_has_not_started,
    reservation_that_has_not_started,
    node_in_a_block_that_ends,
    limits_are_reached,
    daemon_set_is_too_big,
    pod_of_a_daemon_set,
    taint_is_not_tolerated,
    there_is_no_node_pool,
    pod_has_a_scheduling_gate,
    node_has_not_joined,
    pod_disruption_budget_keeps_a_node,
    budget_of_the_node_pool_keeps_a_node,
    pod_with_do_not_disrupt_keeps_a_node,
    idle_reservation,
    reservation_that_no_class_selects,
    node_pool_that_is_not_ready,
    node_on_spot_that_ec2_interrupts,
    *gang_situations.SITUATIONS,
)
# How a situation differs from the usual environment.
_WAIT: Final = replace(
    app_environment.SETTINGS, planning=replace(app_environment.SETTINGS.planning, reservation_wait_s=600)
)
SETTINGS: Final[dict[str, Settings]] = {
    "pod_waits_for_a_slot": _WAIT,
    "node_on_spot_that_ec2_interrupts": replace(
        app_environment.SETTINGS, interruption_queue=app_environment.QUEUE
    ),
}
TIMINGS: Final[dict[str, Timings]] = gang_situations.TIMINGS | {
    "node_has_not_joined": replace(app_environment.FAST, boot_s=600),
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_answer_is_the_reviewed_one(situation: Situation) -> None:
    answers: list[str] = []

    async def program(env: AppEnvironment) -> None:
        answers.append(text(await situation(env)))

    name = situation.__name__
    app_environment.run(
        program,
        settings=SETTINGS.get(name, app_environment.SETTINGS),
        timings=TIMINGS.get(name, app_environment.FAST),
        **(gang_situations.SERVED if situation in gang_situations.SITUATIONS else {}),
    )
    if os.environ.get("REVIEWED"):
        write(name, answers[0])
    assert answers[0] == reviewed().get(name)


def test_every_reviewed_answer_has_a_situation() -> None:
    assert set(reviewed()) == {one.__name__ for one in SITUATIONS}


@pytest.mark.parametrize("kind", ["pod", "node", "nodeclaim", "nodepool", "reservation", "job"])
def test_missing_object_is_not_found(kind: str) -> None:
    async def program(env: AppEnvironment) -> None:
        with pytest.raises(errors.NotFound, match="nope"):
            await ask(env, kind, "nope", "default" if kind in ("pod", "job") else "")

    app_environment.run(program)


def test_job_counts_its_pods_by_reason() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(
            requirements=[instance_types("m5.large"), capacity_types("on-demand")], limits={"cpu": "2"}
        )
        job = cluster_environment.workload(
            "train", completions=3, parallelism=3, restartPolicy="Never", cpu="1500m"
        )
        await env.create("/apis/batch/v1/namespaces/default/jobs", job)
        await env.sleep(90)
        answer = await ask(env, "job", "train", "default")
        assert answer.what == "The Job has 3 pods: 1 on a node, 2 pending, 0 ended."
        assert answer.why == ("2 pods: NodePool default: all available instance types exceed limits: cpu 2",)

    app_environment.run(program)
