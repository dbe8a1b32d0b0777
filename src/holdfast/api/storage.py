"""Volumes: PersistentVolumeClaims restrict where a pod can run, VolumeAttachments delay the termination of a node."""

from typing import ClassVar

from msgspec import field

from holdfast.api.meta import LooseQuantity, Object, Wire
from holdfast.api.pods import NodeSelector, ObjectReference


class VolumeResources(Wire, frozen=True):
    requests: dict[str, LooseQuantity] = {}


class PersistentVolumeClaimSpec(Wire, frozen=True, kw_only=True):
    volume_name: str = ""
    storage_class_name: str | None = None  # None: the default class; "": no class
    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()


class PersistentVolumeClaimStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"
    plural: ClassVar[str] = "persistentvolumeclaims"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class CSIVolumeSource(Wire, frozen=True, kw_only=True):
    driver: str
    volume_handle: str = ""


class HostPathSource(Wire, frozen=True):
    path: str = ""


class InTreeDisk(Wire, frozen=True, kw_only=True):
    """An in-tree volume source; a CSI driver has replaced it."""

    volume_id: str = field(default="", name="volumeID")
    pd_name: str = ""
    disk_name: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Wire, frozen=True, kw_only=True):
    storage_class_name: str = ""
    csi: CSIVolumeSource | None = None
    local: HostPathSource | None = None
    host_path: HostPathSource | None = None
    aws_elastic_block_store: InTreeDisk | None = None
    gce_persistent_disk: InTreeDisk | None = None
    azure_disk: InTreeDisk | None = None
    node_affinity: VolumeNodeAffinity | None = None
    claim_ref: ObjectReference | None = None


class PersistentVolumeStatus(Wire, frozen=True):
    phase: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"
    plural: ClassVar[str] = "persistentvolumes"
    namespaced: ClassVar[bool] = False

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Wire, frozen=True):
    key: str
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Wire, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"
    plural: ClassVar[str] = "storageclasses"
    namespaced: ClassVar[bool] = False

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Wire, frozen=True):
    count: int | None = None


class CSINodeDriver(Wire, frozen=True, kw_only=True):
    name: str
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] | None = None  # a server writes null for none
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Wire, frozen=True):
    drivers: tuple[CSINodeDriver, ...] | None = None  # a server writes null for none


class CSINode(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"
    plural: ClassVar[str] = "csinodes"
    namespaced: ClassVar[bool] = False

    spec: CSINodeSpec = CSINodeSpec()


class VolumeAttachmentSource(Wire, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Wire, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Wire, frozen=True):
    attached: bool = False


class VolumeAttachment(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"
    plural: ClassVar[str] = "volumeattachments"
    namespaced: ClassVar[bool] = False

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()
