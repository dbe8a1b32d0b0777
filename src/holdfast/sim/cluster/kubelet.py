"""One kubelet, from the start of its instance to its termination. Called by `kubelet_starter`, a task each.

It uses its instance, its instance type and its user data, never a NodeClaim. It registers a Node once, reports it ready
and renews its Lease. Like a real kubelet, it does not create the Node again after a client deletes it.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from holdfast import errors, names
from holdfast.api.meta import ObjectMeta, OwnerReference
from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.sim.cluster import amounts, labels, node_resources, pods
from holdfast.sim.cluster.engine import Engine, persist
from holdfast.sim.cluster.kinds import CSINode, Json, Lease, Node
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.cluster.userdata import BootstrapConfig
from holdfast.sim.ec2.entities import Instance

NO_SCHEDULE: Final = "NoSchedule"
LEASES: Final = "kube-node-lease"
EBS: Final = "ebs.csi.aws.com"
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_BETA_ARCH: Final = "beta.kubernetes.io/arch"
_BETA_OS: Final = "beta.kubernetes.io/os"
_VERSION: Final = "v1.36.0-eks-simulated"
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")


class Kubelet:
    def __init__(  # noqa: PLR0913 - all by keyword
        self,
        *,
        engine: Engine,
        instance: Instance,
        info: InstanceTypeInfo,
        bootstrap: BootstrapConfig,
        zone: str,
        region: str,
        timings: Timings,
        on_registered: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._instance = instance
        self._info = info
        self._bootstrap = bootstrap
        self._zone = zone
        self._timings = timings
        self._on_registered = on_registered
        self._capacity = node_resources.capacity(info, instance, bootstrap)
        self._uid = ""  # of the Node that it registered
        self.node = f"ip-{instance.private_ip.replace('.', '-')}.{region}.compute.internal"
        self.address = instance.private_ip
        self.registered = False

    async def run(self) -> None:
        """Runs until it is cancelled: the kubelet of a terminated instance reports nothing."""
        clock, timings = self._engine.clock, self._timings
        await clock.sleep(timings.boot_s)
        await self._persist(self._register)
        await clock.sleep(timings.ready_s)
        await self._persist(self._report)
        await self._persist(self._publish_storage)
        if not timings.heartbeats:
            await clock.sleep(timings.devices_s)
            await self._persist(self._publish_devices)
            await asyncio.get_running_loop().create_future()  # until the instance ends
        began_s = clock.monotonic_s()
        reported_s, spoke = began_s, False
        while True:
            await self._persist(self._renew)
            if not spoke and clock.monotonic_s() >= began_s + timings.devices_s:
                await self._persist(self._publish_devices)
                spoke = True
            if clock.monotonic_s() >= reported_s + timings.status_s:
                await self._persist(self._report)
                reported_s = clock.monotonic_s()
            await clock.sleep(timings.heartbeat_s)

    async def _persist(self, call: Callable[[], Awaitable[None]]) -> None:
        await persist(call, clock=self._engine.clock, ids=self._engine.ids)

    # --- The Node -----------------------------------------------------------------------------------

    async def _register(self) -> None:
        """As in a real kubelet, the new Node has its capacity and conditions from its first version on."""
        uninitialized = {"key": names.UNINITIALIZED_TAINT, "value": "true", "effect": NO_SCHEDULE}
        # In a real cluster the API server adds this taint to every new Node.
        not_ready = {"key": names.NOT_READY_TAINT, "effect": NO_SCHEDULE}
        node = Node(
            metadata=ObjectMeta(name=self.node, labels={**self._bootstrap.labels, **self._own_labels()}),
            spec={
                "providerID": f"aws:///{self._zone}/{self._instance.id}",
                "taints": [*self._bootstrap.taints, uninitialized, not_ready],
            },
        )
        status = self._status() | {"conditions": self._conditions(node, ready=False)}
        try:
            created = await self._engine.kube.create(msgspec.structs.replace(node, status=status))
        except errors.AlreadyExists:  # after a restart
            created = await self._engine.kube.get(Node, self.node)
            status = self._status() | {"conditions": self._conditions(created, ready=False)}
            await self._engine.kube.patch(created, {"status": status}, status=True, only_if_unchanged=True)
        self._uid = created.metadata.uid
        await self._renew()
        self.registered = True
        self._on_registered()

    async def _report(self) -> None:
        """Reads the Node from the API server: other clients change a new Node, and the cache may be stale."""
        node = await self._engine.kube.get(Node, self.node)
        if node.metadata.uid == self._uid:
            conditions = self._conditions(node, ready=True)
            await self._engine.kube.patch(
                node, {"status": {"conditions": conditions}}, status=True, only_if_unchanged=True
            )

    async def _publish_devices(self) -> None:
        """Publishes the resources of device plugins, and removes startup taints like their agents."""
        node = self._mine()
        if node is None:
            return
        found = amounts.texts(node_resources.devices(self._info, self._instance))
        if found:
            node = await self._engine.kube.patch(
                node, {"status": {"capacity": found, "allocatable": found}}, status=True
            )
        left = [t for t in labels.taints(node) if t["key"] not in self._timings.startup_taints]
        if left != labels.taints(node):
            await self._engine.kube.patch(node, {"spec": {"taints": left or None}}, only_if_unchanged=True)

    async def _publish_storage(self) -> None:
        node = self._mine()
        if node is None:
            return
        driver = {
            "name": EBS,
            "nodeID": self._instance.id,
            "topologyKeys": [names.ZONE],
            "allocatable": {"count": node_resources.attachments(self._info)},
        }
        try:
            await self._engine.kube.create(
                CSINode(
                    metadata=ObjectMeta(name=self.node, owner_references=_owned_by_node(node)),
                    spec={"drivers": [driver]},
                )
            )
        except errors.AlreadyExists:
            return

    def _mine(self) -> Node | None:
        """The Node that this kubelet registered, if it exists."""
        node = self._engine.caches.of(Node).get(("", self.node))
        return node if node is not None and node.metadata.uid == self._uid else None

    def _own_labels(self) -> dict[str, str]:
        arch = _ARCHITECTURES[self._instance.spec.architecture]
        # Both are set under two names; otherwise kube-controller-manager would add the old ones.
        return {
            names.HOSTNAME: self.node,
            names.ARCH: arch,
            _BETA_ARCH: arch,
            names.OS: self._system,
            _BETA_OS: self._system,
        }

    @property
    def _system(self) -> str:
        return "windows" if self._instance.spec.platform == "Windows" else "linux"

    def _status(self) -> Json:
        boot = hashlib.blake2b(
            f"{self._instance.id} {self._instance.boots}".encode(), digest_size=16
        ).hexdigest()
        return {
            "capacity": amounts.texts(self._capacity),
            "allocatable": amounts.texts(
                node_resources.allocatable(self._capacity, self._info, self._bootstrap)
            ),
            "addresses": [
                {"type": "InternalIP", "address": self.address},
                {"type": "InternalDNS", "address": self.node},
                {"type": "Hostname", "address": self.node},
            ],
            "nodeInfo": {
                "architecture": _ARCHITECTURES[self._instance.spec.architecture],
                "bootID": boot,
                "containerRuntimeVersion": "containerd://2.0.0",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": _VERSION,
                "kubeletVersion": _VERSION,
                "machineID": self._instance.id,
                "operatingSystem": self._system,
                "osImage": "simulated",
                "systemUUID": self._instance.id,
            },
        }

    def _conditions(self, node: Node, *, ready: bool) -> list[Json]:
        now = self._engine.now()
        readiness = {
            "type": pods.READY,
            "status": "True" if ready else "False",
            "reason": "KubeletReady" if ready else "KubeletNotReady",
            "message": "kubelet is posting ready status" if ready else "container runtime network not ready",
        }
        calm = [
            {
                "type": name,
                "status": "False",
                "reason": f"KubeletHasNo{name}",
                "message": "kubelet has sufficient capacity",
            }
            for name in _PRESSURES
        ]
        return pods.with_conditions(
            node.status, now, *({**c, "lastHeartbeatTime": now} for c in (*calm, readiness))
        )

    # --- The Lease ----------------------------------------------------------------------------------

    async def _renew(self) -> None:
        if not self._timings.heartbeats:
            return
        now = f"{self._engine.now()[:-1]}.000000Z"
        lease = self._engine.caches.of(Lease).get((LEASES, self.node))
        if lease is not None:
            await self._engine.kube.patch(lease, {"spec": {"renewTime": now}})
            return
        node = self._mine()
        if node is None:
            return
        lease = Lease(
            metadata=ObjectMeta(name=self.node, namespace=LEASES, owner_references=_owned_by_node(node)),
            spec={"holderIdentity": self.node, "leaseDurationSeconds": 40, "renewTime": now},
        )
        try:
            await self._engine.kube.create(lease)
        except errors.AlreadyExists:
            return


def _owned_by_node(node: Node) -> tuple[OwnerReference, ...]:
    return (OwnerReference(api_version="v1", kind="Node", name=node.metadata.name, uid=node.metadata.uid),)
