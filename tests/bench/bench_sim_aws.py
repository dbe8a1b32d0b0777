"""How many instances a second a real botocore client launches in the simulated EC2, through each front.

Run by `make bench`. A launch is one CreateFleet of type instant with three pools and tags, for one instance.
`front alone` is the same with an EC2 that gives one ready answer, so it is what the front and botocore cost. The
second table is EC2 without front and client, with different numbers of instances: the time of a call must not grow with
them, except when all are described. Prints tables; asserts nothing, since computers differ.
"""

import itertools
import time
from collections.abc import Callable
from typing import Any

import ec2_region
import sim_aws
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2.setup import ACCOUNT

GOALS = {"before_call": 4280, "before_send": 1030, "http": 670}
CALLS = 300
SIZES = (100, 1000, 10_000)


def main() -> None:
    print(f"CPU time of {CALLS} calls")
    print(f"{'front':12} {'launches/s':>11} {'front alone':>12} {'goal':>6} {'describes/s':>12}")
    for front, goal in GOALS.items():
        launches, alone, describes = measured(front)
        print(f"{front:12} {launches:11.0f} {alone:12.0f} {goal:6} {describes:12.0f}")
    print(
        f"\n{'instances':12} {'launches/s':>11} {'terminations/s':>15} {'by id/s':>9} {'pages of 1000/s':>16}"
    )
    for size in SIZES:
        print(f"{size:<12} {' '.join(f'{value:11.0f}' for value in by_size(size))}")


class Ready:
    """An EC2 that always returns the same answer."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def call(self, *_: object) -> dict[str, Any]:
        return self._answer


def measured(front: str) -> tuple[float, float, float]:
    """Launches a second with EC2 and without, and descriptions of ten instances."""
    region = ec2_region.Region()
    pools = ec2_region.config(region.template(), "m5.large/a", "m5.large/b", "m5.large/c")
    tags = [{"Key": f"key-{n}", "Value": "value"} for n in range(4)]
    fleet = {
        "Type": "instant",
        "LaunchTemplateConfigs": [pools],
        "OnDemandOptions": {"AllocationStrategy": "lowest-price"},
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tags}],
    }
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": region.ec2})) as aws:
        ec2: Any = aws["ec2"]
        launches = rate(lambda: ec2.create_fleet(**fleet))
        known = [instance.id for instance in region.state.instances][:10]
        describes = rate(lambda: ec2.describe_instances(InstanceIds=known))
    ready = Ready(region.fleet(pools))
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": ready})) as aws:
        quick: Any = aws["ec2"]
        return launches, rate(lambda: quick.create_fleet(**fleet)), describes


def by_size(instances: int) -> tuple[float, float, float, float]:
    """Calls a second: launches, terminations, descriptions of one, and pages of a description of all."""
    region = ec2_region.Region()
    pool = ec2_region.config(region.template(), "m5.large/a", "m5.large/b", "m5.large/c")
    while len(region.state.instances) < instances:
        region.fleet(pool, count=min(1000, instances - len(region.state.instances)))
    known = itertools.cycle([instance.id for instance in region.state.instances])
    pages: list[str | None] = [None]

    def call(operation: str, **params: Any) -> dict[str, Any]:
        return region.ec2.call(operation, params, Caller(ACCOUNT))

    def page() -> None:
        token = {"NextToken": pages[0]} if pages[0] else {}
        pages[0] = call("DescribeInstances", MaxResults=1000, **token).get("NextToken")

    fleet = {
        "Type": "instant",
        "LaunchTemplateConfigs": [pool],
        "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "on-demand"},
    }
    return (
        rate(lambda: call("CreateFleet", **fleet)),
        rate(lambda: call("TerminateInstances", InstanceIds=[next(known)])),
        rate(lambda: call("DescribeInstances", InstanceIds=[next(known)])),
        rate(page, calls=2 * instances // 1000 or 1),
    )


def rate(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Calls a second of processor time, client and server together, after a first one that compiles the shapes."""
    call()
    began = time.process_time()
    for _ in range(calls):
        call()
    return calls / (time.process_time() - began)


if __name__ == "__main__":
    main()
