"""What AWS says about nodes that are ill: which conditions of a Node count, and for how long each is tolerated (aws-9.4.3).

Read through the Cloud door by disruption. A condition that nobody on the node reports is never there.
"""

from typing import Final

from holdfast.core.disruption.repair import Treatment

_LONG_S: Final = 30 * 60
_SHORT_S: Final = 10 * 60

TREATMENTS: Final = (
    Treatment("Ready", "False", _LONG_S),
    Treatment("Ready", "Unknown", _LONG_S),
    Treatment("AcceleratedHardwareReady", "False", _SHORT_S),
    Treatment("StorageReady", "False", _LONG_S),
    Treatment("NetworkingReady", "False", _LONG_S),
    Treatment("KernelReady", "False", _LONG_S),
    Treatment("ContainerRuntimeReady", "False", _LONG_S),
)
