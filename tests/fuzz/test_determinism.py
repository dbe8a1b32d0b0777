"""The same scenario gives the same plan to the byte: whatever the hash seed of the process, whatever the order of the
documents and of what is listed in them."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checker import check, generate, harness
from checker.world import Documents
from holdfast.cli.plan import plan_documents

SEEDS = (1281, 1311, 2818, *range(3000, 3010))
SHUFFLES = 3


def digests() -> str:
    """A line a seed, with the digest of its plan."""
    plans = ((seed, check.dump(plan_documents(generate.scenario(seed)))) for seed in SEEDS)
    return "\n".join(f"{seed} {hashlib.sha256(plan.encode()).hexdigest()}" for seed, plan in plans)


def in_process(hash_seed: int) -> str:
    """The digests as another process computes them, with this seed for the hashes of strings."""
    source = "import test_determinism; print(test_determinism.digests())"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path}
    command = [sys.executable, "-c", source]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return ran.stdout.strip()


def test_the_scenarios_differ_in_what_the_planner_is_told_to_do() -> None:
    settings = [_settings(generate.scenario(seed)) for seed in SEEDS]
    assert {one.get("packing") for one in settings} == {"cost", "karpenter"}
    assert {one.get("reservedBeforeWeight", True) for one in settings} == {True, False}


def test_a_plan_has_the_same_bytes_under_any_hash_seed() -> None:
    first, second = in_process(1), in_process(2)
    assert len(first.splitlines()) == len(SEEDS)
    assert first == second


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_has_the_same_bytes_in_any_order_of_the_input(seed: int) -> None:
    documents = generate.scenario(seed)
    plan = plan_documents(documents)
    assert plan["claims"] or plan["nodes"] or plan["unplaced"]
    for shuffle in range(SHUFFLES):
        again = plan_documents(harness.shuffled(documents, 1000 * seed + shuffle))
        assert check.difference(plan, again) == []


def _settings(documents: Documents) -> dict[str, object]:
    found: dict[str, object] = next(one for one in documents if one["kind"] == "Catalog")["spec"]["settings"]
    return found
