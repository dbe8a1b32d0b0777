"""Index functions for watch caches."""

from holdfast import names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod


def by_uid(obj: Object) -> tuple[str, ...]:
    return (obj.metadata.uid,)


def by_node(pod: Pod) -> tuple[str, ...]:
    """The node a pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def by_node_name(claim: NodeClaim) -> tuple[str, ...]:
    """The node that a claim names in its status."""
    return (claim.status.node_name,) if claim.status.node_name else ()


def by_owner(obj: Object) -> tuple[str, ...]:
    """The uids of the objects that own it."""
    return tuple(owner.uid for owner in obj.metadata.owner_references)


def by_provider_id(obj: Node | NodeClaim) -> tuple[str, ...]:
    """The provider id of a Node or a NodeClaim."""
    provider_id = obj.spec.provider_id if isinstance(obj, Node) else obj.status.provider_id
    return (provider_id,) if provider_id else ()


def by_instance_id(claim: NodeClaim) -> tuple[str, ...]:
    """The instance id: the last part of the provider id."""
    return (claim.status.provider_id.rpartition("/")[2],) if claim.status.provider_id else ()


def by_node_pool(obj: Object) -> tuple[str, ...]:
    """The NodePool of a Node or a NodeClaim."""
    pool = obj.metadata.labels.get(names.NODEPOOL)
    return (pool,) if pool else ()
