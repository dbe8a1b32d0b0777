"""A sandbox for real programs: it runs in a thread of its own, with Karpenter, if requested, as a process.

A test reads the API server and the simulated AWS. The AWS calls of Karpenter are in `calls`, its log lines in `log`.
"""

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import build_peers
from holdfast.api.world import World as Written
from holdfast.app import sandbox
from holdfast.app.sandbox import ControlPlane
from holdfast.kube.transport import Answer
from holdfast.ports import Ids
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import control_plane as planes
from holdfast.sim import processes, world_reading
from holdfast.sim.api.serving.http import HOST
from holdfast.sim.aws.endpoint import Call
from holdfast.sim.aws.service import Caller
from holdfast.sim.cloud_setup import CloudSetup
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.processes import Health, Processes

T = TypeVar("T")
Json = dict[str, Any]

WITHIN_S = 240.0  # on a busy computer
CORE, AWS = "/apis/karpenter.sh/v1", "/apis/karpenter.k8s.aws/v1"
HOLDFAST = "holdfast"  # the program, beside the names of the real programs
PATHS = {
    "NodePool": f"{CORE}/nodepools",
    "NodeClaim": f"{CORE}/nodeclaims",
    "EC2NodeClass": f"{AWS}/ec2nodeclasses",
    "HoldfastNodeClass": "/apis/holdfast.dev/v1/holdfastnodeclasses",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups",
    "ProvisioningRequest": "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests",
    "Workload": "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}


class Arena:
    def __init__(
        self, env: sandbox.Sandbox, loop: asyncio.AbstractEventLoop, started_processes: Processes
    ) -> None:
        self.sandbox = env
        self._loop = loop
        self._processes = started_processes

    # --- Time ---------------------------------------------------------------------------------------

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs in the event loop of the sandbox, whose objects are not thread-safe."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WITHIN_S)

    def now(self, act: Callable[[], T]) -> T:
        """Calls a function in the event loop of the sandbox."""

        async def main() -> T:
            return act()

        return self.do(main())

    def check(self) -> None:
        """Raises errors of the sandbox, or that Karpenter has exited."""
        self.sandbox.check()
        self._processes.check()

    def until(self, holds: Callable[[], T], what: str, within_s: float = WITHIN_S) -> T:
        """Waits for a true result and returns it. Fails if the sandbox reports an error meanwhile."""
        until_s = time.monotonic() + within_s
        while True:
            self.now(self.check)
            found = holds()
            if found:
                return found
            assert time.monotonic() < until_s, f"not within {within_s} s: {what}; {self._last_log_lines()}"
            time.sleep(0.25)

    def start(self, name: str, *flags: str, environ: Mapping[str, str], port: int) -> None:
        """Starts a program; returns when it is ready on that port."""
        ready = Health(f"http://{HOST}:{port}/readyz")
        self.do(self._processes.start(name, *flags, health=ready, environ=environ))

    def stop_programs(self, *, kill: bool = False) -> None:
        """`kill`: like a crash."""
        self.do(self._processes.stop(kill=kill))

    def token_of(self, account: str, namespace: str) -> str:
        """A token of a service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self._ask("POST", path, review)["status"]["token"])

    # --- The cluster --------------------------------------------------------------------------------

    def create(self, *documents: Json) -> None:
        for document in documents:
            self.do(self.sandbox.create(document))

    def all(self, kind: str) -> list[Json]:
        return list(self._ask("GET", PATHS[kind])["items"])

    def get(self, kind: str, name: str) -> Json | None:
        return next((one for one in self.all(kind) if one["metadata"]["name"] == name), None)

    def patch(self, kind: str, name: str, change: Json) -> None:
        self._ask("PATCH", f"{PATHS[kind]}/{name}", change)

    def delete(self, kind: str, name: str) -> None:
        """Also what the object owns: without a policy the API server keeps the pods of a Job."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        self._ask("DELETE", f"{PATHS[kind]}/{name}", options)

    def evict(self, pod: str) -> int:
        """Returns the status of the response."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": "default"},
        }
        return self._send("POST", f"{PATHS['Pod']}/{pod}/eviction", body).status

    def scale(self, name: str, replicas: int) -> None:
        self.patch("Deployment", name, {"spec": {"replicas": replicas}})

    def claims(self, pool: str) -> list[Json]:
        return [c for c in self.all("NodeClaim") if c["metadata"]["labels"]["karpenter.sh/nodepool"] == pool]

    def nodes(self, pool: str) -> list[Json]:
        return [n for n in self.all("Node") if n["metadata"]["labels"].get("karpenter.sh/nodepool") == pool]

    def running(self, app: str) -> list[Json]:
        """Its running pods that are not being deleted."""
        return [
            pod
            for pod in self.all("Pod")
            if (pod["metadata"].get("labels") or {}).get("app") == app
            and pod.get("status", {}).get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def until_running(self, app: str, count: int) -> list[Json]:
        def enough() -> list[Json]:
            found = self.running(app)
            return found if len(found) == count else []

        return self.until(enough, f"{count} pods of {app} run")

    def until_settled(self, pool: str, count: int) -> list[Json]:
        """Its NodeClaims, when there are `count` of them, all initialized and none being deleted."""

        def settled() -> list[Json]:
            found = self.claims(pool)
            initialized = all(
                is_true(one, "Initialized") and "deletionTimestamp" not in one["metadata"] for one in found
            )
            return found if initialized and len(found) == count else []

        with self._listing_objects():
            return self.until(settled, f"{count} claims of {pool} are initialized")

    def until_empty(self, pool: str) -> None:
        with self._listing_objects():
            self.until(lambda: not self.claims(pool) and not self.nodes(pool), f"nothing is left of {pool}")

    @contextlib.contextmanager
    def _listing_objects(self) -> Iterator[None]:
        """The message of a failure has the objects that exist."""
        try:
            yield
        except AssertionError as error:
            kinds = ("NodeClaim", "Node", "Pod")
            there = {
                f"{kind}/{one['metadata']['name']}": _summary(one) for kind in kinds for one in self.all(kind)
            }
            raise AssertionError(f"{error}; there are {json.dumps(there, indent=1)}") from None

    def _send(self, method: str, path: str, body: Json | None) -> Answer:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = msgspec.json.encode(body) if body is not None else b""
        return self.do(self.sandbox.transport.request(method, path, {}, {"content-type": kind}, data))

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        answer = self._send(method, path, body)
        assert isinstance(answer.body, bytes)
        assert answer.status < 300, answer.body
        decoded: Json = msgspec.json.decode(answer.body)
        return decoded

    # --- The cloud ----------------------------------------------------------------------------------

    def aws(self, operation: str, **params: Any) -> Json:
        """A call to EC2 that Karpenter does not make."""
        about = self.sandbox.cloud.about
        return self.now(
            lambda: self.sandbox.cloud.ec2.call(operation, params, Caller(about.account, user_agent="test"))
        )

    def instances(self, pool: str) -> list[Instance]:
        """Pending and running instances, by the tag of their NodePool."""
        found = self.now(lambda: list(self.sandbox.cloud.ec2.region.instances))
        return [
            one
            for one in found
            if one.tags.get("karpenter.sh/nodepool") == pool and one.state in ("pending", "running")
        ]

    def instance(self, claim: Json) -> Instance:
        number = claim["status"]["providerID"].rpartition("/")[2]
        return self.now(lambda: self.sandbox.cloud.ec2.region.instances[number])

    def free_slots(self, reservation: str) -> int:
        return self.now(lambda: self.sandbox.cloud.ec2.region.reservations[reservation].available)

    def calls(self, operation: str, error: str | None = None) -> list[Call]:
        """Calls of Karpenter with this error code or none."""
        log = self.now(lambda: list(self.sandbox.cloud.endpoint.log))
        return [call for call in log if call.operation == operation and call.error == error]

    def _last_log_lines(self) -> str:
        path = self._processes.log("karpenter-aws")
        messages = (
            [line["message"] for line in self.log() if line["level"] != "DEBUG"] if path.exists() else []
        )
        return f"the log in {path.parent} ends with {messages[-20:]}"

    # --- Log ----------------------------------------------------------------------------------------

    def log(self) -> list[Json]:
        """The log lines; lines that are not JSON belong to a panic."""
        document = self._processes.log("karpenter-aws").read_text(encoding="utf-8")
        return [_line(text) for text in document.splitlines() if text.strip()]


def _summary(found: Json) -> Json:
    """The values of an object that decide whether a node is used."""
    meta, spec, status = found["metadata"], found.get("spec", {}), found.get("status", {})
    return {
        "created": meta["creationTimestamp"],
        "deleted": meta.get("deletionTimestamp"),
        "node": spec.get("nodeName") or status.get("nodeName"),
        "taints": spec.get("taints"),
        "conditions": {one["type"]: one["status"] for one in status.get("conditions") or ()},
    }


def _line(text: str) -> Json:
    try:
        found: Json = json.loads(text)
    except ValueError:
        return {"level": "PANIC", "message": text}
    return found


@contextlib.contextmanager
def opened(
    folder: Path,
    spec: Json,
    control_plane: str,
    *,
    karpenter: bool = True,
    crds: bool = True,
    server_flags: Sequence[str] = (),
    feature_gates: Sequence[str] = (),
    ids: Ids | None = None,
) -> Iterator[Arena]:
    """A sandbox with this World, and Karpenter running in it. `crds`: those of Holdfast are installed. `ids`: of the
    sandbox; random if unset."""
    document = msgspec.convert({"metadata": {"name": "arena"}, "spec": spec}, Written)
    setup = world_reading.read(document, RealClock().now_s())
    assert isinstance(setup, CloudSetup), setup
    plan = sandbox.Plan(
        folder=folder,
        setup=setup,
        timings=world_reading.cluster_timings(document),
        control_plane=ControlPlane(control_plane),
        find=build_peers.binary,
        crds=crds,
        server_flags=tuple(server_flags),
        feature_gates=tuple(feature_gates),
    )
    with _in_thread(lambda: _serving(plan, ids or RealIds(), karpenter=karpenter)) as arena:
        yield arena


@contextlib.asynccontextmanager
async def _serving(plan: sandbox.Plan, ids: Ids, *, karpenter: bool) -> AsyncIterator[Arena]:
    clock = RealClock()
    async with (
        sandbox.running(plan, clock=clock, ids=ids) as env,
        processes.running(plan.folder, clock, _program) as started_processes,
    ):
        if karpenter:
            await start_karpenter(env, started_processes, plan.folder)
        yield Arena(env, asyncio.get_running_loop(), started_processes)


def _program(name: str) -> Path:
    return Path(sys.executable).with_name(HOLDFAST) if name == HOLDFAST else build_peers.binary(name)


async def start_karpenter(env: sandbox.Sandbox, started_processes: Processes, home: Path) -> None:
    metrics, health = planes.free_ports(2)
    environ = env.environment() | {
        "METRICS_PORT": str(metrics),
        "HEALTH_PROBE_PORT": str(health),
        "LOG_LEVEL": "debug",
        "HOME": str(home),
    }
    ready = Health(f"http://{HOST}:{health}/readyz")
    await started_processes.start("karpenter-aws", health=ready, environ=environ)


@contextlib.contextmanager
def _in_thread(serve: Callable[[], contextlib.AbstractAsyncContextManager[T]]) -> Iterator[T]:
    """Enters an asynchronous context in an event loop of another thread, and exits it with this context."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(work: Awaitable[Any]) -> Any:
        async def main() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(main(), loop).result(WITHIN_S)

    try:
        ending: asyncio.Event = asyncio.Event()
        started: asyncio.Future[T] = loop.create_future()

        async def serve_until_ended() -> None:
            # Task groups must be entered and exited by the same task.
            try:
                async with serve() as value:
                    started.set_result(value)
                    await ending.wait()
            finally:
                if not started.done():
                    started.cancel()

        task = asyncio.run_coroutine_threadsafe(serve_until_ended(), loop)
        try:
            yield wait(started)
        finally:
            loop.call_soon_threadsafe(ending.set)
            task.result(WITHIN_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


# --- Documents --------------------------------------------------------------------------------------


def conditions(obj: Json) -> dict[str, str]:
    return {one["type"]: one["status"] for one in obj.get("status", {}).get("conditions") or []}


def is_true(obj: Json, condition: str) -> bool:
    return conditions(obj).get(condition) == "True"


def node_class(name: str = "default", **spec: Any) -> Json:
    terms = [{"tags": {"karpenter.sh/discovery": "holdfast"}}]
    whole = {
        "role": "KarpenterNodeRole-holdfast",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms,
        "securityGroupSelectorTerms": terms,
        "capacityReservationSelectorTerms": [{"tags": {"team": "e2e"}}],
        **spec,
    }
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": whole,
    }


def pool(name: str, *, capacity: list[str], types: list[str], disruption: Json | None = None) -> Json:
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": capacity},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    never = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    spec = {
        "template": {
            "spec": {
                "nodeClassRef": reference,
                "requirements": requirements,
                "terminationGracePeriod": "60s",
            }
        },
        "disruption": disruption or never,
    }
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def deployment(
    name: str, replicas: int, requests: Mapping[str, str], *, apart: bool = False, anywhere: bool = False
) -> Json:
    """Pods for the NodePool of that name, or for any node; apart: each on a node of its own."""
    labels = {"app": name}
    anti_affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
            ]
        }
    }
    resources = {"requests": dict(requests), "limits": {k: v for k, v in requests.items() if "/" in k}}
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": "pause", "resources": resources}],
        **({"affinity": anti_affinity} if apart else {}),
        **({} if anywhere else {"nodeSelector": {"karpenter.sh/nodepool": name}}),
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
