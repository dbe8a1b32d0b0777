"""v1 Node."""

from datetime import datetime
from typing import ClassVar

from msgspec import field

from holdfast.api.meta import LooseQuantity, Object, Wire


class NodeTaint(Wire, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: datetime | None = None


class NodeSpec(Wire, frozen=True, kw_only=True):
    provider_id: str = field(default="", name="providerID")
    taints: tuple[NodeTaint, ...] = ()
    unschedulable: bool = False


class NodeCondition(Wire, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_heartbeat_time: datetime | None = None
    last_transition_time: datetime | None = None


class NodeSystemInfo(Wire, frozen=True, kw_only=True):
    boot_id: str = field(default="", name="bootID")
    kubelet_version: str = ""
    architecture: str = ""
    operating_system: str = ""


class AttachedVolume(Wire, frozen=True):
    name: str
    device_path: str = ""


class NodeStatus(Wire, frozen=True, kw_only=True):
    capacity: dict[str, LooseQuantity] = {}
    allocatable: dict[str, LooseQuantity] = {}
    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"
    plural: ClassVar[str] = "nodes"
    namespaced: ClassVar[bool] = False

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
