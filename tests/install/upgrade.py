"""Installs one version of Holdfast, upgrades to another, rolls back and uninstalls, as an operator does with Helm.

After each step no instance has changed. While the leader is replaced, pods become pending: each gets one instance, in a
slot. The leader hands its Lease over when it is stopped, and its Lease expires when it is killed.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import builders
import cluster_environment
from install import installation, kubelets, leases
from install.installation import Installation, Version, timed

# A waiting replica reads the Lease every 2 to 4 s. A Lease that is not released expires 15 s after its last renewal.
HANDED_OVER_WITHIN_S: Final = 8.0
NAMESPACE: Final = "holdfast-system"
_STEADY_S: Final = 5.0  # how long nothing may change
_APART: Final = {"apart": "true"}


class _Instances:
    """The instances of the last check, which have to stay."""

    def __init__(self, it: Installation) -> None:
        self._it = it
        self._now = it.instances()
        self._terminated = it.launched() - self._now.keys()  # before this test

    def expect_new(self, count: int) -> None:
        """The instances of the last check run, and new ones in slots. No other instance was launched meanwhile."""
        now = self._it.instances()
        assert self._now.items() <= now.items(), f"instances have changed: {self._now} to {now}"
        new = {instance: now[instance] for instance in now.keys() - self._now.keys()}
        assert list(new.values()) == [installation.SLOTS] * count, f"{count} new instances in slots: {new}"
        terminated = self._it.launched() - now.keys()
        assert terminated == self._terminated, f"launched twice, or terminated: {terminated}"
        claims = self._it.get("nodeclaims")["items"]
        assert {one["status"]["providerID"].rpartition("/")[2] for one in claims} == now.keys()
        drifted = [one["metadata"]["name"] for one in claims if _is_true(one, "Drifted")]
        assert not drifted, f"drifted: {drifted}"
        self._now = now


async def run(cluster: Installation, first: Version, second: Version) -> None:
    it = cluster.within(NAMESPACE)
    instances = _Instances(it)
    await _install(it, first, instances)
    with timed("the leader is killed, and a pod gets a node"):
        leader = it.leader()
        node = next(one for one in it.nodes if one.name == leader["spec"]["nodeName"])
        await asyncio.to_thread(kubelets.kill_container, node, leader["metadata"]["uid"])
        await _deploy(it, "late", 1)
        await it.until(lambda: len(it.pods("late")) == 1, "the pod runs")
    instances.expect_new(1)
    with timed("helm upgrade of the CRDs"):
        await asyncio.to_thread(it.install_crds, second)
    instances.expect_new(0)
    with timed("helm upgrade --wait, two pods pending meanwhile"):
        more = {"podAnnotations.step": "upgraded"}
        await _replace(it, second, lambda: it.install(second, **more), "upgrade")
    instances.expect_new(2)
    with timed("holdfast status and explain, through the service proxy"):
        await asyncio.to_thread(_ask, it)
    with timed("helm rollback --wait, two pods pending meanwhile"):
        rollback = ("rollback", "holdfast", "--wait", "--timeout", "180s")
        await _replace(it, first, lambda: it.helm(*rollback), "rollback")
    instances.expect_new(2)
    await _uninstall(it)
    instances.expect_new(0)


async def _install(it: Installation, version: Version, instances: _Instances) -> None:
    with timed("CRDs installed"):
        await asyncio.to_thread(it.install_crds, version)
    with timed("helm install --wait"):
        await asyncio.to_thread(it.install, version)
    pods = it.controller_pods()
    assert len(pods) == installation.REPLICAS
    assert len({pod["spec"]["nodeName"] for pod in pods}) == len(pods), "the replicas are on two nodes"
    with timed("two pods of a deployment run in paid slots"):
        await it.env.create(builders.nodepool_document("default"))
        document = builders.ec2nodeclass_document("default", **_class_spec())
        await it.env.create(installation.without_status(document))
        await _deploy(it, "web", 2)
        await it.until(lambda: len(it.pods("web")) == 2, "two pods run")
    instances.expect_new(2)


async def _replace(it: Installation, version: Version, act: Callable[[], object], name: str) -> None:
    """Replaces both replicas by those of another version. One pod is pending from the start, and one from the moment at
    which no replica leads."""
    web = it.pods("web")
    async with leases.watching(it.env, it.namespace, installation.LEASE) as holders:
        acting = asyncio.create_task(asyncio.to_thread(act))
        await _deploy(it, f"during-{name}", 1)
        released = asyncio.create_task(holders.released.wait())
        await asyncio.wait({acting, released}, return_when=asyncio.FIRST_COMPLETED)
        await _deploy(it, f"between-{name}", 1)
        await acting
        released.cancel()
        await it.until(lambda: len(it.pods(f"during-{name}")) == 1, "the pod of before runs")
        await it.until(lambda: len(it.pods(f"between-{name}")) == 1, "the pod without a leader runs")
    handovers = holders.handovers()
    assert handovers, f"the Lease changed its holder: {holders.changes}"
    for one in handovers:
        assert one.seconds is not None, f"the Lease timed out: {one}"
        assert one.seconds < HANDED_OVER_WITHIN_S, f"no replica led for {one.seconds:.1f} s: {one}"
    longest = max(one.seconds or 0 for one in handovers)
    print(f"|   of that no replica leads | {longest:.1f} s at most, {len(handovers)} times |", flush=True)
    assert it.leader()["spec"]["containers"][0]["image"] == version.image
    assert it.pods("web") == web, "the pods of web were not moved or restarted"


def _ask(it: Installation) -> None:
    """The command line reads the JSON API of the leader with the kubeconfig alone."""
    holdfast = Path(sys.executable).with_name("holdfast")
    where = ("--holdfast-namespace", it.namespace, "-o", "json")
    status = json.loads(it.tool(holdfast, "status", *where))
    assert status["leader"] == it.leader()["metadata"]["name"], status
    name = it.get("pods", "-l", "app=web")["items"][0]["metadata"]["name"]
    answer = json.loads(it.tool(holdfast, "explain", "pod", name, "-n", "default", *where))
    assert f"reserved in {installation.SLOTS}" in answer["what"], answer


async def _uninstall(it: Installation) -> None:
    web, claims = it.pods("web"), it.get("nodeclaims")["items"]
    with timed("helm uninstall"):
        printed = await asyncio.to_thread(it.helm, "uninstall", "holdfast", "--wait", "--timeout", "120s")
    print(f"|   helm prints | {printed.strip()} |", flush=True)
    await it.until(lambda: not it.controller_pods(), "the controller is gone")
    printed = await asyncio.to_thread(it.helm, "uninstall", "holdfast-crd", "--wait")
    assert "kept due to the resource policy" in printed
    await asyncio.sleep(_STEADY_S)
    assert it.pods("web") == web
    assert len(it.get("nodeclaims")["items"]) == len(claims)


def _is_true(document: dict[str, Any], condition: str) -> bool:
    found = document["status"].get("conditions", ())
    return any((one["type"], one["status"]) == (condition, "True") for one in found)


async def _deploy(it: Installation, name: str, replicas: int) -> None:
    """Every pod needs a node of its own."""
    term = {"labelSelector": {"matchLabels": _APART}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    document = cluster_environment.workload(name, replicas=replicas, labels=_APART, affinity=affinity)
    await it.env.create({"apiVersion": "apps/v1", "kind": "Deployment"} | document)


def _class_spec() -> dict[str, Any]:
    terms = [{"tags": installation.DISCOVERY}]
    return {
        "role": installation.NODE_ROLE,
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        "capacityReservationSelectorTerms": [{"id": installation.SLOTS}],
    }
