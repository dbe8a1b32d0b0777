"""Builds an Instance right after its launch. Pure.

DescribeInstances may not list the instance yet, so it is built from the request and the CreateFleet response. Later
values come from EC2 (`instances`).
"""

import dataclasses

from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.cloud.aws.launch import templates
from holdfast.cloud.aws.launch.choice import Choice, LaunchOption, Market, market
from holdfast.cloud.aws.launch.fleets import Launched
from holdfast.cloud.aws.launch.launch_groups import Member, type_of
from holdfast.cloud.aws.launch.templates import Template
from holdfast.cloud.aws.nodeclass import class_hash
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType


def instance(
    found: Launched, member: Member, choice: Choice, launch_templates: tuple[Template, ...], *, now_s: int
) -> Instance:
    option = choice.option(found.instance_type, found.zone)
    template = next((t for t in launch_templates if option is not None and option in t.options), None)
    labels = {
        names.INSTANCE_TYPE: found.instance_type,
        names.ZONE: found.zone,
        names.CAPACITY_TYPE: choice.capacity_type,
        member.node_class.label: member.node_class.metadata.name,
    }
    setting = templates.direct_setting(member.node_class)
    if setting:
        labels[aws.CAPACITY_RESERVATION_SETTING] = setting
    if option is not None:
        labels |= _option_labels(option) | {
            aws.INSTANCE_TENANCY: templates.tenancy(member.wanted, option.offering)
        }
    bare = Instance(
        provider_id=ec2_instances.provider_id(found.zone, found.instance_id),
        instance_type=found.instance_type,
        zone=found.zone,
        capacity_type=choice.capacity_type,
        state=InstanceState.STARTING,
        launched_s=now_s,
        image_id=template.image_id if template else "",
        reservation_id=option.offering.reservation_id if option else None,
        launch_token=member.request.token,
        lacks=ec2_instances.lacks(template.data["NetworkInterfaces"]) if template else (),
        labels=tuple(labels.items()),
    )
    return completed(bare, member)


def completed(found: Instance, member: Member) -> Instance:
    """Adds the labels of the instance type, the annotations of the claim and its token, which an instance that Karpenter
    launched has not."""
    known = type_of(member.request, found.instance_type)
    pool = member.claim.metadata.labels.get(names.NODEPOOL)
    labels = {
        **(_of_type(known) if known else {}),
        **({names.NODEPOOL: pool} if pool else {}),
        **dict(found.labels),
    }
    return dataclasses.replace(
        found,
        claim=member.claim.metadata.name,
        launch_token=member.request.token,
        labels=tuple(sorted(labels.items())),
        annotations=tuple(sorted(class_hash.annotations(member.node_class).items())),
    )


def _of_type(known: InstanceType) -> dict[str, str]:
    """Labels with one value for the type. Labels of reservations depend on the instance (aws-4.4.3)."""
    return {
        r.key: next(iter(r.values))
        for r in known.requirements
        if not r.complement and len(r.values) == 1 and r.key not in aws.RESERVED_CAPACITY_LABELS
    }


def _option_labels(option: LaunchOption) -> dict[str, str]:
    labels = {aws.ZONE_ID: option.zone_id} if option.zone_id else {}
    reservation_id = option.offering.reservation_id
    if reservation_id is None:
        return labels
    its_market = market(option.offering)
    kind = capacity_reservation.CAPACITY_BLOCK if its_market is Market.BLOCK else capacity_reservation.DEFAULT
    interruptible = its_market is Market.INTERRUPTIBLE
    return labels | ec2_instances.reservation_labels(reservation_id, kind, interruptible=interruptible)
