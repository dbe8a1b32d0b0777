"""Whether instances can be launched from a class now.

A class that is being deleted counts as absent, so that its claims are planned again elsewhere. A launch waits for a
class that is not Ready, or whose Ready condition is of an older generation (aws-1.6.5, aws-1.6.6).
"""

from holdfast import errors
from holdfast.api import conditions
from holdfast.api.conditions import READY, TRUE, UNKNOWN
from holdfast.api.ec2nodeclass import EC2NodeClass


def check(node_class: EC2NodeClass) -> None:
    """Raises InsufficientCapacity or NotReady."""
    name = f"EC2NodeClass/{node_class.metadata.name}"
    if node_class.metadata.deletion_timestamp is not None:
        raise errors.InsufficientCapacity(f"{name} is being deleted")
    ready = conditions.find(node_class.status.conditions, READY)
    if ready is None or ready.status == UNKNOWN:
        raise errors.NotReady(f"{name}: whether it is Ready is not known yet")
    if ready.status != TRUE:
        raise errors.NotReady(f"{name} is not Ready: {ready.message or ready.reason}")
    if ready.observed_generation != node_class.metadata.generation:
        raise errors.NotReady(f"{name} was changed, and the change is not resolved yet")
