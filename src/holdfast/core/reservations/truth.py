"""What a node is follows from what the cloud says of its machine today, not from what was asked for (decision 25).

Called for NodeClaims and Nodes alike. Pure. The rules: a machine in no reservation is `on-demand`, without any label of
one; a reserved node that was moved is in the reservation it was moved to, selected or not, since that is drift's
question; an on-demand node is promoted only into a reservation that its class selects; and a machine that is said to be
in a reservation that is gone was looked at too early to say anything.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from holdfast import names
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import CloudLabels


def changes(
    labels: Mapping[str, str], machine: Instance, keys: CloudLabels, gone: AbstractSet[str]
) -> dict[str, str | None]:
    """The labels that are not as they should be, with what they should be; None: the label goes. `gone` are the
    reservations that are over."""
    if not _tells(machine, gone):
        return {}
    wanted = _wanted(labels, machine, keys)
    return {key: value for key, value in wanted.items() if labels.get(key) != value}


def _tells(machine: Instance, gone: AbstractSet[str]) -> bool:
    lives = machine.state in (InstanceState.STARTING, InstanceState.RUNNING)
    return lives and machine.capacity_type != names.SPOT and machine.reservation_id not in gone


def _wanted(labels: Mapping[str, str], machine: Instance, keys: CloudLabels) -> dict[str, str | None]:
    assert keys.reservation_id is not None, "a cloud with reservations has a label for them"
    is_promised = machine.capacity_type != names.RESERVED and machine.reservation_id is not None
    if is_promised and labels.get(names.CAPACITY_TYPE) == names.RESERVED:
        return {keys.reservation_id: machine.reservation_id}
    said = dict(machine.labels)
    return {key: said.get(key) for key in sorted({names.CAPACITY_TYPE, *keys.reserved})}
