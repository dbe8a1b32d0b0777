"""DescribeInstanceStatus: failing checks and scheduled events. Called by `service`.

As in EC2, only running instances are described, unless the request includes all.
"""

from typing import Any, Final

from holdfast.sim.aws.codec.shapes import Unchanging
from holdfast.sim.ec2 import instance_calls, pages, times
from holdfast.sim.ec2.descriptions import Described
from holdfast.sim.ec2.entities import Instance, ScheduledEvent
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request

_STATUS_FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "event.code": "Events.Code",
    "event.description": "Events.Description",
    "event.instance-event-id": "Events.InstanceEventId",
    "event.not-before": "Events.NotBefore",
    "instance-state-code": "InstanceState.Code",
    "instance-state-name": "InstanceState.Name",
    "instance-status.reachability": "InstanceStatus.Details.Status",
    "instance-status.status": "InstanceStatus.Status",
    "system-status.reachability": "SystemStatus.Details.Status",
    "system-status.status": "SystemStatus.Status",
}


def describe(region: RegionState, request: Request) -> dict[str, Any]:
    found = instance_calls.select(region, request, request.get("InstanceIds", ()))
    if not request.get("IncludeAllInstances"):
        found = [each for each in found if each.state == "running"]
    described = region.statuses.all(found, lambda each: Described(each, Unchanging(_status(region, each))))
    matching = region.statuses.matching(described, request, _STATUS_FILTERS, tags="")
    answers = [one.filtered for one in matching]
    return pages.page(answers, request, "InstanceStatuses", lambda i: str(i["InstanceId"]), ids="InstanceIds")


def _status(region: RegionState, instance: Instance) -> dict[str, Any]:
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": region.account(instance.account).zone_name(instance.zone_id),
        "AvailabilityZoneId": instance.zone_id,
        "InstanceState": instance_calls.state(instance.state),
        "InstanceStatus": _check(instance, "instance"),
        "SystemStatus": _check(instance, "system"),
        "AttachedEbsStatus": _check(instance, "ebs"),
        "Events": [_event(instance.event)] if instance.event else [],
    }


def _check(instance: Instance, check: str) -> dict[str, Any]:
    since_s = instance.impaired.get(check)
    if since_s is None:
        return {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}
    failed = {"Name": "reachability", "Status": "failed", "ImpairedSince": times.when(since_s)}
    return {"Status": "impaired", "Details": [failed]}


def _event(event: ScheduledEvent) -> dict[str, Any]:
    over = "[Completed] " if event.over else ""
    return {
        "InstanceEventId": event.id,
        "Code": event.code,
        "Description": f"{over}The instance has a scheduled {event.code}",
        "NotBefore": times.when(event.at_s),
    }
