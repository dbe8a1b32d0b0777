"""The price of burstable instance types when pods use their vCPUs: the list price covers a baseline only.

Called by `builder`. A burstable type (T2, T3, T3a, T4g) earns CPU credits for a share of its vCPUs, its baseline. In
unlimited mode, the default of T3, T3a and T4g, EC2 charges each vCPU-hour above the baseline. The planner fills nodes
with pods, so it compares a burstable type at its list price plus these credits.
"""

from typing import Final

from holdfast.data.ec2 import InstanceTypeInfo

_VCPU_HOUR_NANO_USD: Final = 50_000_000  # Linux
_VCPU_HOUR_GRAVITON_NANO_USD: Final = 40_000_000
_GRAVITON: Final = "t4g"
_BASELINE_PERMILLE: Final = {  # of each vCPU, by size
    "nano": 50,
    "micro": 100,
    "small": 200,
    "medium": 200,
    "large": 300,
    "xlarge": 400,
    "2xlarge": 400,
}
_BASELINE_T2_PERMILLE: Final = {**_BASELINE_PERMILLE, "xlarge": 225, "2xlarge": 168}
_T2: Final = "t2"
_T1: Final = "t1"  # not burstable in EC2's data; it earns no credits, and EC2 throttles it


def surcharge_nano_usd_per_hour(info: InstanceTypeInfo, cpu_percent: int) -> int:
    """The price per hour of the CPU credits when pods use this share of the vCPUs; 0 for other types. A size without an
    entry here has no baseline."""
    family, _, size = info.name.partition(".")
    if not info.burstable and family != _T1:
        return 0
    baselines = _BASELINE_T2_PERMILLE if family == _T2 else _BASELINE_PERMILLE
    above_permille = max(0, cpu_percent * 10 - baselines.get(size, 0))
    vcpu_hour = _VCPU_HOUR_GRAVITON_NANO_USD if family == _GRAVITON else _VCPU_HOUR_NANO_USD
    return info.vcpus * above_permille * vcpu_hour // 1000
