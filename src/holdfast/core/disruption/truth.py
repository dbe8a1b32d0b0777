"""What a node is, by what the cloud says of its machine: the labels of NodeClaim and Node follow.

Called for every claim beside its instance. The rules (decisions 25): a machine that left its reservation is on demand,
and every reservation label goes; one that was moved has the labels of where it is; one that the cloud put in a reservation
that its class selects is reserved, as the cloud's own word for it says. Nobody is disrupted for that: whether the node
may stay is drift's question (Q-13, Q-30).
"""

from collections.abc import Mapping

from holdfast import names
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import CloudLabels


def changes(labels: Mapping[str, str], instance: Instance, cloud: CloudLabels) -> dict[str, str | None]:
    """The labels of a claim, or of its node, that have to change; None: the label goes."""
    if instance.state is InstanceState.GONE or names.CAPACITY_TYPE not in labels:
        return {}
    says: dict[str, str] = dict(instance.labels) | {names.CAPACITY_TYPE: instance.capacity_type}
    stays = labels[names.CAPACITY_TYPE] == names.RESERVED and instance.capacity_type != names.SPOT
    if stays and instance.reservation_id is not None and cloud.reservation_id is not None:
        # In a reservation, selected or not: what the cloud does not say of it is as it was.
        kept = {key: labels[key] for key in cloud.reserved if key in labels}
        says = kept | says
        says |= {names.CAPACITY_TYPE: names.RESERVED, cloud.reservation_id: instance.reservation_id}
    followed = sorted({names.CAPACITY_TYPE, *cloud.reserved})
    return {key: says.get(key) for key in followed if labels.get(key) != says.get(key)}
