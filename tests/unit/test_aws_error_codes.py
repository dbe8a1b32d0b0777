"""AWS error codes and the errors that they map to."""

import pytest

from holdfast import errors
from holdfast.cloud.aws.client import error_codes
from holdfast.cloud.aws.client.error_codes import Meaning


@pytest.mark.fact("aws-5.8.3", "Q-24")
@pytest.mark.parametrize(
    "code",
    [
        "InsufficientInstanceCapacity",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
        "UnfulfillableCapacity",
        "Unsupported",
        "InsufficientFreeAddressesInSubnet",
        "MaxFleetCountExceeded",
        "ReservationCapacityExceeded",
    ],
)
def test_capacity_error_codes_are_insufficient_capacity(code: str) -> None:
    assert error_codes.meaning(code) in error_codes.UNFULFILLABLE
    assert isinstance(error_codes.error(code, "none"), errors.InsufficientCapacity)


@pytest.mark.fact("AW-07")
def test_only_reservation_capacity_exceeded_is_reservation_exhausted() -> None:
    codes = {code for code in error_codes.CODES if error_codes.meaning(code) is Meaning.RESERVATION_FULL}
    assert codes == {"ReservationCapacityExceeded"}
    full = error_codes.error("ReservationCapacityExceeded", "full", ("cr-1", "cr-2"))
    assert isinstance(full, errors.ReservationExhausted)
    assert full.reservation_ids == ("cr-1", "cr-2")
    for code in ("InsufficientInstanceCapacity", "VcpuLimitExceeded", "InsufficientFreeAddressesInSubnet"):
        assert not isinstance(error_codes.error(code, "no", ("cr-1",)), errors.ReservationExhausted)


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "Throttling", "ThrottlingException"])
def test_throttling_is_not_a_capacity_error(code: str) -> None:
    assert error_codes.meaning(code) not in error_codes.UNFULFILLABLE
    assert isinstance(error_codes.error(code, "slower"), errors.Throttled)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InvalidLaunchTemplateName.NotFoundException", errors.NotFound),
        ("InvalidLaunchTemplateName.AlreadyExistsException", errors.AlreadyExists),
        ("InvalidInstanceID.NotFound", errors.NotFound),
        ("UnauthorizedOperation", errors.Unauthorized),
        ("InvalidParameterValue", errors.Rejected),
        ("InternalError", errors.Unreachable),
        ("IdempotentParameterMismatch", errors.Conflict),
    ],
)
def test_error_code_maps_to_an_error_type(code: str, kind: type[errors.HoldfastError]) -> None:
    assert type(error_codes.error(code, "why")) is kind
    assert str(error_codes.error(code, "why")) == f"{code}: why"


def test_unknown_error_code_is_retryable() -> None:
    assert error_codes.meaning("BrandNewError") is Meaning.UNKNOWN
    assert type(error_codes.error("BrandNewError", "")) is errors.Retryable
