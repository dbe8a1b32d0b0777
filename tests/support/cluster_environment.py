"""A cluster in virtual time: the embedded API server, the simulated EC2, and simulated kubelets and controllers.

A test is a coroutine that gets an `Environment`. Nodes start as real ones do: botocore launches an instance, and its user
data configures the kubelet.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

import aws_environment
from holdfast import errors
from holdfast.api.meta import Object
from holdfast.cloud.aws.launch import userdata
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap
from holdfast.cloud.aws.nodeclass.cluster import Cluster as Endpoint
from holdfast.kube.client import Client, ClientSettings
from holdfast.model.taints import Taint
from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.faults import Faults
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.aws import endpoint
from holdfast.sim.cluster import Cluster, pods
from holdfast.sim.cluster.kinds import Deployment, Node, Pod
from holdfast.sim.cluster.kubelet_starter import Joined
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup
from holdfast.sim.ec2.service import Ec2
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock

K = TypeVar("K", bound=Object)

START = datetime(2026, 11, 15, 10, tzinfo=UTC)
NAME = "blue"
JOINS = Endpoint(
    name=NAME,
    endpoint="https://blue.example",
    ca_bundle="Y2E=",
    service_cidr="10.96.0.0/16",
    dns_ip="10.96.0.10",
)


class Environment:
    def __init__(self, *, seed: int, timings: Timings | None) -> None:
        self.clock = VirtualClock(START)
        self.server = ApiServer(clock=self.clock, ids=SeededIds(f"server {seed}"))
        self.faults = Faults(self.server, self.clock)
        self.transport = InProcess(self.faults)
        settings = ClientSettings(per_second=1e6, burst=1_000_000)
        ids = SeededIds(f"cluster {seed}")
        self.kube = Client(transport=self.transport, clock=self.clock, ids=ids, settings=settings)
        defaults = replace(ec2_setup.plain(aws_environment.REGION), images=aws_environment.images())
        self.ec2 = Ec2(clock=self.clock, ids=SeededIds(f"ec2 {seed}"), setup=defaults, throttled=False)
        self._clients = aws_environment.SharedClients(endpoint.Endpoint({"ec2": self.ec2}, self.clock))
        self._launches = 0
        joined = Joined(name=NAME, endpoint=JOINS.endpoint, ca_bundle=JOINS.ca_bundle)
        self.cluster = Cluster(
            api=self.kube, cloud=self.ec2, clock=self.clock, ids=ids, timings=timings, joined=joined
        )

    # --- Time ---------------------------------------------------------------------------------------

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(seconds)
        self.cluster.check()

    async def until(self, holds: Callable[[], Awaitable[bool]], *, within_s: float = 300) -> float:
        """Waits until the condition holds, and returns how long that took."""
        start_s = self.clock.monotonic_s()
        while not await holds():
            waited_s = self.clock.monotonic_s() - start_s
            assert waited_s < within_s, f"the condition did not hold within {within_s} s"
            await self.sleep(1)
        return self.clock.monotonic_s() - start_s

    # --- Instances ----------------------------------------------------------------------------------

    @property
    def aws(self) -> Any:
        """botocore's client of EC2."""
        return self._clients.get("ec2")

    def launch(
        self,
        instance_type: str = "m5.large",
        *,
        zone: str = "a",
        family: str = "AL2023",
        labels: Mapping[str, str] | None = None,
        taints: tuple[Taint, ...] = (),
        max_pods: int = 29,
        text: str | None = None,
        count: int = 1,
        **bootstrap: Any,
    ) -> list[str]:
        """Launches instances with user data as Holdfast writes it, and returns their ids."""
        cluster = bootstrap.pop("cluster", JOINS)
        settings = Bootstrap(
            cluster=cluster, max_pods=max_pods, labels=labels or {}, taints=taints, **bootstrap
        )
        self._launches += 1
        answer = self.aws.run_instances(
            ImageId=self.image(family, instance_type),
            InstanceType=instance_type,
            MinCount=count,
            MaxCount=count,
            Placement={"AvailabilityZone": f"{aws_environment.REGION}{zone}"},
            UserData=userdata.text(family, settings) if text is None else text,
            ClientToken=f"launch-{self._launches}",
        )
        return [instance["InstanceId"] for instance in answer["Instances"]]

    def image(self, family: str, instance_type: str) -> str:
        architecture = self.ec2.region.types[instance_type].architectures[0]
        is_windows = family.startswith("Windows")
        return next(
            image.id
            for image in self.ec2.region.setup.images
            if image.architecture == architecture and (image.platform == "Windows") == is_windows
        )

    async def nodes_ready(self, count: int) -> None:
        async def ready() -> bool:
            nodes = await self.all(Node)
            ready = [node for node in nodes if pods.condition(node.status, "Ready").get("status") == "True"]
            return len(ready) >= count

        await self.until(ready)
        await self.sleep(5)

    async def node_of(self, instance_id: str) -> Node:
        found = [n for n in await self.all(Node) if str(n.spec.get("providerID", "")).endswith(instance_id)]
        assert len(found) == 1, f"{len(found)} nodes of {instance_id}"
        return found[0]

    # --- Objects ------------------------------------------------------------------------------------

    async def create(self, path: str, document: Mapping[str, Any]) -> None:
        headers = {"content-type": "application/json"}
        answer = await self.transport.request("POST", path, {}, headers, msgspec.json.encode(document))
        assert answer.status == 201, answer.body

    async def all(self, kind: type[K]) -> tuple[K, ...]:
        return (await self.kube.list(kind)).items

    async def deploy(self, name: str = "web", replicas: int = 1, **spec: Any) -> None:
        await self.create(
            "/apis/apps/v1/namespaces/default/deployments", workload(name, replicas=replicas, **spec)
        )

    async def scale(self, name: str, replicas: int) -> None:
        deployment = await self.kube.get(Deployment, name, "default")
        await self.kube.patch(deployment, {"spec": {"replicas": replicas}})

    async def pods(self, app: str = "web") -> list[Pod]:
        """The pods of an app that are not terminating."""
        found = await self.all(Pod)
        return [
            pod for pod in found if pod.metadata.labels.get("app") == app and not pods.is_terminating(pod)
        ]

    async def running(self, app: str = "web") -> list[Pod]:
        return [pod for pod in await self.pods(app) if pods.ready(pod)]

    async def until_running(self, count: int, app: str = "web", *, within_s: float = 300) -> float:
        async def enough() -> bool:
            return len(await self.running(app)) == count == len(await self.pods(app))

        return await self.until(enough, within_s=within_s)

    async def is_deleted(self, kind: type[Object], name: str, namespace: str = "") -> bool:
        try:
            await self.kube.get(kind, name, namespace)
        except errors.NotFound:
            return True
        return False


