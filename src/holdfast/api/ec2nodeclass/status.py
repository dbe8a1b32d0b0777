"""The status of an EC2NodeClass: what its selector terms select."""

from datetime import datetime
from typing import Annotated, Final

from msgspec import field

from holdfast.api import patterns
from holdfast.api.conditions import Conditions
from holdfast.api.meta import Wire
from holdfast.api.reservation_slots import NodeClassSlots
from holdfast.api.schema import about

RESERVATION_TYPES: Final = ("default", "capacity-block")


class Subnet(Wire, frozen=True, kw_only=True):
    id: Annotated[str, about("The id of the subnet.")]
    zone: Annotated[str, about("Its availability zone, by the name this account knows it by.")]
    zone_id: Annotated[str | None, about("Its availability zone, by the id that all accounts share.")] = (
        field(default=None, name="zoneID")
    )


class SecurityGroup(Wire, frozen=True, kw_only=True):
    id: Annotated[str, about("The id of the security group.")]
    name: Annotated[str | None, about("Its name.")] = None


class AMIRequirement(Wire, frozen=True, kw_only=True):
    key: Annotated[str, about("The label key it is about.")]
    operator: Annotated[str, about("How the label's value relates to the values given.")]
    values: Annotated[tuple[str, ...], about("The values.", list_type="atomic")] = ()


class AMI(Wire, frozen=True, kw_only=True):
    id: Annotated[str, about("The id of the image.")]
    name: Annotated[str | None, about("Its name.")] = None
    deprecated: Annotated[bool | None, about("Whether its owner has deprecated it.")] = None
    requirements: Annotated[tuple[AMIRequirement, ...], about("Which instances it can start.")]


class CapacityReservation(Wire, frozen=True, kw_only=True):
    id: Annotated[str, about("The id of the reservation.", pattern=patterns.RESERVATION_ID)]
    availability_zone: Annotated[str, about("The zone it holds capacity in.")]
    instance_type: Annotated[str, about("The instance type it holds.")]
    instance_match_criteria: Annotated[
        str,
        about(
            "Whether it takes any matching instance or only those that target it.", enum=("open", "targeted")
        ),
    ]
    owner_id: Annotated[str, about("The account that owns it.", pattern=patterns.ACCOUNT)] = field(
        name="ownerID"
    )
    reservation_type: Annotated[str, about("What kind of reservation it is.", enum=RESERVATION_TYPES)] = (
        "default"
    )
    state: Annotated[
        str,
        about(
            "active, or expiring when EC2 has begun to take its instances back.", enum=("active", "expiring")
        ),
    ] = "active"
    interruptible: Annotated[bool | None, about("Whether its owner may take it back on short notice.")] = None
    end_time: Annotated[datetime | None, about("When it ends, if that is known.")] = None


class UpcomingCapacityReservation(Wire, frozen=True, kw_only=True):
    id: Annotated[str, about("The id of the reservation.", pattern=patterns.RESERVATION_ID)]
    type: Annotated[str, about("What kind of reservation it will be.", enum=RESERVATION_TYPES)]
    start_time: Annotated[datetime, about("When its capacity can be used.")]
    count: Annotated[int, about("How many instances it will hold.", minimum=0, format="int32")]
    instance_type: Annotated[str | None, about("The instance type it will hold.")] = None
    availability_zone: Annotated[str | None, about("The zone it will hold capacity in.")] = None


class EC2NodeClassStatus(Wire, frozen=True, kw_only=True):
    subnets: Annotated[tuple[Subnet, ...], about("The subnets selected, most free addresses first.")] = ()
    security_groups: Annotated[tuple[SecurityGroup, ...], about("The security groups selected.")] = ()
    amis: Annotated[tuple[AMI, ...], about("The images selected, newest first.")] = ()
    capacity_reservations: Annotated[
        tuple[CapacityReservation, ...], about("The reservations selected that can be used now.")
    ] = ()
    upcoming_capacity_reservations: Annotated[
        tuple[UpcomingCapacityReservation, ...], about("The reservations selected that have not started yet.")
    ] = ()
    reservation_slots: Annotated[
        NodeClassSlots | None, about("The slots of the reservations selected, at most 15 s old.")
    ] = None
    instance_profile: Annotated[str | None, about("The instance profile of the instances.")] = None
    conditions: Conditions = ()
