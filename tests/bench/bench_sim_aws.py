"""How many instances a second a real botocore client launches in the simulated EC2, through each front.

Run by `make bench`. A launch is one CreateFleet of type instant with three pools and tags, for one instance.
`front alone` is the same with an EC2 that gives one ready answer, so it is what the front and botocore cost.
Prints a table; asserts nothing, since machines differ.
"""

import time
from collections.abc import Callable
from typing import Any

import ec2_world
import sim_aws

GOALS = {"before_call": 4280, "before_send": 1030, "http": 670}
CALLS = 300


def main() -> None:
    print(f"processor time of {CALLS} calls")
    print(f"{'front':12} {'launches/s':>11} {'front alone':>12} {'goal':>6} {'describes/s':>12}")
    for front, goal in GOALS.items():
        launches, alone, describes = measured(front)
        print(f"{front:12} {launches:11.0f} {alone:12.0f} {goal:6} {describes:12.0f}")


class Ready:
    """An EC2 that has its answer ready."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    def call(self, *_: object) -> dict[str, Any]:
        return self._answer


def measured(front: str) -> tuple[float, float, float]:
    """Launches a second with EC2 and without, and descriptions of ten instances."""
    region = ec2_world.Region()
    pools = ec2_world.config(region.template(), "m5.large/a", "m5.large/b", "m5.large/c")
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
        known = [instance.id for instance in region.world.instances][:10]
        describes = rate(lambda: ec2.describe_instances(InstanceIds=known))
    ready = Ready(region.fleet(pools))
    with sim_aws.clients(front, sim_aws.endpoint({"ec2": ready})) as aws:
        quick: Any = aws["ec2"]
        return launches, rate(lambda: quick.create_fleet(**fleet)), describes


def rate(call: Callable[[], Any]) -> float:
    """Calls a second of processor time, client and server together, after a first one that compiles the shapes."""
    call()
    began = time.process_time()
    for _ in range(CALLS):
        call()
    return CALLS / (time.process_time() - began)


if __name__ == "__main__":
    main()
