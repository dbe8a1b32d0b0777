"""Why an instance has drifted from its EC2NodeClass. Pure.

The comparisons have Karpenter's order; the first difference is the reason (aws-6.3.1). An unknown value is never a
difference, so an empty status causes no drift.
"""

from collections.abc import Collection
from typing import Final

from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.nodeclass import class_hash, images
from holdfast.model.offerings import InstanceType

CLASS: Final = "NodeClassDrift"
IMAGE: Final = "AMIDrift"
SECURITY_GROUPS: Final = "SecurityGroupDrift"
SUBNET: Final = "SubnetDrift"
RESERVATION: Final = "CapacityReservationDrift"
PLACEMENT_GROUP: Final = "PlacementGroupDrift"
_INSTANCES_MAX: Final = 50_000  # whose reasons are cached
_CLASSES_MAX: Final = 1_000


def reason(
    claim: NodeClaim,
    node_class: EC2NodeClass,
    ec2_instance: EC2Instance,
    *,
    instance_type: InstanceType | None,
) -> str | None:
    """The reason of the drift, or None. Raises NotReady while the class is not resolved."""
    status = node_class.status
    if not (status.amis and status.subnets and status.security_groups):
        raise errors.NotReady(f"EC2NodeClass/{node_class.metadata.name} is not resolved")
    if _class_changed(claim, node_class):
        return CLASS
    if _image_changed(ec2_instance, node_class, instance_type):
        return IMAGE
    if ec2_instance.security_groups != {group.id for group in status.security_groups}:
        return SECURITY_GROUPS
    if ec2_instance.subnet_id not in {subnet.id for subnet in status.subnets}:
        return SUBNET
    if _reservation_left(ec2_instance, node_class):
        return RESERVATION
    if _placement_group_left(ec2_instance, node_class):
        return PLACEMENT_GROUP
    return None


class Reasons:
    """Caches the reason of each instance: it is computed again only if one of its inputs changed."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[object, str | None]] = {}  # by instance id: inputs and reason
        self._classes: dict[
            str, tuple[EC2NodeClass, tuple[object, ...]]
        ] = {}  # by name: its part of the inputs

    def __len__(self) -> int:
        """The number of instances whose reason is cached."""
        return len(self._last)

    def forget_all_but(self, instance_ids: Collection[str]) -> None:
        if len(self._last) > len(instance_ids):
            self._last = {id_: last for id_, last in self._last.items() if id_ in instance_ids}

    def reason(
        self,
        claim: NodeClaim,
        node_class: EC2NodeClass,
        ec2_instance: EC2Instance,
        *,
        instance_type: InstanceType | None,
    ) -> str | None:
        requirements = instance_type.requirements if instance_type is not None else None
        inputs = claim.metadata.annotations, self._of_class(node_class), ec2_instance, requirements
        last = self._last.get(ec2_instance.id)
        if last is None or last[0] != inputs:
            if len(self._last) >= _INSTANCES_MAX:
                self._last.clear()
            last = inputs, reason(claim, node_class, ec2_instance, instance_type=instance_type)
            self._last[ec2_instance.id] = last
        return last[1]

    def _of_class(self, node_class: EC2NodeClass) -> tuple[object, ...]:
        """What did not change stays the same object, which is compared faster."""
        name = node_class.metadata.name
        known, inputs = self._classes.get(name, (None, ()))
        if known is not node_class:
            new = _inputs(node_class)
            inputs = inputs if inputs == new else new
            if len(self._classes) >= _CLASSES_MAX:
                self._classes.clear()
            self._classes[name] = node_class, inputs
        return inputs


def _inputs(node_class: EC2NodeClass) -> tuple[object, ...]:
    """Everything that `reason` reads of a class. The counts of slots in its status, and of the offerings of an instance
    type, change all the time and are not part of the inputs."""
    status = node_class.status
    return (
        node_class.spec,
        status.amis,
        status.subnets,
        status.security_groups,
        [entry.id for entry in status.capacity_reservations],
    )


def _class_changed(claim: NodeClaim, node_class: EC2NodeClass) -> bool:
    """Compares the hash only if it has the current version."""
    stamped = claim.metadata.annotations
    if stamped.get(aws.EC2NODECLASS_HASH_VERSION) != class_hash.VERSION:
        return False
    before = stamped.get(aws.EC2NODECLASS_HASH)
    return before is not None and before != class_hash.of(node_class)


def _image_changed(
    ec2_instance: EC2Instance, node_class: EC2NodeClass, instance_type: InstanceType | None
) -> bool:
    """Compares with the image that the class would launch for the instance type; with any of its images if the type is
    unknown."""
    amis = node_class.status.amis
    image_id = ec2_instance.instance.image_id
    if not image_id:
        return False
    if instance_type is None:
        return image_id not in {ami.id for ami in amis}
    return image_id != images.image_for(instance_type, amis)


def _reservation_left(ec2_instance: EC2Instance, node_class: EC2NodeClass) -> bool:
    """Whether the class no longer selects the reservation of a reserved node (Q-30). An instance without a reservation
    is ignored: its capacity type becomes on-demand."""
    instance = ec2_instance.instance
    if instance.capacity_type != names.RESERVED or node_class.spec.capacity_reservation_spec:
        return False
    selected = {entry.id for entry in node_class.status.capacity_reservations}
    return instance.reservation_id is not None and instance.reservation_id not in selected


def _placement_group_left(ec2_instance: EC2Instance, node_class: EC2NodeClass) -> bool:
    """Whether the instance is outside the selected placement group, or in a group that the class does not select. EC2
    may leave out the id or the name, so only values that it returns are compared."""
    selector, found = node_class.spec.placement_group_selector, ec2_instance.placement_group
    if selector is None or found is None:
        return (selector is None) != (found is None)
    pairs = zip((selector.id, selector.name), found, strict=True)
    return any(wanted and actual and wanted != actual for wanted, actual in pairs)
