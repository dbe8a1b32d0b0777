"""Checks of each EC2NodeClass: what it selects, and whether EC2 would launch it. Pure.

Called by `diagnosis`. What a class lacks is in the conditions that Holdfast would write. Conditions that follow from
another result are left out: that another part is not ready, that the cluster is unknown, that a right is missing.
"""

from collections.abc import Iterator
from typing import Final

from holdfast import errors
from holdfast.api import conditions
from holdfast.api.conditions import FALSE, READY, UNKNOWN, Condition
from holdfast.cloud.aws.doctor.account_reading import AccountReading, ClassReading
from holdfast.cloud.aws.nodeclass import cluster, preflight, resolve
from holdfast.model import check_results, wording
from holdfast.model.check_results import CheckResult

CHECK: Final = "ec2nodeclass"
_DERIVED: Final = frozenset(
    {
        "DependenciesNotReady",
        cluster.NOT_FOUND,
        cluster.MISMATCH,
        cluster.NO_ENDPOINT,
        cluster.NO_CA_BUNDLE,
        cluster.NO_CIDR,
    }
)
_FIXES: Final = {
    resolve.AMIS: "correct spec.amiSelectorTerms",
    resolve.SUBNETS: "correct spec.subnetSelectorTerms, or tag the subnets",
    resolve.SECURITY_GROUPS: "correct spec.securityGroupSelectorTerms, or tag the security groups",
    resolve.INSTANCE_PROFILE: "correct spec.role or spec.instanceProfile, or create the role",
    resolve.PLACEMENT_GROUP: "correct spec.placementGroupSelector",
    resolve.RESERVATIONS: "correct spec.capacityReservationSelectorTerms",
    resolve.VALIDATION: "correct the spec",
}
_GRANT: Final = "grant the actions of deploy/iam-policy.json to the role of Holdfast"


def results(account: AccountReading) -> Iterator[CheckResult]:
    for name, reading in sorted(account.classes.items()):
        found = list(_problems(reading, account))
        yield from found
        if not any(one.level in check_results.PROBLEMS for one in found):
            yield check_results.ok(CHECK, f"EC2NodeClass/{name}", _summary(reading))


def is_usable(reading: ClassReading) -> bool:
    """Whether NodePools of the class can be checked: everything that it selects was found."""
    written = reading.node_class.status.conditions
    return not isinstance(reading.types, errors.HoldfastError) and not any(
        one.status != conditions.TRUE
        for one in written
        if one.type in resolve.READY_NEEDS and one.reason not in _DERIVED
    )


def _problems(reading: ClassReading, account: AccountReading) -> Iterator[CheckResult]:
    node_class = reading.node_class
    about = f"EC2NodeClass/{node_class.metadata.name}"
    for finding in preflight.class_problems(node_class):
        yield check_results.warning(CHECK, about, finding.message, _FIXES[resolve.VALIDATION])
    denied = tuple(action.operation for action in account.denied)
    for condition in node_class.status.conditions:
        if condition.type != READY and condition.reason not in _DERIVED:
            yield from _condition(about, condition, denied, has_subnets=bool(node_class.status.subnets))
    if reading.unread_role is not None:
        fix = f"aws iam get-role --role-name {node_class.spec.role}"
        yield check_results.info(CHECK, about, f"spec.role cannot be checked: {reading.unread_role}", fix)
    refusal = reading.refusal
    if refusal is not None:
        words = f"a dry run of {refusal.operation} ({refusal.capacity_type}) is refused: {refusal.error}"
        fix = _GRANT if isinstance(refusal.error, errors.Unauthorized) else _FIXES[resolve.VALIDATION]
        yield check_results.error(CHECK, about, words, fix)


def _condition(
    about: str, condition: Condition, denied: tuple[str, ...], *, has_subnets: bool
) -> Iterator[CheckResult]:
    """Without subnets no reservation can be used: the result about subnets covers them. A class without reservations
    launches on demand and on spot, so that is a warning."""
    fix, message = _FIXES.get(condition.type), condition.message or ""
    if fix is None:
        return
    if condition.status == FALSE and condition.type != resolve.RESERVATIONS:
        yield check_results.error(CHECK, about, message, fix)
    elif condition.status == UNKNOWN:
        if not any(f"({operation})" in message for operation in denied):
            yield check_results.error(CHECK, about, f"{condition.type} cannot be checked: {message}", _GRANT)
    elif condition.type == resolve.RESERVATIONS and message and has_subnets:
        yield check_results.warning(CHECK, about, message, fix)


def _summary(reading: ClassReading) -> str:
    status = reading.node_class.status
    parts = [
        (status.amis, "image"),
        (status.subnets, "subnet"),
        (status.security_groups, "security group"),
        (status.capacity_reservations, "reservation"),
    ]
    return ", ".join(wording.count(len(found), noun) for found, noun in parts)
