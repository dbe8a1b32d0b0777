"""The conditions of a NodeClaim, by their names on the wire.

Written by controllers, read by whoever has to know how far a claim is. Those with a meaning of our own are said where
they are written; the others mean what they mean in Karpenter.
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
