"""Plans violate no rule when packings are first compared on a sample, as they are for thousands of pods."""

import pytest

from checker import harness
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.search import packing_search

SEEDS = range(5000, 5060)


def test_plans_violate_no_rule_when_packings_are_compared_on_a_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packing_search, "SAMPLE_PODS", 3)
    for seed in SEEDS:
        assert harness.run(seed, plan_documents).violations == [], seed
