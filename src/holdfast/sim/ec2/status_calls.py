"""DescribeInstanceStatus: failed checks and scheduled events. Called by `service`.

The rule, as EC2's: only running instances are described, unless all are asked for.
"""

from typing import Any, Final

from holdfast.sim.ec2 import filters, instance_calls, pages, times
from holdfast.sim.ec2.entities import Instance
from holdfast.sim.ec2.requests import Request
from holdfast.sim.ec2.world import World

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


def describe(world: World, request: Request) -> dict[str, Any]:
    found = instance_calls.asked(world, request, request.get("InstanceIds", ()))
    if not request.get("IncludeAllInstances"):
        found = [each for each in found if each.state == "running"]
    answers = filters.keep((_status(world, each) for each in found), request, _STATUS_FILTERS, tags="")
    return pages.page(answers, request, "InstanceStatuses", lambda i: str(i["InstanceId"]), ids="InstanceIds")


def _status(world: World, instance: Instance) -> dict[str, Any]:
    status = "impaired" if instance.impaired_s else "ok"
    check: dict[str, Any] = {"Name": "reachability", "Status": "failed" if instance.impaired_s else "passed"}
    if instance.impaired_s:
        check["ImpairedSince"] = times.when(instance.impaired_s)
    code, at_s = instance.event
    answer: dict[str, Any] = {
        "InstanceId": instance.id,
        "AvailabilityZone": world.account(instance.account).zone_name(instance.zone_id),
        "AvailabilityZoneId": instance.zone_id,
        "InstanceState": instance_calls.state(instance.state),
        "InstanceStatus": {"Status": status, "Details": [check]},
        "SystemStatus": {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]},
        "Events": [],
    }
    if code:
        answer["Events"] = [
            {
                "InstanceEventId": f"instance-event-{instance.id[2:]}",
                "Code": code,
                "NotBefore": times.when(at_s),
            }
        ]
    return answer
