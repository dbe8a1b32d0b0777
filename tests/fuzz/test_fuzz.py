"""Random scenarios, planned and checked. `make fuzz` runs more of them; a failing seed is replayed with it."""

import os

import pytest

from checker import features, generate, harness
from holdfast.cli.plan import plan_documents
from kernels import plan_with_plain_kernel

SEEDS = int(os.environ.get("FUZZ_N", "500"))
BATCH = 50
# Seeds whose plans once violated a rule, beyond the range that CI runs.
REGRESSION_SEEDS = (
    545,
    653,
    1187,
    1280,
    1311,
    1352,
    1465,
    1501,
    1586,
    1592,
    2309,
    2450,
    2566,
    2621,
    2668,
    2818,
    3070,
    3193,
    3243,
    3307,
    3754,
    4198,
    4268,
    4651,
    5052,
    8298,
    9065,
    9310,
    9551,
    20063,
    20280,
    30266,
)


PLANNER = plan_documents
OTHER = plan_with_plain_kernel


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_plans_of_random_scenarios_violate_no_rule(first: int) -> None:
    for seed in range(first, min(first + BATCH, SEEDS)):
        outcome = harness.run(seed, PLANNER, OTHER)
        assert not outcome.violations, f"make fuzz N=1 SEED={seed}"


@pytest.mark.parametrize("seed", REGRESSION_SEEDS)
def test_plans_of_regression_seeds_violate_no_rule(seed: int) -> None:
    assert harness.run(seed, PLANNER, OTHER).violations == []


def test_same_seed_gives_the_same_scenario() -> None:
    assert generate.scenario(7) == generate.scenario(7)
    assert generate.scenario(7) != generate.scenario(8)


def test_generated_scenarios_cover_every_feature() -> None:
    counted = features.count([generate.scenario(seed) for seed in range(300)])
    wanted = {
        "PodGroup basic",
        "PodGroup gang",
        "PodGroup with a topology",
        "claim holds a slot",
        "class selects by id",
        "class selects by tags",
        "class selects by ownerID and tags",
        "reservation capacity-block",
        "reservation draining",
        "reservation expired",
        "reservation full",
        "reservation scheduled",
        "pool limit nodes",
        "pool minValues",
        "pool taint PreferNoSchedule",
        "running pod podAntiAffinity kubernetes.io/hostname",
        "DaemonSet host port",
        "DaemonSet nodeSelector",
        "pod GPU",
        "pod host port",
        "pod volumes",
        "pod nodeAffinity alternatives 3",
        "pod nodeAffinity preferred",
        "pod podAffinity topology.kubernetes.io/zone",
        "pod podAntiAffinity namespaceSelector",
        "pod selects karpenter.k8s.aws/capacity-reservation-id",
        "pod spread DoNotSchedule example.com/rack",
        "pod spread DoNotSchedule topology.kubernetes.io/zone",
        "pod spread ScheduleAnyway kubernetes.io/hostname",
        "pod spread matchLabelKeys",
        "pod spread minDomains",
        "claim being deleted",
        "pod claim template",
        "pod matchFields",
        "pod nodeAffinity several preferred",
        "pod pod-level resources",
        "pod podAffinity preferred",
        "pod podAntiAffinity matchLabelKeys",
        "pod podAntiAffinity preferred",
        "pod of a JobSet",
        "pod of a LeaderWorkerSet",
        "pod priority",
        "pod schedulingGates",
        "pool static",
        "pool zone without offerings",
        "reservation named in an offering",
        "running pod not to be disrupted",
        "setting reservedCapacity=False",
        "setting reservedMode=strict",
        "volume claim being deleted",
        "volume claim unbound",
        "volume limits of a type",
    }
    assert {feature for feature in wanted if counted[feature] < 5} == set()
