"""A real kubectl against the embedded API server: common commands and their output."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fetch_kubectl
from api_fronts import deployment, nodepool, pod
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import http
from holdfast.sim.api.serving.routing import User

ROOT = Path(__file__).resolve().parents[2]
CRDS = ROOT / "charts/holdfast/crds"
EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig of one server, and a cache of its own."""

    program: Path
    home: Path

    async def __call__(self, *words: str, stdin: Any = None) -> Done:
        process = await self.start(*words)
        text = b"" if stdin is None else json.dumps(stdin).encode()
        out, err = await asyncio.wait_for(process.communicate(text), 60)
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    async def output(self, *words: str, stdin: Any = None) -> str:
        """Standard output of a command that must succeed."""
        done = await self(*words, stdin=stdin)
        assert done.code == 0, done
        return done.out

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        environment = {**os.environ, "KUBECONFIG": str(self.home / "config"), "HOME": str(self.home)}
        return await asyncio.create_subprocess_exec(
            self.program,
            *words,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )


@asynccontextmanager
async def cluster(home: Path, *, kinds: bool = True) -> AsyncIterator[Kubectl]:
    server = ApiServer(clock=RealClock(), ids=RealIds(), tokens={"secret": User("admin")})
    async with http.serving(server) as address:
        (home / "config").write_text(address.kubeconfig("secret"), encoding="utf-8")
        kubectl = Kubectl(fetch_kubectl.kubectl(), home)
        if kinds:
            await kubectl.output("apply", "-f", str(CRDS))
        yield kubectl


def run(home: Path, test: Callable[[Kubectl], Awaitable[None]], *, kinds: bool = True) -> None:
    async def main() -> None:
        async with cluster(home, kinds=kinds) as kubectl:
            await test(kubectl)

    asyncio.run(main())


READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-11-15T00:00:00Z",
}


