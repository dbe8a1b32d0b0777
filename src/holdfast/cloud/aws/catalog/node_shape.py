"""Parses the settings of an EC2NodeClass that decide the size of its nodes.

Called by `builder`; `capacity` and `overhead` compute from it. Every mistake in the kubelet settings is reported here
with its path, so later code cannot fail on one. Expressions in place of numbers (Karpenter's gate NodeClassCEL) are
rejected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.instance import BlockDeviceMapping
from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.catalog.families import Family
from holdfast.model import quantity, resources
from holdfast.model.resources import NOTHING, Resources

EFA_ONLY: Final = "efa-only"
RAID0: Final = "RAID0"
_DEFAULT_VOLUME_BYTES: Final = 20 * 2**30
_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,9})?)%")
_ALL: Final = Fraction(1)

Threshold = int | Fraction
"""An amount in the unit of its resource, or a fraction of the capacity."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    family: Family
    volume_bytes: int  # ephemeral storage, unless local disks replace it
    raid0: bool = False  # local disks replace the volume on types that have some
    max_pods: int | None = None
    pods_per_core: int = 0  # 0: no limit
    kube_reserved: Resources = NOTHING
    system_reserved: Resources = NOTHING
    eviction_memory: Threshold | None = None  # None: the kubelet's default
    eviction_storage: Threshold | None = None
    efa_only: int | None = None  # number of efa-only interfaces; None: the class lists no interfaces
    placement_group: str | None = (
        ""  # the id of the placement group; None: the class selects it by name; "": none
    )
    efa_only_first_card: int = 0  # on the first card: each replaces an interface with addresses


def of(node_class: EC2NodeClass | None) -> NodeShape:
    """The shape of a class; without a class, that of an AL2023 node with default settings. Raises InvalidInput with the
    path of a mistake."""
    family = families.of(node_class)
    if node_class is None:
        return NodeShape(family, family.data_volume_bytes)
    spec, kubelet = node_class.spec, node_class.spec.kubelet or {}
    eviction = _mapping(kubelet, "evictionHard")
    efa_only = [nic.network_card_index for nic in spec.network_interfaces if nic.interface_type == EFA_ONLY]
    return NodeShape(
        family=family,
        volume_bytes=_volume_bytes(family, spec.block_device_mappings),
        raid0=spec.instance_store_policy == RAID0,
        max_pods=_count(kubelet, "maxPods"),
        pods_per_core=_count(kubelet, "podsPerCore") or 0,
        kube_reserved=_reserved(kubelet, "kubeReserved"),
        system_reserved=_reserved(kubelet, "systemReserved"),
        eviction_memory=_threshold(eviction, "memory.available"),
        eviction_storage=_threshold(eviction, "nodefs.available"),
        efa_only=len(efa_only) if spec.network_interfaces else None,
        placement_group="" if spec.placement_group_selector is None else spec.placement_group_selector.id,
        efa_only_first_card=efa_only.count(0),
    )


def _volume_bytes(family: Family, devices: tuple[BlockDeviceMapping, ...]) -> int:
    """The size of the root volume; else of the family's data device (for Custom: the last one); else the default."""
    root = next((device for device in devices if device.root_volume), None)
    data = (
        next(iter(devices[-1:]), None)
        if family.name == families.CUSTOM
        else next((device for device in devices if device.device_name == family.data_device), None)
    )
    for device in (root, data):
        if device and device.ebs and device.ebs.volume_size:
            return quantity.units(device.ebs.volume_size)
    return family.data_volume_bytes if family.data_device else _DEFAULT_VOLUME_BYTES


def _count(kubelet: Mapping[str, Any], key: str) -> int | None:
    value = kubelet.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise errors.InvalidInput(
        f"spec.kubelet.{key} {value!r} is not a whole number from 0 up; expressions are not supported"
    )


def _reserved(kubelet: Mapping[str, Any], key: str) -> Resources:
    amounts = {}
    for name, value in _mapping(kubelet, key).items():
        try:
            amounts[name] = resources.amount(name, value)
        except errors.InvalidInput as error:
            raise errors.InvalidInput(
                f"spec.kubelet.{key}.{name}: {error}; expressions are not supported"
            ) from error
    return resources.of(amounts)


def _threshold(eviction: Mapping[str, Any], signal: str) -> Threshold | None:
    value = eviction.get(signal)
    if value is None:
        return None
    percent = _PERCENT.fullmatch(str(value))
    if percent:
        part = Fraction(percent[1]) / 100
        return 0 if part == _ALL else part  # 100% turns the threshold off
    try:
        return quantity.units(value)
    except errors.InvalidInput as error:
        raise errors.InvalidInput(f"spec.kubelet.evictionHard.{signal}: {error}") from error


def _mapping(kubelet: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = kubelet.get(key) or {}
    if isinstance(value, Mapping):
        return value
    raise errors.InvalidInput(f"spec.kubelet.{key} is not a map of names to amounts")
