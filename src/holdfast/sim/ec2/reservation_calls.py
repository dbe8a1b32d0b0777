"""Calls about capacity reservations. Called by `service`.

An account can see the reservations that it owns and those shared with it. Zone names are those of the caller. An id
that is not visible does not exist. Counts have the staleness of the call.
"""

from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import control, filters, listings, pages, reservations, times
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Reservation
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, clash, invalid, tag_list

_FILTERS: Final = {
    "instance-type": "InstanceType",
    "owner-id": "OwnerId",
    "instance-platform": "InstancePlatform",
    "availability-zone": "AvailabilityZone",
    "tenancy": "Tenancy",
    "outpost-arn": "OutpostArn",
    "state": "State",
    "start-date": "StartDate",
    "end-date": "EndDate",
    "end-date-type": "EndDateType",
    "instance-match-criteria": "InstanceMatchCriteria",
    "placement-group-arn": "PlacementGroupArn",
}
_BLOCK_FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "capacity-block-id": "CapacityBlockId",
    "create-date": "CreateDate",
    "end-date": "EndDate",
    "start-date": "StartDate",
    "state": "State",
    "ultraserver-type": "UltraserverType",
}
_DAY_S: Final = 86400
_GONE: Final = ("cancelled", "expired", "failed")


def describe(region: RegionState, request: Request) -> dict[str, Any]:
    requested = request.get("CapacityReservationIds", ())
    now = region.reservations
    then = now.as_of(region.now_s - request.stale_s) if request.stale_s else now
    visible = {each.id: each for each in then if each.visible_to(request.account)}
    for each in requested:
        if each not in visible:
            raise _not_found(each)
    found = [visible[key] for key in (requested or visible)]
    answers = filters.keep((render(region, request.account, each) for each in found), request, _FILTERS)
    return pages.page(
        answers, request, "CapacityReservations", lambda r: str(r["CapacityReservationId"]),
        sizes=listings.Sizes(least=1, most=1000), ids="CapacityReservationIds",
    )  # fmt: skip


def create(region: RegionState, request: Request) -> dict[str, Any]:
    instance_type = request.need("InstanceType")
    account = region.account(request.account)
    zone_id = request.get("AvailabilityZoneId") or account.zone_ids.get(request.get("AvailabilityZone", ""))
    if zone_id not in account.zone_ids.values():
        raise invalid("Invalid availability zone")
    if instance_type not in region.types or zone_id not in region.offered[instance_type]:
        raise ApiError(
            "Unsupported", f"The instance type {instance_type} is not supported in this Availability Zone."
        )
    count = request.need("InstanceCount")
    if not 1 <= count <= 1000:  # noqa: PLR2004 (EC2's own bound)
        raise invalid("InstanceCount must be between 1 and 1000")
    start_s, criteria = region.now_s, request.get("InstanceMatchCriteria", "open")
    if request.get("StartDate"):
        start_s = times.seconds(request.get("StartDate"))
        if not 5 * _DAY_S <= start_s - region.now_s <= 120 * _DAY_S or criteria != "targeted":
            raise invalid("A future-dated Capacity Reservation is targeted and starts in 5 to 120 days")
    end_s = _end(region, request)
    request.proceed()
    pending_s = region.setup.timings.reservation_pending_s
    reservation = control.add_reservation(
        region,
        owner=request.account,
        instance_type=instance_type,
        zone_id=zone_id,
        total=count,
        criteria=criteria,
        platform=request.need("InstancePlatform"),
        tenancy=request.get("Tenancy", "default"),
        placement_group_arn=request.get("PlacementGroupArn", ""),
        start_s=start_s + (pending_s if start_s == region.now_s else 0),
        state="pending"
        if pending_s and start_s == region.now_s
        else "active"
        if start_s == region.now_s
        else "scheduled",
        end_s=end_s,
        tags=request.tags("capacity-reservation"),
    )
    return {"CapacityReservation": render(region, request.account, reservation)}