def test_our_crds_and_examples_are_applied_with_validation(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        first = await kubectl.output("apply", "-f", str(CRDS))
        assert first.count(" created") == 4
        await kubectl.output("wait", "--for=condition=Established", "crd", "--all", "--timeout=5s")
        assert (await kubectl.output("apply", "--validate=strict", "-f", str(EXAMPLES))).count("nodepool") > 5
        again = await kubectl.output("apply", "-f", str(EXAMPLES))
        changed = [line for line in again.splitlines() if not line.endswith(" unchanged")]
        assert changed == [
            "pod/training configured"
        ]  # apply replaces the pod's tolerations, and admission adds the defaults again
        misspelt = nodepool(templatee={})
        refused = await kubectl("apply", "-f", "-", stdin=misspelt)
        assert refused.code == 1
        assert 'unknown field "spec.templatee"' in refused.err
        too_heavy = await kubectl("apply", "-f", "-", stdin=nodepool("heavy", weight=500))
        assert "spec.weight in body should be less than or equal to 100" in too_heavy.err

    run(tmp_path, test, kinds=False)


def test_get_shows_our_printer_columns(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        await kubectl.output("apply", "-f", "-", stdin=nodepool(weight=7))
        status = json.dumps({"status": {"conditions": [READY], "nodes": 3}})
        await kubectl.output(
            "patch", "nodepool", "default", "--subresource=status", "--type=merge", "-p", status
        )
        header, row = (await kubectl.output("get", "nodepools", "-o", "wide")).splitlines()
        assert header.split() == ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"]
        assert row.split()[:4] == ["default", "default", "3", "True"]
        assert row.split()[5] == "7"
        names = await kubectl.output("get", "karpenter", "-o", "name")  # by category
        assert names.split() == ["nodepool.karpenter.sh/default"]
        assert "ec2ncs" in await kubectl.output("api-resources", "--api-group=karpenter.k8s.aws")

    run(tmp_path, test)


def test_explain_shows_nested_fields_of_crds_and_of_kubernetes(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        budgets = await kubectl.output("explain", "nodepool.spec.disruption.budgets")
        assert "FIELD: budgets <[]Object>" in budgets
        assert "schedule" in budgets
        image = await kubectl.output("explain", "deployment.spec.template.spec.containers.image")
        assert "FIELD: image <string>" in image

    run(tmp_path, test)


def test_describe_shows_an_object_and_its_events(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        await kubectl.output("create", "-f", "-", stdin=pod())
        made = json.loads(await kubectl.output("get", "pod", "a", "-o", "json"))
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "a.1", "namespace": "default"},
            "involvedObject": {
                "kind": "Pod",
                "name": "a",
                "namespace": "default",
                "uid": made["metadata"]["uid"],
            },
            "reason": "FailedScheduling",
            "message": "no node fits",
            "type": "Warning",
            "source": {"component": "scheduler"},
            "count": 1,
        }
        await kubectl.output("create", "-f", "-", stdin=event)
        shown = await kubectl.output("describe", "pod", "a")
        assert "FailedScheduling" in shown
        assert "no node fits" in shown
        await kubectl.output("apply", "-f", "-", stdin=nodepool(weight=7))
        assert "Weight:  7" in await kubectl.output("describe", "nodepool", "default")

    run(tmp_path, test)


def test_server_side_apply_finds_a_conflict_and_can_force_it(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        words = ("apply", "--server-side", "-f", "-")
        await kubectl.output(*words, "--field-manager=a", stdin=nodepool(weight=1))
        refused = await kubectl(*words, "--field-manager=b", stdin=nodepool(weight=2))
        assert refused.code == 1
        assert 'conflict with "a": .spec.weight' in refused.err
        await kubectl.output(*words, "--field-manager=b", "--force-conflicts", stdin=nodepool(weight=2))
        assert await kubectl.output("get", "nodepool", "default", "-o", "jsonpath={.spec.weight}") == "2"

    run(tmp_path, test)


def test_server_side_apply_can_follow_client_side_apply(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        await kubectl.output("apply", "-f", "-", stdin=deployment(replicas=2))
        for replicas in (2, 3):
            await kubectl.output("apply", "--server-side", "-f", "-", stdin=deployment(replicas=replicas))
        text = await kubectl.output("get", "deployment", "web", "-o", "json", "--show-managed-fields")
        managers = {(e["manager"], e["operation"]) for e in json.loads(text)["metadata"]["managedFields"]}
        assert ("kubectl", "Apply") in managers
        assert await kubectl.output("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}") == "3"

    run(tmp_path, test)


def test_wait_returns_when_the_condition_is_met(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        await kubectl.output("apply", "-f", "-", stdin=nodepool())
        waiting = asyncio.create_task(
            kubectl("wait", "--for=condition=Ready", "nodepool/default", "--timeout=20s")
        )
        late = await kubectl("wait", "--for=condition=Ready", "nodepool/default", "--timeout=1s")
        assert late.code == 1
        status = json.dumps({"status": {"conditions": [READY]}})
        await kubectl.output(
            "patch", "nodepool", "default", "--subresource=status", "--type=merge", "-p", status
        )
        done = await waiting
        assert (done.code, done.out) == (0, "nodepool.karpenter.sh/default condition met\n")

    run(tmp_path, test)


def test_delete_waits_for_a_finalizer(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        held = nodepool()
        held["metadata"]["finalizers"] = ["x.dev/hold"]
        await kubectl.output("apply", "-f", "-", stdin=held)
        deleting = asyncio.create_task(kubectl("delete", "nodepool", "default", "--timeout=20s"))
        await kubectl.output(
            "wait", "--for=jsonpath={.metadata.deletionTimestamp}", "nodepool/default", "--timeout=10s"
        )
        assert not deleting.done()
        free = json.dumps([{"op": "remove", "path": "/metadata/finalizers"}])
        await kubectl.output("patch", "nodepool", "default", "--type=json", "-p", free)
        done = await deleting
        assert (done.code, '"default" deleted' in done.out) == (0, True)
        assert "NotFound" in (await kubectl("get", "nodepool", "default")).err

    run(tmp_path, test)


def test_watch_prints_a_line_per_change(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        process = await kubectl.start("get", "nodepools", "--watch", "--no-headers")
        assert process.stdout is not None
        try:
            await kubectl.output("apply", "-f", "-", stdin=nodepool("first"))
            line = await asyncio.wait_for(process.stdout.readline(), 20)
            assert line.split()[0] == b"first"
            await kubectl.output("apply", "-f", "-", stdin=nodepool("second"))
            line = await asyncio.wait_for(process.stdout.readline(), 20)
            assert line.split()[0] == b"second"
        finally:
            process.kill()
            await process.communicate()

    run(tmp_path, test)


def test_common_commands_work(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        await kubectl.output("create", "namespace", "team")
        await kubectl.output("-n", "team", "create", "deployment", "web", "--image=web:1", "--replicas=2")
        await kubectl.output("-n", "team", "scale", "deployment", "web", "--replicas=5")
        await kubectl.output("-n", "team", "label", "deployment", "web", "tier=front")
        await kubectl.output("-n", "team", "annotate", "deployment", "web", "note=x")
        await kubectl.output("-n", "team", "set", "image", "deployment/web", "web=web:2")
        shown = json.loads(await kubectl.output("-n", "team", "get", "deployment", "web", "-o", "json"))
        assert shown["spec"]["replicas"] == 5
        assert shown["metadata"]["labels"]["tier"] == "front"
        assert shown["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
        assert "yes" in await kubectl.output("auth", "can-i", "delete", "nodes")
        assert "admin" in await kubectl.output("auth", "whoami")
        await kubectl.output(
            "-n", "team", "create", "configmap", "c", "--from-literal=a=b", "--dry-run=server"
        )
        assert (await kubectl("-n", "team", "get", "configmap", "c")).code == 1
        assert (await kubectl("diff", "-f", "-", stdin=nodepool())).code == 1  # there is a difference
        await kubectl.output("delete", "namespace", "team", "--timeout=20s")
        assert (await kubectl("get", "namespace", "team")).code == 1

    run(tmp_path, test)


def test_a_node_is_cordoned_tainted_and_drained(tmp_path: Path) -> None:
    async def test(kubectl: Kubectl) -> None:
        await kubectl.output(
            "create", "-f", "-", stdin={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        )
        await kubectl.output("taint", "node", "n1", "a=b:NoSchedule")
        await kubectl.output("create", "-f", "-", stdin=pod(nodeName="n1", terminationGracePeriodSeconds=0))
        await kubectl.output("drain", "n1", "--force", "--timeout=20s")
        assert (await kubectl("get", "pod", "a")).code == 1
        assert "SchedulingDisabled" in await kubectl.output("get", "node", "n1")
        await kubectl.output("uncordon", "n1")
        assert "SchedulingDisabled" not in await kubectl.output("get", "node", "n1")

    run(tmp_path, test)
