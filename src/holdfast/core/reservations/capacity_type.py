"""Computes the capacity labels of a NodeClaim or Node from the actual state of its instance (decision 25).

Pure. An instance in no reservation is `on-demand`, without reservation labels. A reserved node that was moved gets the
label of its new reservation, selected or not, since drift decides about that. An on-demand node becomes `reserved` only
in a reservation that its class selects. If the cloud still lists an instance in a reservation that ended, its labels do
not change.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from holdfast import names
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import CloudLabels


def changes(
    labels: Mapping[str, str], instance: Instance, keys: CloudLabels, ended: AbstractSet[str]
) -> dict[str, str | None]:
    """The labels to change, with their new values; None: the label is removed. `ended`: reservations that ended."""
    if not _is_conclusive(instance, ended):
        return {}
    actual = _actual_labels(labels, instance, keys)
    return {key: value for key, value in actual.items() if labels.get(key) != value}


def _is_conclusive(instance: Instance, ended: AbstractSet[str]) -> bool:
    """Whether the state of an instance can change labels."""
    is_running = instance.state in (InstanceState.STARTING, InstanceState.RUNNING)
    return is_running and instance.capacity_type != names.SPOT and instance.reservation_id not in ended


def _actual_labels(labels: Mapping[str, str], instance: Instance, keys: CloudLabels) -> dict[str, str | None]:
    assert keys.reservation_id is not None, "a cloud with reservations has a label for them"
    is_unselected = instance.capacity_type != names.RESERVED and instance.reservation_id is not None
    if is_unselected and labels.get(names.CAPACITY_TYPE) == names.RESERVED:
        return {keys.reservation_id: instance.reservation_id}
    reported = dict(instance.labels)
    return {key: reported.get(key) for key in sorted({names.CAPACITY_TYPE, *keys.reserved})}