def modify(region: RegionState, request: Request) -> dict[str, Any]:
    reservation = owned(region, request)
    if reservation.kind == CAPACITY_BLOCK or reservation.interruptible:
        raise ApiError("UnsupportedOperation", "This Capacity Reservation cannot be modified.")
    if not reservation.active or reservation.lent:
        raise wrong_state(reservation)
    changes: dict[str, Any] = {}
    held = reservation.total - reservation.available
    if (count := request.get("InstanceCount")) is not None:
        if count < held:
            raise invalid(f"InstanceCount cannot be below the {held} instances in use")
        changes |= {"total": count, "available": count - held}
    if request.get("EndDate") or request.get("EndDateType"):
        changes["end_s"] = _end(region, request)
    if criteria := request.get("InstanceMatchCriteria"):
        if held and criteria != reservation.criteria:
            raise ApiError("InvalidCapacityReservationState", "The Capacity Reservation is in use.")
        changes["criteria"] = criteria
    request.proceed()
    reservation = region.put_reservation(reservation, **changes)
    if "end_s" in changes:
        reservations.schedule(region, reservation)
    reservations.join_running(region, reservation)
    return {"Return": True}


def cancel(region: RegionState, request: Request) -> dict[str, Any]:
    reservation = owned(region, request)
    if reservation.kind == CAPACITY_BLOCK or reservation.interruptible:
        raise ApiError("UnsupportedOperation", "This Capacity Reservation cannot be cancelled.")
    if reservation.state in _GONE or reservation.lent:
        raise wrong_state(reservation)
    request.proceed()
    reservations.end(region, reservation, "cancelled")
    return {"Return": True}


def usage(region: RegionState, request: Request) -> dict[str, Any]:
    """The usage by account: the owner gets that of all accounts, other accounts only their own."""
    reservation = _visible(region, request)
    counts: dict[str, int] = {}
    for instance in region.instances:
        if instance.held_reservation_id == reservation.id and request.account in {
            reservation.owner,
            instance.account,
        }:
            counts[instance.account] = counts.get(instance.account, 0) + 1
    shown = render(region, request.account, reservation)
    names = (
        "CapacityReservationId",
        "InstanceType",
        "TotalInstanceCount",
        "AvailableInstanceCount",
        "State",
        "Interruptible",
    )
    usages = [{"AccountId": each, "UsedInstanceCount": counts[each]} for each in sorted(counts)]
    return {name: shown[name] for name in names} | {"InstanceUsages": usages}


def groups(region: RegionState, request: Request) -> dict[str, Any]:
    reservation = _visible(region, request)
    found = [g for g in region.groups if reservation.id in g.members and g.account == request.account]
    answers = [{"GroupArn": group.id, "OwnerId": group.account} for group in found]
    return pages.page(
        answers,
        request,
        "CapacityReservationGroups",
        lambda g: str(g["GroupArn"]),
        sizes=listings.Sizes(least=1),
    )


def blocks(region: RegionState, request: Request) -> dict[str, Any]:
    of_block: dict[str, list[Reservation]] = {}
    for each in region.reservations:
        if each.block_id and each.visible_to(request.account):
            of_block.setdefault(each.block_id, []).append(each)
    for each_id in request.get("CapacityBlockIds", ()):
        if each_id not in of_block:
            raise ApiError(
                "InvalidCapacityBlockId.NotFound", f"The Capacity Block '{each_id}' does not exist"
            )
    requested = request.get("CapacityBlockIds") or of_block
    answers = [_render_block(region, request.account, key, of_block[key]) for key in requested]
    answers = filters.keep(answers, request, _BLOCK_FILTERS)
    return pages.page(
        answers,
        request,
        "CapacityBlocks",
        lambda b: str(b["CapacityBlockId"]),
        sizes=listings.Sizes(least=1),
    )


