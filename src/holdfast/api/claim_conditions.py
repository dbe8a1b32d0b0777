"""The conditions of a NodeClaim, by their names on the wire.

Karpenter's conditions have Karpenter's meaning. The controllers that set the other conditions document them.
"""

from typing import Final

LAUNCHED: Final = "Launched"
REGISTERED: Final = "Registered"
INITIALIZED: Final = "Initialized"
NODE_NOT_FOUND: Final = "NodeNotFound"
CONSISTENT: Final = "ConsistentStateFound"
CONSOLIDATABLE: Final = "Consolidatable"
DRIFTED: Final = "Drifted"
REBOOTING: Final = "Rebooting"
DISRUPTION_REASON: Final = "DisruptionReason"
DRAINED: Final = "Drained"
VOLUMES_DETACHED: Final = "VolumesDetached"
INSTANCE_TERMINATING: Final = "InstanceTerminating"
