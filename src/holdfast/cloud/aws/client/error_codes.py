"""Maps AWS error codes to a meaning, and each meaning to an error of `holdfast.errors`.

The table covers errors of a call and errors inside a CreateFleet response. A full reservation, EC2 without capacity, a
quota and a subnet without addresses are four meanings (Q-43, AW-07). Throttling contains no information about capacity.
An unknown code is retryable, and the caller counts it.
"""

import enum
from typing import Final

from holdfast import errors
from holdfast.errors import HoldfastError


class Meaning(enum.Enum):
    RESERVATION_FULL = enum.auto()  # no free slot in the targeted reservation
    NO_CAPACITY = enum.auto()  # EC2 has no capacity of this type, zone and capacity type
    QUOTA = enum.auto()  # a quota of the account
    NO_ADDRESSES = enum.auto()  # the subnet is full
    NO_SPOT_ROLE = enum.auto()  # the account cannot use spot
    THROTTLED = enum.auto()
    NO_ANSWER = enum.auto()  # EC2 failed, and the call may have taken effect
    MISMATCH = enum.auto()  # the client token was used with other parameters
    NOT_FOUND = enum.auto()
    EXISTS = enum.auto()
    FORBIDDEN = enum.auto()
    NO_CREDENTIALS = enum.auto()  # for every operation
    REJECTED = enum.auto()
    UNKNOWN = enum.auto()


CODES: Final = {
    code: meaning
    for meaning, codes in {
        Meaning.RESERVATION_FULL: ("ReservationCapacityExceeded",),
        Meaning.NO_CAPACITY: (
            "InsufficientInstanceCapacity",
            "InsufficientCapacity",
            "InsufficientHostCapacity",
            "UnfulfillableCapacity",
            "Unsupported",
            "SpotMaxPriceTooLow",
        ),
        Meaning.QUOTA: (
            "VcpuLimitExceeded",
            "MaxSpotInstanceCountExceeded",
            "MaxFleetCountExceeded",
            "InstanceLimitExceeded",
            "VolumeLimitExceeded",
            "MaxIOPSLimitExceeded",
        ),
        Meaning.NO_ADDRESSES: ("InsufficientFreeAddressesInSubnet",),
        Meaning.NO_SPOT_ROLE: ("AuthFailure.ServiceLinkedRoleCreationNotPermitted",),
        Meaning.THROTTLED: (
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "TooManyRequestsException",
            "EC2ThrottledException",
            "SlowDown",
            "LimitExceededException",
        ),
        Meaning.NO_ANSWER: (
            "InternalError",
            "InternalFailure",
            "InternalServerError",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "Unavailable",
            "RequestTimeout",
            "RequestTimeoutException",
            "ServerInternal",
        ),
        Meaning.MISMATCH: ("IdempotentParameterMismatch",),
        Meaning.NOT_FOUND: (
            "InvalidInstanceID.NotFound",
            "InvalidCapacityReservationId.NotFound",
            "InvalidLaunchTemplateName.NotFoundException",
            "InvalidLaunchTemplateId.NotFound",
            "InvalidLaunchTemplateId.NotFoundException",
            "InvalidAMIID.NotFound",
            "InvalidSubnetID.NotFound",
            "InvalidGroup.NotFound",
            "InvalidSecurityGroupID.NotFound",
            "InvalidPlacementGroup.Unknown",
            "InvalidPlacementGroupId.Unknown",
            "NoSuchEntity",
            "ParameterNotFound",
            "ResourceNotFoundException",
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
        Meaning.EXISTS: (
            "InvalidLaunchTemplateName.AlreadyExistsException",
            "InvalidLaunchTemplateName.AlreadyExists",
            "EntityAlreadyExists",
        ),
        Meaning.FORBIDDEN: (
            "UnauthorizedOperation",
            "AccessDenied",
            "AccessDeniedException",
            "OptInRequired",
            "PendingVerification",
        ),
        Meaning.NO_CREDENTIALS: (
            "AuthFailure",
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "SignatureDoesNotMatch",
            "ExpiredToken",
            "ExpiredTokenException",
        ),
        Meaning.REJECTED: (
            "InvalidParameter",
            "InvalidParameterValue",
            "InvalidParameterCombination",
            "InvalidParameterException",
            "InvalidParameterDependency",
            "InvalidRequest",
            "InvalidInput",
            "InvalidAction",
            "MissingParameter",
            "UnknownParameter",
            "ValidationError",
            "ValidationException",
            "MalformedQueryString",
            "InvalidInstanceID.Malformed",
            "InvalidAMIID.Malformed",
            "InvalidAMIID.Unavailable",
            "InvalidUserData.Malformed",
            "InvalidFleetConfig",
            "InvalidFleetConfiguration",
            "InvalidLaunchTemplateName.MalformedException",
            "InvalidSubnet",
            "InvalidBlockDeviceMapping",
            "InvalidFreeTier",
            "DuplicateLaunchTemplateOverrides",
        ),
    }.items()
    for code in codes
}

# EC2 has none of this capacity now: launch from other pools (aws-5.8.3).
UNFULFILLABLE: Final = frozenset(
    {
        Meaning.RESERVATION_FULL,
        Meaning.NO_CAPACITY,
        Meaning.QUOTA,
        Meaning.NO_ADDRESSES,
        Meaning.NO_SPOT_ROLE,
    }
)

_ERRORS: Final[dict[Meaning, type[HoldfastError]]] = {
    Meaning.NO_CAPACITY: errors.InsufficientCapacity,
    Meaning.QUOTA: errors.InsufficientCapacity,
    Meaning.NO_ADDRESSES: errors.InsufficientCapacity,
    Meaning.NO_SPOT_ROLE: errors.InsufficientCapacity,
    Meaning.THROTTLED: errors.Throttled,
    Meaning.NO_ANSWER: errors.Unreachable,
    Meaning.MISMATCH: errors.Conflict,
    Meaning.NOT_FOUND: errors.NotFound,
    Meaning.EXISTS: errors.AlreadyExists,
    Meaning.FORBIDDEN: errors.Unauthorized,
    Meaning.NO_CREDENTIALS: errors.NoCredentials,
    Meaning.REJECTED: errors.Rejected,
    Meaning.UNKNOWN: errors.Retryable,
}


def meaning(code: str) -> Meaning:
    return CODES.get(code, Meaning.UNKNOWN)


def error(code: str, message: str, reservation_ids: tuple[str, ...] = ()) -> HoldfastError:
    """The error for a code; `reservation_ids` are those that the request targeted."""
    words = f"{code}: {message}" if message else code
    meant = meaning(code)
    if meant is Meaning.RESERVATION_FULL:
        return errors.ReservationExhausted(words, reservation_ids=reservation_ids)
    return _ERRORS[meant](words)