def render(region: RegionState, account: str, reservation: Reservation) -> dict[str, Any]:
    """The reservation as in DescribeCapacityReservations of one account."""
    answer: dict[str, Any] = {
        "CapacityReservationId": reservation.id,
        "OwnerId": reservation.owner,
        "CapacityReservationArn": region.arn(reservation.owner, f"capacity-reservation/{reservation.id}"),
        "AvailabilityZone": region.account(account).zone_name(reservation.zone_id),
        "AvailabilityZoneId": reservation.zone_id,
        "InstanceType": reservation.instance_type,
        "InstancePlatform": reservation.platform,
        "Tenancy": reservation.tenancy,
        "TotalInstanceCount": reservation.total,
        "AvailableInstanceCount": reservation.available,
        "EbsOptimized": False,
        "EphemeralStorage": False,
        "State": reservation.state,
        "StartDate": times.when(reservation.start_s),
        "EndDateType": "limited" if reservation.end_s else "unlimited",
        "InstanceMatchCriteria": reservation.criteria,
        "CreateDate": times.when(reservation.created_s),
        "Tags": tag_list(reservation.tags) if account == reservation.owner else [],
        "ReservationType": reservation.kind,
        "Interruptible": reservation.interruptible,
    }
    if reservation.end_s:
        answer["EndDate"] = times.when(reservation.end_s)
    if reservation.placement_group_arn:
        answer["PlacementGroupArn"] = reservation.placement_group_arn
    if reservation.block_id:
        answer["CapacityBlockId"] = reservation.block_id
    if reservation.ultraserver:
        answer["LaunchStatus"] = "launchable"
    if reservation.source_id:
        answer["InterruptionInfo"] = {
            "SourceCapacityReservationId": reservation.source_id,
            "InterruptionType": "adhoc",
        }
    if reservation.lent_to:
        target = region.reservations[reservation.lent_to].target
        answer["InterruptibleCapacityAllocation"] = {
            "InstanceCount": reservation.lent,
            "TargetInstanceCount": reservation.lent if target < 0 else target,
            "Status": "active" if target < 0 else "updating",
            "InterruptibleCapacityReservationId": reservation.lent_to,
            "InterruptionType": "adhoc",
        }
    return answer


def _render_block(
    region: RegionState, account: str, block_id: str, parts: list[Reservation]
) -> dict[str, Any]:
    first = parts[0]
    answer: dict[str, Any] = {
        "CapacityBlockId": block_id,
        "AvailabilityZone": region.account(account).zone_name(first.zone_id),
        "AvailabilityZoneId": first.zone_id,
        "CapacityReservationIds": [each.id for each in parts],
        "StartDate": times.when(first.start_s),
        "EndDate": times.when(first.end_s),
        "CreateDate": times.when(first.created_s),
        "State": first.state,
        "Tags": [],
    }
    if first.ultraserver:
        answer["UltraserverType"] = first.instance_type.partition(".")[0]
    return answer


def _end(region: RegionState, request: Request) -> int:
    kind, date = (
        request.get("EndDateType", "limited" if request.get("EndDate") else "unlimited"),
        request.get("EndDate"),
    )
    if (kind == "limited") != bool(date):
        raise clash("EndDate goes with EndDateType limited, and only with it")
    if date and times.seconds(date) <= region.now_s:
        raise invalid("EndDate is in the past")
    return times.seconds(date) if date else 0


def _visible(region: RegionState, request: Request) -> Reservation:
    key = request.need("CapacityReservationId")
    reservation = region.reservations.get(key)
    if reservation is None or not reservation.visible_to(request.account):
        raise _not_found(key)
    return reservation


def owned(region: RegionState, request: Request) -> Reservation:
    reservation = _visible(region, request)
    if reservation.owner != request.account:
        raise ApiError(
            "UnauthorizedOperation", "You are not authorized to perform this operation.", status=403
        )
    return reservation


def _not_found(key: str) -> ApiError:
    if not key.startswith("cr-"):
        return ApiError("InvalidCapacityReservationId.Malformed", f"Invalid id: '{key}' (expecting 'cr-...')")
    return ApiError(
        "InvalidCapacityReservationId.NotFound", f"The Capacity Reservation '{key}' does not exist"
    )


def wrong_state(reservation: Reservation) -> ApiError:
    return ApiError("InvalidCapacityReservationState", f"The Capacity Reservation is {reservation.state}.")
