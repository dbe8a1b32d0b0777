"""CRDs of Karpenter 1.0 that had objects of v1beta1 are replaced by those of Holdfast, on a real kube-apiserver.

Run by `make e2e`. It shows what docs/install.md describes below "CRDs that had objects of v1beta1", with the commands of
the page. The CRDs are those of Karpenter 1.0.8, from its Go module. No webhook converts objects here, so v1beta1 has the
schema of v1 until all objects are stored as v1.
"""

import asyncio
import copy
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

import build_peers
import builders
import charts
import check_charts
import fetch_kubectl
import page_commands
from charts import Client, Done
from holdfast.runtime.clock import RealClock
from holdfast.sim import control_plane, processes

KARPENTER = "github.com/aws/karpenter-provider-aws@v1.0.8"
PAGE = charts.ROOT / "docs/install.md"
HEADING = "CRDs that had objects of v1beta1"
ALL = "nodepools.karpenter.sh,nodeclaims.karpenter.sh,ec2nodeclasses.karpenter.k8s.aws"
OBJECTS = {
    "nodepool.karpenter.sh/default",
    "nodeclaim.karpenter.sh/a",
    "ec2nodeclass.karpenter.k8s.aws/default",
}
NOT_CONVERTED = "request to convert CR from an invalid group/version"
TOKEN = "an-admin"
NODE_CLAIM = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodeClaim",
    "metadata": {"name": "a"},
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [],
    },
}


def karpenter_crds(stored: str, *, webhook: bool = False) -> Iterator[dict[str, Any]]:
    """Objects are stored in the given version."""
    for path in sorted((check_charts.go_module(KARPENTER) / "pkg/apis/crds").glob("*.yaml")):
        crd = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not webhook:
            del crd["spec"]["conversion"]
        (schema,) = [one for one in crd["spec"]["versions"] if one["name"] == "v1"]
        crd["spec"]["versions"] = [
            copy.deepcopy(schema) | {"name": name, "storage": name == stored} for name in ("v1", "v1beta1")
        ]
        yield crd


class Cluster:
    def __init__(self, kubeconfig: Path) -> None:
        self.client = Client(kubeconfig)
        self.environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)}

    async def apply(self, crds: Iterator[dict[str, Any]]) -> None:
        words = ("apply", "--server-side", "--force-conflicts", "--filename", "-")
        await self.client.kubectl(*words, stdin={"apiVersion": "v1", "kind": "List", "items": list(crds)})
        await self.client.kubectl("wait", "--for=condition=Established", "crds", "--all", "--timeout=60s")

    async def stored_versions(self) -> set[tuple[str, ...]]:
        found = json.loads(await self.client.kubectl("get", "crds", "--output", "json"))["items"]
        return {tuple(one["status"]["storedVersions"]) for one in found}

    async def install(self) -> Done:
        words = ("upgrade", "--install", "holdfast-crd", charts.CRD_CHART, "--namespace", charts.NAMESPACE)
        return await self.client.run(
            "helm", *words, "--create-namespace", "--take-ownership", "--force-conflicts"
        )

    async def objects(self) -> Done:
        return await self.client.run("kubectl", "get", ALL, "--output", "name")

    async def until_objects(self, wanted: set[str]) -> None:
        """The API server serves a changed CRD some time after it is stored."""
        async with asyncio.timeout(60):
            found = await self.objects()
            while (found.code == 0, set(found.out.split())) != (bool(wanted), wanted):
                await asyncio.sleep(0.5)
                found = await self.objects()

    async def shell(self, block: str) -> None:
        path = f"{fetch_kubectl.kubectl().parent}:{os.environ['PATH']}"
        process = await asyncio.create_subprocess_exec(
            "bash", "-euo", "pipefail", "-c", block, env={**self.environ, "PATH": path}
        )
        assert await process.wait() == 0

    async def problems(self) -> dict[str, tuple[str, str]]:
        """What `holdfast doctor` finds about CRDs: the words and the fix, by CRD."""
        aws = {"AWS_REGION": "us-west-2", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "CLUSTER_NAME": "demo"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "holdfast", "doctor", "-o", "json",
            env={**self.environ, **aws, "AWS_EC2_METADATA_DISABLED": "true"}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        printed, _ = await process.communicate()
        return {
            one["object"].removeprefix("CustomResourceDefinition/"): (one["found"], one["fix"])
            for one in json.loads(printed)["results"]
            if one["check"] == "crds" and "storedVersions" in one["found"]
        }


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    async with processes.running(folder, RealClock(), build_peers.binary) as started:
        address = await control_plane.start_server(started, folder, token=TOKEN, accounts=False)
        (folder / "kubeconfig").write_text(address.kubeconfig(TOKEN), encoding="utf-8")
        yield Cluster(folder / "kubeconfig")


async def with_objects_of_v1beta1(running: Cluster) -> None:
    await running.apply(karpenter_crds("v1beta1"))
    for document in (
        builders.nodepool_document("default"),
        builders.ec2nodeclass_document("default"),
        NODE_CLAIM,
    ):
        await running.client.kubectl("create", "--filename", "-", stdin=document)
    await running.apply(karpenter_crds("v1"))
    assert await running.stored_versions() == {("v1beta1", "v1")}


def test_crds_of_holdfast_are_refused_until_all_objects_are_stored_as_v1(tmp_path: Path) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as running:
            await with_objects_of_v1beta1(running)
            refused = await running.install()
            assert refused.code == 1
            assert page_commands.of(PAGE, HEADING, "console")[0].strip() in refused.err
            assert set((await running.objects()).out.split()) == OBJECTS

            found = await running.problems()
            assert found.keys() == set(ALL.split(","))
            words, fix = found["nodepools.karpenter.sh"]
            assert words == "status.storedVersions has v1beta1: the API server refuses the CRD of Holdfast"
            await running.shell(fix.removeprefix("while Karpenter runs: "))
            assert (await running.problems()).keys() == found.keys() - {"nodepools.karpenter.sh"}

            (commands,) = page_commands.of(PAGE, HEADING)
            await running.shell(commands)
            assert await running.problems() == {}
            # The webhook of Karpenter is in the CRDs, and nothing answers it.
            await running.apply(karpenter_crds("v1", webhook=True))
            installed = await running.install()
            assert installed.code == 0, installed.err
            assert await running.stored_versions() == {("v1",)}
            await running.until_objects(OBJECTS)

    asyncio.run(main())


def test_objects_of_v1beta1_cannot_be_read_if_only_the_list_of_stored_versions_is_changed(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with cluster(tmp_path) as running:
            await with_objects_of_v1beta1(running)
            status = '{"status":{"storedVersions":["v1"]}}'
            for name in ALL.split(","):
                await running.client.kubectl(
                    "patch", "crd", name, "--subresource=status", "--type=merge", "--patch", status
                )
            assert (await running.install()).code == 0
            await running.until_objects(set())
            assert NOT_CONVERTED in (await running.objects()).err

            # Nothing is lost: with the CRDs of Karpenter 1.0 the objects can be read and stored as v1.
            await running.apply(karpenter_crds("v1"))
            await running.until_objects(OBJECTS)
            (commands,) = page_commands.of(PAGE, HEADING)
            await running.shell(commands)
            assert (await running.install()).code == 0
            await running.until_objects(OBJECTS)

    asyncio.run(main())
