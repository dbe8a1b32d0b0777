"""A kubelet for each instance that runs, and none for those that do not.

It reads the simulated EC2 every second. An instance that is started again gets a new kubelet; one that stops,
terminates or becomes silent loses its kubelet at once, in the middle of whatever the kubelet did.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.sim.cluster import userdata
from holdfast.sim.cluster.engine import Engine
from holdfast.sim.cluster.kubelet import Kubelet
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.service import Ec2


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The cluster that instances must know to join it; what is empty is not compared."""

    name: str = ""
    endpoint: str = ""
    ca_bundle: str = ""  # base64

    def refuses(self, bootstrap: userdata.BootstrapConfig) -> str:
        """Why a kubelet with this user data cannot join; empty: it can."""
        if self.name and bootstrap.cluster != self.name:
            return f"it joins the cluster {bootstrap.cluster!r}"
        if self.endpoint and bootstrap.endpoint.rstrip("/") != self.endpoint.rstrip("/"):
            return f"it does not reach an API server at {bootstrap.endpoint!r}"
        if self.ca_bundle and _certificates(bootstrap.ca_bundle) != _certificates(self.ca_bundle):
            return "it does not trust the certificate of the API server"
        return ""


def _certificates(bundle: str) -> tuple[bytes, ...]:
    """The words of a PEM file: line breaks and spaces do not matter."""
    try:
        return tuple(base64.b64decode(bundle, validate=True).split())
    except binascii.Error:
        return ()


@dataclass(frozen=True, slots=True)
class Running:
    kubelet: Kubelet
    task: "asyncio.Task[None]"
    boots: int


class KubeletStarter:
    def __init__(self, *, engine: Engine, cloud: Ec2, timings: Timings, cluster: Joined) -> None:
        self._engine = engine
        self._cloud = cloud
        self._timings = timings
        self._cluster = cluster
        self._running: dict[str, Running] = {}  # by instance id
        self._by_node: dict[str, Kubelet] = {}
        self._announced: set[str] = set()  # instances whose node was reported to the listeners
        self._listeners: list[Callable[[str], None]] = []
        self.failed: dict[str, str] = {}  # instances that never become a node, and why

    def on_start(self, listener: Callable[[str], None]) -> None:
        """Calls it with the name of a node whose kubelet has begun to work."""
        self._listeners.append(listener)

    def of_node(self, name: str) -> Kubelet | None:
        """The kubelet that works on a node now."""
        kubelet = self._by_node.get(name)
        return kubelet if kubelet is not None and kubelet.registered else None

    async def run(self) -> None:
        try:
            while True:
                self._start_and_stop()
                await self._engine.clock.sleep(self._timings.poll_s)
        finally:
            tasks = [running.task for running in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start_and_stop(self) -> None:
        self._cloud.advance()
        found = {instance.id: instance for instance in control.running(self._cloud.region)}
        for instance_id, running in list(self._running.items()):
            instance = found.get(instance_id)
            if running.task.done():
                running.task.result()  # a bug of ours
            if instance is None or instance.boots != running.boots:
                running.task.cancel()
                del self._running[instance_id], self._by_node[running.kubelet.node]
                self._announced.discard(instance_id)
            elif running.kubelet.registered and instance_id not in self._announced:
                self._announced.add(instance_id)
                for listener in self._listeners:
                    listener(running.kubelet.node)
        for instance in found.values():
            if instance.id not in self._running and instance.id not in self.failed:
                self._start(instance)

    def _start(self, instance: Instance) -> None:
        region = self._cloud.region
        try:
            bootstrap = userdata.read(instance.spec.user_data)
        except userdata.NotANode as error:
            self.failed[instance.id] = str(error)
            return
        refused = self._cluster.refuses(bootstrap)
        if refused:
            self.failed[instance.id] = refused
            return
        kubelet = Kubelet(
            engine=self._engine,
            instance=instance,
            info=region.types[instance.instance_type],
            bootstrap=bootstrap,
            zone=region.account(instance.account).zone_name(instance.zone_id),
            region=region.setup.region,
            timings=self._timings,
        )
        task = asyncio.create_task(kubelet.run())
        self._running[instance.id] = Running(kubelet, task, instance.boots)
        self._by_node[kubelet.node] = kubelet
