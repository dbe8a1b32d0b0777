"""A real helm installs, upgrades, rolls back and uninstalls both charts on the embedded API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import charts
from api_fronts import nodepool
from charts import Client
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import http
from holdfast.sim.api.serving.routing import User

# The API server has no CRDs of the Prometheus Operator.
WITHOUT_OPERATOR = ("--set", "serviceMonitor.enabled=false,prometheusRule.enabled=false")


async def names(cluster: Client, kinds: str) -> set[str]:
    return set((await cluster.kubectl("get", kinds, "--all-namespaces", "--output", "name")).split())


async def deployment(cluster: Client) -> Any:
    words = ("get", "deployment", "holdfast", "--namespace", charts.NAMESPACE, "--output", "json")
    return json.loads(await cluster.kubectl(*words))


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[Client]:
    server = ApiServer(clock=RealClock(), ids=RealIds(), tokens={"secret": User("admin")})
    async with http.serving(server) as address:
        (home / "config").write_text(address.kubeconfig("secret"), encoding="utf-8")
        cluster = Client(home / "config")
        for namespace in (charts.NAMESPACE, "leases", "monitoring"):
            await cluster.kubectl("create", "namespace", namespace)
        yield cluster


def run(home: Path, test: Callable[[Client], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving(home) as cluster:
            await test(cluster)

    asyncio.run(main())


CRDS = {
    f"customresourcedefinition.apiextensions.k8s.io/{name}"
    for name in (
        "ec2nodeclasses.karpenter.k8s.aws",
        "holdfastnodeclasses.holdfast.dev",
        "nodeclaims.karpenter.sh",
        "nodepools.karpenter.sh",
    )
}
KINDS = "deployment,service,serviceaccount,pdb,networkpolicy,configmap,clusterrole,clusterrolebinding,role,rolebinding"


@pytest.mark.parametrize("values", ["defaults", "everything", "karpenter"])
def test_api_server_accepts_every_object_with_strict_validation(tmp_path: Path, values: str) -> None:
    async def test(cluster: Client) -> None:
        file = tmp_path / "objects.yaml"
        file.write_text(charts.template("--values", charts.VALUES / f"{values}.yaml", *WITHOUT_OPERATOR).out)
        words = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename", str(file))
        applied = await cluster.kubectl(*words)
        assert len(applied.splitlines()) == len(charts.read(file.read_text()))
        assert await names(cluster, "deployment,clusterrole,role") == set()
        file.write_text(file.read_text().replace("serviceAccountName:", "serviceAcountName:"))
        refused = await cluster.run("kubectl", *words)
        assert refused.code == 1
        assert "serviceAcountName" in refused.err

    run(tmp_path, test)


def test_first_install_brings_the_crds_and_uninstall_keeps_them_and_the_nodepools(tmp_path: Path) -> None:
    async def test(cluster: Client) -> None:
        before = await names(cluster, KINDS)
        await cluster.install()
        assert await names(cluster, "crd") == CRDS
        await cluster.kubectl("apply", "--filename", "-", stdin=nodepool())
        await cluster.helm("uninstall", "holdfast")
        assert await names(cluster, KINDS) == before
        assert await names(cluster, "crd") == CRDS
        assert await names(cluster, "nodepools") == {"nodepool.karpenter.sh/default"}

    run(tmp_path, test)


def test_upgrade_changes_the_deployment_and_rollback_restores_it(tmp_path: Path) -> None:
    async def test(cluster: Client) -> None:
        await cluster.install()
        first = await deployment(cluster)
        await cluster.install(*WITHOUT_OPERATOR, values="everything")
        second = await deployment(cluster)
        assert second["spec"]["replicas"] == 3
        assert second["spec"]["template"] != first["spec"]["template"]
        assert "configmap/holdfast-dashboard" in await names(cluster, KINDS)
        await cluster.helm("rollback", "holdfast", "1")
        third = await deployment(cluster)
        assert third["spec"] == first["spec"]
        assert "configmap/holdfast-dashboard" not in await names(cluster, KINDS)

    run(tmp_path, test)


def test_crd_chart_takes_over_existing_crds_upgrades_and_keeps_them(tmp_path: Path) -> None:
    async def test(cluster: Client) -> None:
        await cluster.install()
        await cluster.kubectl("apply", "--filename", "-", stdin=nodepool())
        # An older version: without the field that the upgrade brings.
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/weight"
        remove = json.dumps([{"op": "remove", "path": path}])
        await cluster.kubectl("patch", "crd", "nodepools.karpenter.sh", "--type=json", "--patch", remove)
        assert "weight" not in await cluster.kubectl("explain", "nodepool.spec")

        install = ("upgrade", "--install", "holdfast-crd", charts.CRD_CHART)
        for words, message in (((), "ownership"), (("--take-ownership",), "conflict with")):
            refused = await cluster.run("helm", *install, *words, "--namespace", charts.NAMESPACE)
            assert refused.code == 1
            assert message in refused.err
        await cluster.helm(*install, "--take-ownership", "--force-conflicts")
        assert "weight" in await cluster.kubectl("explain", "nodepool.spec")
        kept = await cluster.helm("uninstall", "holdfast-crd")
        assert "kept due to the resource policy" in kept
        assert await names(cluster, "crd") == CRDS
        assert await names(cluster, "nodepools") == {"nodepool.karpenter.sh/default"}

    run(tmp_path, test)


def test_install_with_skip_crds_leaves_the_crds_of_the_crd_chart_alone(tmp_path: Path) -> None:
    """Without --skip-crds, Helm 4 applies the CRDs of the chart to existing ones and removes their labels."""

    async def test(cluster: Client) -> None:
        await cluster.helm("install", "holdfast-crd", charts.CRD_CHART, "--set", "additionalLabels.a=b")
        await cluster.install("--skip-crds")
        labelled = await cluster.kubectl("get", "crd", "--selector", "a=b", "--output", "name")
        assert set(labelled.split()) == CRDS

    run(tmp_path, test)
