"""`holdfast plan --live` and `holdfast snapshot` as processes, against a sandbox: they change nothing, the controller then
does what the plan shows, and a snapshot gives the same plan."""

import asyncio
import dataclasses
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import process_environment
from holdfast import names
from holdfast.api import aws
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.cloud.aws.catalog import labels
from process_environment import ProcessEnvironment

_WRITES = ("Create", "Delete", "Modify", "Run", "Terminate", "Tag", "Add", "Remove", "Send", "Receive")

SLOTS = dataclasses.replace(process_environment.TARGETED, total=3)
ON_DEMAND = [{"key": names.CAPACITY_TYPE, "operator": "In", "values": [names.RESERVED, names.ON_DEMAND]}]

Program = Callable[[ProcessEnvironment], Awaitable[None]]
Json = dict[str, Any]


class Result(NamedTuple):
    code: int
    out: str
    error: str

    @property
    def plan(self) -> Json:
        assert self.code == 0, self.error
        found: Json = json.loads(self.out)
        return found


async def holdfast(env: ProcessEnvironment, *arguments: str, **environ: str) -> Result:
    """Runs a command, and checks that it sent no write to the API server or to AWS."""
    asked = len(env.front.asked)
    env.cloud.endpoint.log.clear()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", *arguments,
        env=env.environ | environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    assert {request.method for request in env.front.asked[asked:]} <= {"GET"}
    sent = [call.operation for call in env.cloud.endpoint.log if call.operation.startswith(_WRITES)]
    assert sent == []
    assert process.returncode is not None
    return Result(process.returncode, out.decode(), error.decode())


def run(folder: Path, program: Program) -> None:
    async def main() -> None:
        async with process_environment.serving(folder, reservations=(SLOTS,)) as env:
            await program(env)

    asyncio.run(main())


async def set_up(env: ProcessEnvironment) -> None:
    """Two nodes run in slots, one slot is free, six pods wait. No autoscaler runs."""
    await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
    await env.node_pool(requirements=ON_DEMAND)
    pool = await env.kube.get(NodePool, "default")
    await env.kube.patch(pool, {"spec": {"disruption": {"consolidateAfter": "Never"}}})
    replica = await env.start()
    await env.deploy("acme-web", replicas=2, cpu="1500m", affinity=process_environment.apart("acme-web"))

    async def is_settled() -> bool:
        claims = (await env.kube.list(NodeClaim)).items
        ready = [
            any(c.type == "Ready" and c.status == "True" for c in one.status.conditions) for one in claims
        ]
        return await env.running_pods() == 2 and ready == [True] * 2

    await env.until(is_settled, "two pods run")
    assert await replica.stop() == 0
    env.replicas.clear()
    # kube-scheduler cannot bind a pod of one Deployment to a node that is launched for the other.
    arm, intel = {names.ARCH: "arm64"}, {names.ARCH: "amd64"}
    await env.deploy(
        "acme-batch", replicas=3, cpu="3", affinity=process_environment.apart("acme-batch"), nodeSelector=arm
    )
    await env.deploy("acme-big", replicas=2, cpu="7", nodeSelector=intel)
    await env.deploy("acme-slot", replicas=1, cpu="1500m", nodeSelector={names.INSTANCE_TYPE: "m5.large"})
    await env.until(lambda: _pending(env, 6), "six pods are unschedulable")


async def _pending(env: ProcessEnvironment, count: int) -> bool:
    found = [
        pod
        for pod in (await env.kube.list(Pod)).items
        if any(one.type == "PodScheduled" and one.reason == "Unschedulable" for one in pod.status.conditions)
    ]
    return len(found) == count


async def state(env: ProcessEnvironment) -> Json:
    """What a plan must not change."""
    kinds: tuple[type[Object], ...] = (NodeClaim, NodePool, Node)
    versions = {
        f"{kind.kind}/{one.metadata.name}": one.metadata.resource_version
        for kind in kinds
        for one in (await env.kube.list(kind)).items
        if kind is not Node  # kubelets renew their status
    }
    return versions | {one.id: one.is_pending_or_running for one in env.cloud.ec2.region.instances}


def shape(claim: Json) -> tuple[Any, ...]:
    """A planned NodeClaim without names."""
    return (
        claim["instanceType"],
        claim["zone"],
        claim["capacityType"],
        claim["pricePerHour"],
        len(claim["pods"]),
        len(claim["instanceTypes"]),
        claim["requests"]["cpu"],
    )


def shapes(plan: Json) -> Counter[tuple[Any, ...]]:
    return Counter(map(shape, plan["claims"]))


