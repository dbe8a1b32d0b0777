"""The error tree has one branch per required action, and callers catch by branch."""

from holdfast import errors


def test_a_full_reservation_is_insufficient_capacity_and_names_its_ids() -> None:
    error = errors.ReservationExhausted("full", reservation_ids=("cr-1",))
    assert isinstance(error, errors.InsufficientCapacity)
    assert error.reservation_ids == ("cr-1",)


def test_retryable_errors_carry_retry_after() -> None:
    assert errors.Throttled("slow down", retry_after_s=2.5).retry_after_s == 2.5
    assert errors.Conflict("changed").retry_after_s is None


def test_no_error_is_in_two_branches() -> None:
    branches = (errors.Retryable, errors.Terminal, errors.InsufficientCapacity, errors.NotFound)
    tree = [e for e in vars(errors).values() if isinstance(e, type) and e is not errors.HoldfastError]
    for error in tree:
        assert sum(issubclass(error, branch) for branch in branches) == 1, error


def test_long_message_is_truncated() -> None:
    text = str(errors.Unreachable("CreateFleet: " + "x" * 32 * 2**20))
    assert text.startswith("CreateFleet: xxx")
    assert len(text) < errors.MESSAGE_MAX + 20
    assert str(errors.NotFound("short")) == "short"
