"""Whether a class may be launched from now.

The rules (aws-1.6.5, aws-1.6.6): a class that is being deleted is no longer there, so its claims are planned again
elsewhere; a class that is not Ready, or whose verdict is about an older spec, is waited for.
"""

from holdfast import errors
from holdfast.api import conditions
from holdfast.api.conditions import READY, TRUE, UNKNOWN
from holdfast.api.ec2nodeclass import EC2NodeClass


def check(node_class: EC2NodeClass) -> None:
    """InsufficientCapacity or NotReady."""
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
