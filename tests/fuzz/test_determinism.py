"""The same scenario gives the same bytes for any hash seed of the process and any order of the documents and lists."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checker import check, generate, harness
from checker.scenario import Documents
from holdfast.cli.plan import plan_documents

SEEDS = (1281, 1311, 2818, *range(3000, 3010))
SHUFFLES = 3


def digests() -> str:
    """One line per seed, with the digest of its plan."""
    plans = ((seed, check.dump(plan_documents(generate.scenario(seed)))) for seed in SEEDS)
    return "\n".join(f"{seed} {hashlib.sha256(plan.encode()).hexdigest()}" for seed, plan in plans)


def digests_of_process(hash_seed: int) -> str:
    """The digests computed by another process with this PYTHONHASHSEED."""
    source = "import test_determinism; print(test_determinism.digests())"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path}
    command = [sys.executable, "-c", source]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return ran.stdout.strip()


def test_scenarios_cover_both_packings_and_both_weight_settings() -> None:
    settings = [_settings(generate.scenario(seed)) for seed in SEEDS]
    assert {one.get("packing") for one in settings} == {"cost", "karpenter"}
    assert {one.get("reservedBeforeWeight", True) for one in settings} == {True, False}


def test_plan_does_not_depend_on_the_hash_seed() -> None:
    first, second = digests_of_process(1), digests_of_process(2)
    assert len(first.splitlines()) == len(SEEDS)
    assert first == second


@pytest.mark.parametrize("seed", SEEDS)
def test_plan_does_not_depend_on_the_order_of_documents(seed: int) -> None:
    documents = generate.scenario(seed)
    plan = plan_documents(documents)
    assert plan["claims"] or plan["nodes"] or plan["unplaced"]
    for shuffle in range(SHUFFLES):
        again = plan_documents(harness.shuffled(documents, 1000 * seed + shuffle))
        assert check.difference(plan, again) == []


def _settings(documents: Documents) -> dict[str, object]:
    found: dict[str, object] = next(one for one in documents if one["kind"] == "Catalog")["spec"]["settings"]
    return found
