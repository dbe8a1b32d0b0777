"""The repair policies of AWS: conditions of a Node, and how long each is tolerated (aws-9.4.3).

Disruption reads them through `ports.Cloud`. A condition that no agent on the node reports never matches.
"""

from typing import Final

from holdfast.core.disruption.repair import RepairPolicy

_LONG_S: Final = 30 * 60
_SHORT_S: Final = 10 * 60

REPAIR_POLICIES: Final = (
    RepairPolicy("Ready", "False", _LONG_S),
    RepairPolicy("Ready", "Unknown", _LONG_S),
    RepairPolicy("AcceleratedHardwareReady", "False", _SHORT_S),
    RepairPolicy("StorageReady", "False", _LONG_S),
    RepairPolicy("NetworkingReady", "False", _LONG_S),
    RepairPolicy("KernelReady", "False", _LONG_S),
    RepairPolicy("ContainerRuntimeReady", "False", _LONG_S),
)
