"""`holdfast doctor` on a real control plane: RBAC, OpenAPI documents and the clock of kube-apiserver; EC2 is simulated.

Run by `make e2e`. Karpenter's own CRDs are read from its Go module.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import charts
import process_environment
from holdfast.app.sandbox import ControlPlane
from peers import crd_files
from process_environment import ProcessEnvironment

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
ACCOUNT = "User/system:serviceaccount:kube-system:holdfast"


async def problems(env: ProcessEnvironment, *arguments: str) -> dict[tuple[str, str], str]:
    """What was found, by check and object, of all results that are neither ok nor an info; and of the clock."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "holdfast", "doctor", "-o", "json", *arguments,
        env={**env.environ, "INTERRUPTION_QUEUE": env.cloud.queue}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await process.communicate()
    results = json.loads(printed)["results"]
    (clock,) = [one for one in results if (one["check"], one["object"]) == ("clock", "API server")]
    assert clock["level"] == "ok", clock
    return {
        (one["check"], one["object"]): one["found"] for one in results if one["level"] not in ("ok", "info")
    }


async def replace_crd(env: ProcessEnvironment, crd: dict[str, Any]) -> None:
    path = f"{DEFINITIONS}/{crd['metadata']['name']}"
    found = await env.sandbox.transport.request("GET", path, {}, {}, b"")
    if found.status == 404:
        return  # a kind that Holdfast does not have
    assert isinstance(found.body, bytes)
    version = {"resourceVersion": json.loads(found.body)["metadata"]["resourceVersion"]}
    body = json.dumps(crd | {"metadata": crd["metadata"] | version}).encode()
    done = await env.sandbox.transport.request("PUT", path, {}, {"content-type": "application/json"}, body)
    assert done.status == 200, done.body


def test_doctor_finds_missing_rights_and_the_crds_of_karpenter(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
        await env.node_pool()
        assert await problems(env) == {}

        named = f"--service-account={ACCOUNT.removeprefix('User/system:serviceaccount:').replace(':', '/')}"
        assert await problems(env, named) == {("kubernetes-rights", ACCOUNT): "has none of the 52 rights"}
        for document in charts.render("defaults", namespace="kube-system"):
            if document["kind"] in RBAC:
                await env.sandbox.create(document)
        assert await problems(env, named) == {}

        for crd in crd_files.of_provider():
            await replace_crd(env, crd)

        async def older() -> bool:
            found = await problems(env)
            about = ("crds", "CustomResourceDefinition/ec2nodeclasses.karpenter.k8s.aws")
            assert {check for check, _ in found} <= {"crds"}
            return found.get(about) == "is older than Holdfast: it lacks .spec.capacityReservationSpec"

        await env.until(older, "the OpenAPI document is that of Karpenter's CRD")

    async def main() -> None:
        async with process_environment.serving(tmp_path, control_plane=ControlPlane.REAL) as env:
            await program(env)

    asyncio.run(main())
