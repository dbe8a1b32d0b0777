"""Runs a kubelet for each running instance.

It reads the simulated EC2 every second; without heartbeats, only in seconds after a change. An instance that is started
again gets a new kubelet. The kubelet of an instance that stops, terminates or becomes silent is cancelled at once.
"""

import asyncio
import base64
import binascii
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from holdfast.sim.aws import waiting
from holdfast.sim.cluster import userdata
from holdfast.sim.cluster.engine import Engine
from holdfast.sim.cluster.kubelet import Kubelet
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.service import Ec2


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The values that the user data of an instance must have for its node to join; empty ones are not compared."""

    name: str = ""
    endpoint: str = ""
    ca_bundle: str = ""  # base64

    def refuses(self, bootstrap: userdata.BootstrapConfig) -> str:
        """Why a kubelet with this user data cannot join; empty if it can."""
        if self.name and bootstrap.cluster != self.name:
            return f"it joins the cluster {bootstrap.cluster!r}"
        if self.endpoint and bootstrap.endpoint.rstrip("/") != self.endpoint.rstrip("/"):
            return f"it does not reach an API server at {bootstrap.endpoint!r}"
        if self.ca_bundle and _certificates(bootstrap.ca_bundle) != _certificates(self.ca_bundle):
            return "it does not trust the certificate of the API server"
        return ""


def _certificates(bundle: str) -> tuple[bytes, ...]:
    """The content of a PEM file without whitespace."""
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
        self._seen: list[Instance] = []  # the instances of the last reading
        self._has_ended = False  # the task of a kubelet
        self._announced: set[str] = set()  # instances whose node was announced to the listeners
        self._listeners: list[Callable[[str], None]] = []
        self._stop_listeners: list[Callable[[str], None]] = []
        self._began_s = 0.0  # the first reading
        self._next_s = math.inf  # the next one
        self._is_sooner = asyncio.Event()  # than before
        self.failed: dict[str, str] = {}  # why an instance never becomes a node

    def on_start(self, listener: Callable[[str], None]) -> None:
        """Calls the listener with the name of each node whose kubelet starts."""
        self._listeners.append(listener)

    def on_stop(self, listener: Callable[[str], None]) -> None:
        """Calls the listener with the name of each node whose kubelet ends."""
        self._stop_listeners.append(listener)

    def of_node(self, name: str) -> Kubelet | None:
        """The running kubelet of a node."""
        kubelet = self._by_node.get(name)
        return kubelet if kubelet is not None and kubelet.registered else None

    async def run(self) -> None:
        clock, timings = self._engine.clock, self._timings
        self._began_s = clock.monotonic_s()
        self._cloud.region.on_write(self._written)
        try:
            while True:
                self._start_and_stop()
                if timings.heartbeats:
                    await clock.sleep(timings.poll_s)
                else:
                    await self._until_needed()
        finally:
            tasks = [running.task for running in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until_needed(self) -> None:
        """Leaves out the readings between which nothing changes: most seconds of a long run."""
        clock, agenda = self._engine.clock, self._cloud.region.agenda
        self._next_s = math.inf
        if agenda:
            self._read_at(clock.monotonic_s() + agenda[0][0] - clock.now_s())
        while (left_s := self._next_s - clock.monotonic_s()) > 0:
            self._is_sooner.clear()
            waits: list[Coroutine[Any, Any, Any]] = [self._is_sooner.wait()]
            if left_s < math.inf:
                waits.append(clock.sleep(left_s))
            await waiting.first(*waits)

    def _read_at(self, at_s: float) -> None:
        """Requests a reading at this time, or at the next whole number of polls after it."""
        poll_s = self._timings.poll_s
        next_s = self._began_s + math.ceil((at_s - self._began_s) / poll_s) * poll_s
        if next_s < self._next_s:
            self._next_s = next_s
            self._is_sooner.set()

    def _written(self) -> None:
        self._read_at(math.nextafter(self._engine.clock.monotonic_s(), math.inf))

    def _registered(self) -> None:
        self._read_at(self._engine.clock.monotonic_s())

    def _ended(self, _task: "asyncio.Task[None]") -> None:
        self._has_ended = True

    def _start_and_stop(self) -> None:
        self._cloud.advance()
        instances = control.running(self._cloud.region)
        if not self._has_ended and instances == self._seen and len(self._announced) == len(self._running):
            return  # most readings: something else was written
        self._seen, self._has_ended = instances, False
        found = {instance.id: instance for instance in instances}
        for instance_id, running in list(self._running.items()):
            instance = found.get(instance_id)
            if running.task.done():
                running.task.result()  # a bug of the simulator
            if instance is None or instance.boots != running.boots:
                running.task.cancel()
                del self._running[instance_id], self._by_node[running.kubelet.node]
                self._announced.discard(instance_id)
                for listener in self._stop_listeners:
                    listener(running.kubelet.node)
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
            on_registered=self._registered,
        )
        task = asyncio.create_task(kubelet.run())
        task.add_done_callback(self._ended)
        self._running[instance.id] = Running(kubelet, task, instance.boots)
        self._by_node[kubelet.node] = kubelet
