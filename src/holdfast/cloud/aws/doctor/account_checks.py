"""Checks of the account: credentials, region, rights, EKS cluster, interruption queue, spot role. Pure.

Called by `diagnosis`. Each function takes what was read and returns its results.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from holdfast import errors
from holdfast.cloud.aws.client import credentials
from holdfast.cloud.aws.doctor.account_reading import SPOT_ROLE, AccountReading
from holdfast.cloud.aws.doctor.queue_reading import QueueReading
from holdfast.model import check_results, wording
from holdfast.model.check_results import CheckResult

CREDENTIALS: Final = "aws-credentials"
RIGHTS: Final = "aws-rights"
CLUSTER: Final = "eks-cluster"
QUEUE: Final = "interruption-queue"
SPOT: Final = "spot-role"

_GRANT: Final = "grant the actions of deploy/iam-policy.json to the role of Holdfast"
_CREATE_SPOT_ROLE: Final = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
_DEFAULT_FAMILY: Final = "AL2023"
# Source and detail type of the events that drain a node in time. Other events only save a minute.
EXPECTED_EVENTS: Final = (
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"),
    ("aws.ec2", "EC2 Instance State-change Notification"),
    ("aws.health", "AWS Health Event"),
)


def access(reading: AccountReading) -> Iterator[CheckResult]:
    about, error, caller = f"AWS region {reading.region}", reading.access, reading.caller
    if isinstance(error, errors.NoCredentials):
        yield check_results.error(
            CREDENTIALS, about, f"EC2 accepts no credentials: {error}", credentials.WHAT_TO_DO
        )
    elif isinstance(error, errors.Unreachable):
        fix = "correct --aws-region, or the network: the EC2 endpoint of the region must be reachable"
        yield check_results.error(CREDENTIALS, about, f"EC2 cannot be reached: {error}", fix)
    elif caller is None or isinstance(caller, errors.HoldfastError):
        yield check_results.info(CREDENTIALS, about, f"the account cannot be read: {caller}")
    else:
        yield check_results.ok(CREDENTIALS, about, f"account {caller.account} as {caller.arn}")


def rights(reading: AccountReading) -> Iterator[CheckResult]:
    for action, denied in sorted(reading.denied.items(), key=lambda one: one[0].name):
        if action.effect:
            yield check_results.warning(RIGHTS, action.name, f"is denied; {action.effect}: {denied}", _GRANT)
        else:
            yield check_results.error(RIGHTS, action.name, f"is denied: {denied}", _GRANT)
    if not reading.denied:
        yield check_results.ok(RIGHTS, "IAM policy", "allows the reads of Holdfast")


def cluster(reading: AccountReading, families: Iterable[str]) -> Iterator[CheckResult]:
    """Whether instances of these AMI families can join."""
    found = reading.cluster
    assert found is not None, "the account was read"
    about = f"Cluster/{found.name}"
    problems = dict.fromkeys(
        problem for family in sorted(set(families) or {_DEFAULT_FAMILY}) if (problem := found.problem(family))
    )
    for problem in problems:
        words, _, fix = problem.message.rpartition("; ")
        level = check_results.warning if found.may_recover else check_results.error
        yield level(CLUSTER, about, words, fix)
    if not problems:
        yield check_results.ok(CLUSTER, about, f"endpoint {found.endpoint}, Services {found.service_cidr}")


def interruption_queue(reading: AccountReading, *, uses_spot: bool) -> Iterator[CheckResult]:
    queue = reading.queue
    if queue is None:
        words = "--interruption-queue is not set: nodes are not drained before spot interruptions"
        fix = "create the queue and the EventBridge rules of Karpenter, and set --interruption-queue"
        result = check_results.warning if uses_spot else check_results.info
        yield result(QUEUE, "Queue", words, fix)
    elif isinstance(queue, errors.NotFound):
        fix = "correct --interruption-queue, or create the queue in this account and region"
        yield check_results.error(QUEUE, "Queue", f"does not exist: {queue}", fix)
    elif isinstance(queue, errors.HoldfastError):
        yield check_results.error(QUEUE, "Queue", f"cannot be read: {queue}", f"{_GRANT} (sqs:GetQueueUrl)")
    else:
        yield from _queue(queue)


def _queue(queue: QueueReading) -> Iterator[CheckResult]:
    about = f"Queue/{queue.name}"
    if isinstance(queue.received, errors.HoldfastError):
        words = f"messages cannot be received: {queue.received}"
        yield check_results.error(QUEUE, about, words, f"{_GRANT} (sqs:ReceiveMessage)")
        return
    if isinstance(queue.rules, errors.HoldfastError):
        fix = "check with: aws events list-rule-names-by-target --target-arn " + queue.arn
        words = "messages can be received; its EventBridge rules cannot be read"
        yield check_results.info(QUEUE, about, f"{words}: {queue.rules}", fix)
        return
    enabled = [rule for rule in queue.rules if rule.is_enabled]
    missing = [
        (source, detail_type)
        for source, detail_type in EXPECTED_EVENTS
        if not any(rule.matches(source, detail_type) for rule in enabled)
    ]
    if missing:
        names = ", ".join(f"{detail_type!r} of {source}" for source, detail_type in missing)
        fix = f"create and enable EventBridge rules for them with the target {queue.arn}"
        yield check_results.warning(QUEUE, about, f"no enabled rule sends {names}", fix)
        return
    yield check_results.ok(
        QUEUE, about, f"messages can be received; {wording.count(len(enabled), 'EventBridge rule')}"
    )


def spot_role(
    reading: AccountReading, spot_pools: Iterable[str], only_spot: Iterable[str]
) -> Iterator[CheckResult]:
    """`spot_pools`: the NodePools that can launch spot instances; `only_spot`: those of them that can launch nothing
    else."""
    pools, only, role = sorted(spot_pools), sorted(only_spot), reading.spot_role
    if not pools:
        return
    about = f"Role/{SPOT_ROLE}"
    if isinstance(role, errors.NotFound):
        words = f"does not exist, and NodePools use spot: {', '.join(pools)}"
        result = check_results.error if only else check_results.warning
        yield result(SPOT, about, words, _CREATE_SPOT_ROLE)
    elif isinstance(role, errors.HoldfastError):
        yield check_results.info(
            SPOT, about, f"cannot be checked: {role}", f"aws iam get-role --role-name {SPOT_ROLE}"
        )
    else:
        yield check_results.ok(SPOT, about, "exists")
