"""`holdfast adopt --check` as a process, against a sandbox: what it reports, and that it changes nothing."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import builders
import process_environment
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from process_environment import ProcessEnvironment

SECONDS = 6
_WRITES = ("Create", "Delete", "Modify", "Run", "Terminate", "Tag", "Add", "Remove", "Send", "Receive")

Program = Callable[[ProcessEnvironment], Awaitable[None]]


class Adopted(NamedTuple):
    code: int
    document: dict[str, Any]
    error: str

    def levels(self, about: str) -> dict[str, str]:
        """What was found on one object, with its level."""
        return {one["found"]: one["level"] for one in self.document["results"] if one["object"] == about}


async def adopt(env: ProcessEnvironment, *flags: str, **environ: str) -> Adopted:
    """Runs the command, and checks that it sent no write to the API server or to AWS."""
    asked = len(env.front.asked)
    env.cloud.endpoint.log.clear()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", "adopt", *(flags or ("--check",)), "--seconds", str(SECONDS), "-o", "json",
        env=env.environ | environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, error = await process.communicate()
    assert {request.method for request in env.front.asked[asked:]} <= {"GET"}
    sent = [call for call in env.cloud.endpoint.log if call.operation.startswith(_WRITES)]
    assert [call.operation for call in sent if not call.params.get("DryRun")] == []
    assert process.returncode is not None
    return Adopted(process.returncode, json.loads(out) if out else {}, error.decode())


def run(folder: Path, program: Program) -> None:
    """Three nodes run, two of them in slots, and no autoscaler does."""

    async def main() -> None:
        async with process_environment.serving(folder) as env:
            await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
            await env.node_pool()
            replica = await env.start()
            await env.deploy("web", replicas=3, cpu="1500m", affinity=process_environment.apart("web"))

            async def is_settled() -> bool:
                claims = (await env.kube.list(NodeClaim)).items
                ready = [
                    any(c.type == "Ready" and c.status == "True" for c in one.status.conditions)
                    for one in claims
                ]
                return await env.running_pods() == 3 and ready == [True] * 3

            await env.until(is_settled, "three pods run")
            assert await replica.stop() == 0
            env.replicas.clear()
            await program(env)

    asyncio.run(main())


def instances(env: ProcessEnvironment) -> set[str]:
    return {one.id for one in env.cloud.ec2.region.instances if one.is_pending_or_running}


def test_every_node_is_kept_and_nothing_is_written(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        before = {claim.metadata.name: claim.metadata.resource_version for claim in await claims(env)}
        ids = instances(env)
        found = await adopt(env)
        assert found.code == 0, found
        for claim in await claims(env):
            kept = f"is kept, with instance {instance_of(claim)}"
            assert found.levels(f"NodeClaim/{claim.metadata.name}") == {kept: "ok"}
        assert found.levels("NodePool/default") == {"is used as it is": "ok"}
        assert found.levels("EC2NodeClass/default") == {"is used as it is": "ok"}
        assert {claim.metadata.name: claim.metadata.resource_version for claim in await claims(env)} == before
        assert instances(env) == ids

    run(tmp_path, program)


def instance_of(claim: NodeClaim) -> str:
    return (claim.status.provider_id or "").rpartition("/")[2]


async def claims(env: ProcessEnvironment) -> tuple[NodeClaim, ...]:
    return (await env.kube.list(NodeClaim)).items


def test_changes_that_would_follow_are_reported_by_object(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        # A label of the template that the nodes do not have, a pending pod, a static NodePool, an unready class.
        pool = await env.kube.get(NodePool, "default")
        await env.kube.patch(pool, {"spec": {"template": {"metadata": {"labels": {"wave": "second"}}}}})
        await env.node_class("broken", subnetSelectorTerms=[{"tags": {"no": "subnet"}}])
        static = builders.nodepool_document("static")
        await env.sandbox.create(static | {"spec": static["spec"] | {"replicas": 2}})
        await env.deploy("late", replicas=1, cpu="1500m", affinity=process_environment.apart("late"))
        deleted = (await claims(env))[0].metadata.name
        await env.kube.delete(await env.kube.get(NodeClaim, deleted))
        ids = instances(env)
        found = await adopt(env)
        assert found.code == 1, found
        assert found.levels(f"NodeClaim/{deleted}") == {
            "is terminating; Holdfast continues the termination": "info"
        }
        kept = [claim.metadata.name for claim in await claims(env) if claim.metadata.name != deleted]
        for name in kept:
            assert found.levels(f"NodeClaim/{name}") == {
                "would be replaced: it is drifted (NodePoolDrifted)": "error"
            }
        assert found.levels("NodePool/static") == {
            "is static (spec.replicas): Holdfast does not act on it": "warning"
        }
        ((text, level),) = found.levels("EC2NodeClass/broken").items()
        assert (text.startswith("is not Ready"), level) == (True, "warning")
        assert any("new node" in text for text in found.levels("NodePool/default"))
        assert instances(env) == ids
        assert not (await env.kube.get(EC2NodeClass, "broken")).status.conditions

    run(tmp_path, program)


def test_instance_without_a_nodeclaim_is_reported(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        claim = (await claims(env))[0]
        instance_id = instance_of(claim)
        await env.kube.patch(claim, {"metadata": {"finalizers": None}}, only_if_unchanged=True)
        await env.kube.delete(claim)
        found = await adopt(env)
        assert found.levels(instance_id) == {
            "would be terminated: it has the tags of this cluster and no NodeClaim": "error"
        }
        assert instance_id in instances(env)

    run(tmp_path, program)


def test_missing_flag_and_unreachable_cluster_are_clear_errors(tmp_path: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(tmp_path) as env:
            found = await adopt(env, "--output", "text")
            assert (found.code, "only checks, with --check" in found.error) == (2, True)
            missing = await adopt(env, "--check", "--kubeconfig", str(tmp_path / "none"))
            assert (missing.code, "holdfast adopt: " in missing.error) == (3, True)

    asyncio.run(main())