def workload(
    name: str,
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A workload document. `spec` mixes fields of the workload's spec and of the pod's spec."""
    owner_fields = (
        "replicas",
        "parallelism",
        "completions",
        "strategy",
        "podManagementPolicy",
        "volumeClaimTemplates",
        "backoffLimit",
    )
    owner = {key: spec.pop(key) for key in owner_fields if key in spec}
    selector = {} if "completions" in owner else {"selector": {"matchLabels": {"app": name}}}
    return {
        "metadata": {"name": name},
        "spec": {
            **owner,
            **selector,
            "template": {
                "metadata": {
                    "labels": {"app": name, **(labels or {})},
                    "annotations": dict(annotations or {}),
                },
                "spec": pod_spec(**spec),
            },
        },
    }


def pod_spec(
    cpu: str = "500m", memory: str = "128Mi", limits: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "main",
        "image": "example/app:1",
        "resources": {
            "requests": {"cpu": cpu, "memory": memory},
            **({"limits": dict(limits)} if limits else {}),
        },
    }
    return {"containers": [container | spec.pop("container", {})], **spec}


def run(
    program: Callable[[Environment], Awaitable[None]], *, seed: int = 1, timings: Timings | None = None
) -> Environment:
    """Runs a program and returns the environment afterwards."""

    async def main() -> Environment:
        env = Environment(seed=seed, timings=timings)
        await env.cluster.start()
        await program(env)
        await env.cluster.stop()
        return env

    return time.run(main())


def history(env: Environment) -> list[str]:
    """Every write that the API server accepted, in order, as it was stored."""
    by_version = {
        change.after.version: f"{name} {'ends' if change.deleted else 'is'} {change.after.body.decode()}"
        for name, bucket in env.server.registry.store.buckets()
        for change in bucket.changes(0)
    }
    return [by_version[version] for version in sorted(by_version)]


def reason(pod: Pod) -> tuple[str, str]:
    condition = pods.condition(pod.status, "PodScheduled")
    return condition.get("reason", ""), condition.get("message", "")
