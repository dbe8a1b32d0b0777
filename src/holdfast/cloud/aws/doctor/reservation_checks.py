"""Checks of capacity reservations: paid slots that nothing can use. Pure.

Called by `diagnosis`. A reservation in direct mode counts as selected.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.doctor import node_class_checks
from holdfast.cloud.aws.doctor.account_reading import AccountReading
from holdfast.cloud.aws.doctor.node_pool_checks import PoolOfferings
from holdfast.cloud.aws.reservations import selection
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.model import check_results
from holdfast.model.check_results import CheckResult
from holdfast.model.reservations import Ended, State, window

CHECK: Final = "reservations"
_SHOWN_MAX: Final = 50


def unselected(account: AccountReading) -> Iterator[CheckResult]:
    """Reservations of the account that no class selects."""
    if isinstance(account.reservations, errors.HoldfastError):
        if not account.denied:  # else a result names the action
            fix = "run holdfast doctor again; EC2 must answer DescribeCapacityReservations"
            yield check_results.error(
                CHECK, "CapacityReservation", f"cannot be read: {account.reservations}", fix
            )
        return
    classes = [reading.node_class for reading in account.classes.values()]
    usable = [one for one in account.reservations if _has_future(one, account.now_s)]
    left = [one for one in usable if not any(_selects(node_class, one) for node_class in classes)]
    for one in left[:_SHOWN_MAX]:
        fix = f"add {{id: {one.id}}} to spec.capacityReservationSelectorTerms of an EC2NodeClass"
        yield check_results.warning(
            CHECK, f"CapacityReservation/{one.id}", f"no EC2NodeClass selects it: {_words(one)}", fix
        )
    if len(left) > _SHOWN_MAX:
        more = f"and {len(left) - _SHOWN_MAX} more that no EC2NodeClass selects"
        yield check_results.info(CHECK, "CapacityReservation", more)
    if not left:
        words = f"EC2NodeClasses select all of them ({len(usable)})" if usable else "the account has none"
        yield check_results.ok(CHECK, "CapacityReservation", words)


def unused(account: AccountReading, pools: Sequence[PoolOfferings]) -> Iterator[CheckResult]:
    """Reservations that a class selects and no NodePool can use."""
    known = () if isinstance(account.reservations, errors.HoldfastError) else account.reservations
    by_id = {one.id: one for one in known}
    usable = {(pool.class_name, offering.reservation_id) for pool in pools for _, offering in pool.offerings}
    for name, reading in sorted(account.classes.items()):
        if not node_class_checks.is_usable(reading):
            continue
        for one in reading.node_class.status.capacity_reservations:
            if (name, one.id) in usable or one.id not in by_id:
                continue
            words = f"EC2NodeClass/{name} selects it and no NodePool can use it: {_words(by_id[one.id])}"
            fix = (
                f"allow karpenter.sh/capacity-type reserved, {one.instance_type} and {one.availability_zone} "
                f"in a NodePool of EC2NodeClass/{name}"
            )
            yield check_results.warning(CHECK, f"CapacityReservation/{one.id}", words, fix)


def _selects(node_class: EC2NodeClass, one: CapacityReservation) -> bool:
    spec = node_class.spec
    if selection.matches_any(spec.capacity_reservation_selector_terms, one.traits):
        return True
    direct = spec.capacity_reservation_spec
    target = direct.capacity_reservation_target if direct else None
    return target is not None and target.capacity_reservation_id == one.id


def _has_future(one: CapacityReservation, now_s: int) -> bool:
    return one.model.state is not State.GONE and not isinstance(window(one.model, now_s), Ended)


def _words(one: CapacityReservation) -> str:
    return f"{one.instance_type} in {one.zone}, {one.model.available} of {one.total} slots free"
