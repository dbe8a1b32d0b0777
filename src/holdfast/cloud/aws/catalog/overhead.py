"""Computes the overhead of a node: kube-reserved, system-reserved and the eviction threshold.

Called by `instance_types`. Karpenter's formulas (facts aws-7.4), in integers. A value of the class replaces the default
of its resource only.
"""

import math
from dataclasses import dataclass
from typing import Final

from holdfast.cloud.aws.catalog import capacity
from holdfast.cloud.aws.catalog.node_shape import NodeShape, Threshold
from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.model import resources
from holdfast.model.resources import Resources

_MIB: Final = 2**20
_GIB: Final = 2**30
_MEMORY_PER_POD: Final = 11 * _MIB
_MEMORY_BASE: Final = 255 * _MIB
_EVICTION_MEMORY: Final = 100 * _MIB
_EVICTION_STORAGE_PARTS: Final = 10  # one tenth
# Range of the CPU in thousandths of a core, and the reserved fraction of it: 6 %, 1 %, 0.5 %, 0.25 %.
_CPU_STEPS: Final = ((0, 1000, 3, 50), (1000, 2000, 1, 100), (2000, 4000, 1, 200), (4000, 2**31, 1, 400))


@dataclass(frozen=True, slots=True)
class Overhead:
    kube_reserved: Resources
    system_reserved: Resources
    eviction_threshold: Resources

    @property
    def total(self) -> Resources:
        return resources.add(self.kube_reserved, self.system_reserved, self.eviction_threshold)


def overhead(info: InstanceTypeInfo, shape: NodeShape, has: Resources) -> Overhead:
    """The overhead of a node with this capacity."""
    return Overhead(kube_reserved(info, shape, has), shape.system_reserved, eviction_threshold(shape, has))


def kube_reserved(info: InstanceTypeInfo, shape: NodeShape, has: Resources) -> Resources:
    pods = has[resources.PODS]
    if shape.family.eni_limited_overhead:
        pods = capacity.eni_limited_pods(info, reserved_enis=0, efa_only=shape.efa_only_first_card)
    default = resources.of(
        {
            resources.CPU: _cpu_millis(has[resources.CPU]),
            resources.MEMORY: _MEMORY_PER_POD * pods + _MEMORY_BASE,
            resources.EPHEMERAL_STORAGE: _GIB,
        }
    )
    return default.replace(shape.kube_reserved)


def eviction_threshold(shape: NodeShape, has: Resources) -> Resources:
    """The hard thresholds. Soft thresholds reduce nothing: kubelets only report them."""
    memory, storage = has[resources.MEMORY], has[resources.EPHEMERAL_STORAGE]
    return resources.of(
        {
            resources.MEMORY: _amount(shape.eviction_memory, memory, _EVICTION_MEMORY),
            resources.EPHEMERAL_STORAGE: _amount(
                shape.eviction_storage, storage, -(-storage // _EVICTION_STORAGE_PARTS)
            ),
        }
    )


def _cpu_millis(cpu_millis: int) -> int:
    return sum(
        (min(cpu_millis, end) - start) * parts // of
        for start, end, parts, of in _CPU_STEPS
        if cpu_millis > start
    )


def _amount(threshold: Threshold | None, has: int, default: int) -> int:
    if threshold is None:
        return default
    return threshold if isinstance(threshold, int) else math.ceil(threshold * has)