def test_live_plan_changes_nothing_and_the_controller_then_does_the_same(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await set_up(env)
        before = await state(env)
        found = await holdfast(env, "plan", "--live", "-o", "json")
        assert await state(env) == before
        plan = found.plan
        assert sum(len(claim["pods"]) for claim in plan["claims"]) == 6
        assert [claim["reservationID"] for claim in plan["claims"]].count(env.slots) == 1
        assert f"Read cluster {process_environment.NAME} at " in found.error
        assert "Nothing was changed." in found.error
        known = {claim.metadata.name for claim in (await env.kube.list(NodeClaim)).items}
        await env.start()
        await env.until(lambda: _runs(env, 8), "all pods run")
        new = {
            one.metadata.name: one
            for one in (await env.kube.list(NodeClaim)).items
            if one.metadata.name not in known
        }
        nodes = {one.status.node_name: one for one in new.values()}
        pods: dict[str, list[str]] = {name: [] for name in new}
        for pod in (await env.kube.list(Pod)).items:
            if pod.spec.node_name in nodes:
                pods[nodes[pod.spec.node_name].metadata.name].append(
                    f"{pod.metadata.namespace}/{pod.metadata.name}"
                )
        launched = Counter(
            (
                one.metadata.labels[names.INSTANCE_TYPE],
                one.metadata.labels[names.ZONE],
                one.metadata.labels[names.CAPACITY_TYPE],
                one.metadata.labels.get(aws.CAPACITY_RESERVATION_ID),
                len(pods[name]),
            )
            for name, one in new.items()
        )
        assert launched == Counter(
            (c["instanceType"], c["zone"], c["capacityType"], c["reservationID"], len(c["pods"]))
            for c in plan["claims"]
        )

    run(tmp_path, program)


async def _runs(env: ProcessEnvironment, count: int) -> bool:
    return await env.running_pods() == count


def test_snapshot_gives_the_same_plan_also_without_names(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await set_up(env)
        before = await state(env)
        plain, scrubbed = tmp_path / "plain.json", tmp_path / "scrubbed.json"
        live = (await holdfast(env, "plan", "--live", "-o", "json")).plan
        assert (await holdfast(env, "snapshot", "-o", str(plain))).code == 0
        assert (await holdfast(env, "snapshot", "--scrub", "-o", str(scrubbed))).code == 0
        assert await state(env) == before
        assert (await holdfast(env, "plan", "-f", str(plain), "-o", "json")).plan == live
        anonymous = (await holdfast(env, "plan", "-f", str(scrubbed), "-o", "json")).plan
        assert shapes(anonymous) == shapes(live)
        assert anonymous["cost"] == live["cost"]
        await _nothing_is_left(env, scrubbed.read_text())
        refused = await holdfast(env, "snapshot", "-o", str(plain))
        assert (refused.code, "exists already" in refused.error) == (1, True)
        assert plain.stat().st_mode & 0o077 == 0

    run(tmp_path, program)
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_snapshot_is_the_start_of_a_simulation_also_without_names(tmp_path: Path) -> None:
    """The cluster has three slots, two of them in use, and eight pods, two of them on nodes."""

    async def program(env: ProcessEnvironment) -> None:
        await set_up(env)
        for name, words in (("plain", ()), ("scrubbed", ("--scrub",))):
            file, out = tmp_path / f"{name}.json", tmp_path / name
            assert (await holdfast(env, "snapshot", *words, "-o", str(file))).code == 0
            found = await holdfast(env, "simulate", str(file), "--for", "30m", "--output", str(out))
            assert found.code == 0, found.error
            result = json.loads((out / "base-1.result.json").read_text())
            assert (result["pods"]["created"], result["pods"]["started"]) == (8, 8)
            assert "unplaced" not in result
            (slots,) = result["reservations"]
            assert (slots["total"], slots["elsewhereHours"]) == (3, 0)
            assert max(result["timeline"]["slotsUsed"][slots["id"]]) == 3
            assert any("EC2NodeClass" in note for note in result["notes"])

    run(tmp_path, program)


async def _nothing_is_left(env: ProcessEnvironment, text: str) -> None:
    """No name of the cluster is in the text of a scrubbed snapshot."""
    pods = (await env.kube.list(Pod)).items
    nodes = (await env.kube.list(Node)).items
    claims = (await env.kube.list(NodeClaim)).items
    found = {one.metadata.name for one in (*pods, *nodes, *claims)}
    found |= {one.metadata.uid for one in (*pods, *nodes, *claims)}
    found |= {owner.name for pod in pods for owner in pod.metadata.owner_references}
    found |= {owner.uid for pod in pods for owner in pod.metadata.owner_references}
    found |= {container.image for pod in pods for container in pod.spec.containers if container.image}
    found |= {
        value
        for pod in pods
        for key, value in pod.metadata.labels.items()
        if key not in labels.WELL_KNOWN_LABELS
    }
    found |= {node.spec.provider_id.rpartition("/")[2] for node in nodes}
    found |= {one.id for one in env.cloud.ec2.region.reservations}
    found |= {"acme", "111122223333"}
    assert [name for name in sorted(found) if name and name in text] == []


def test_live_plan_of_a_cluster_without_holdfast_resolves_in_memory(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
        await env.node_pool()
        await env.deploy("web", replicas=1, cpu="1")
        await env.until(lambda: _pending(env, 1), "a pod is unschedulable")
        before = await state(env)
        found = await holdfast(env, "plan", "--live", "-o", "json")
        assert await state(env) == before
        (claim,) = found.plan["claims"]
        assert claim["reservationID"] == env.slots
        assert (
            "EC2NodeClass default has no status yet: it was resolved in memory, and it is ready"
            in found.error
        )
        assert "NodePool default has no status yet" in found.error

    run(tmp_path, program)


def test_wrong_settings_and_unreachable_clusters_are_reported(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        found = await holdfast(env, "plan", "--live", CLUSTER_NAME="")
        assert (found.code, "--cluster-name" in found.error) == (2, True)
        found = await holdfast(env, "plan", "--live", "-f", "x.yaml")
        assert (found.code, "one of -f FILE and --live" in found.error) == (2, True)
        found = await holdfast(env, "plan", "-f", "x.yaml", "--context", "c")
        assert (found.code, "--context: only with --live" in found.error) == (2, True)
        found = await holdfast(env, "plan", "--live", "--kubeconfig", str(tmp_path / "missing"))
        assert (found.code, "missing" in found.error) == (2, True)
        unwritable = await holdfast(env, "snapshot", "-o", str(tmp_path / "no" / "file.json"))
        assert (unwritable.code, "cannot be written" in unwritable.error) == (1, True)

    run(tmp_path, program)
