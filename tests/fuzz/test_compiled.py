"""The kernel gives the same plans compiled as it does in Python: one source, two ways to run it."""

import pytest

from checker import check, generate
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.kernel import compiled

SEEDS = range(4000, 4060)


def test_a_plan_has_the_same_bytes_whether_its_kernel_is_compiled_or_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenarios = [generate.scenario(seed) for seed in SEEDS]
    monkeypatch.setattr(compiled, "placement", lambda _: compiled.plain)
    plain = [plan_documents(one) for one in scenarios]
    monkeypatch.undo()
    monkeypatch.setattr(compiled, "COMPILE_FROM_PODS", 0)
    fast = [plan_documents(one) for one in scenarios]
    assert sum(len(plan["claims"]) for plan in plain) > len(SEEDS)
    for one, other in zip(plain, fast, strict=True):
        assert check.difference(one, other) == []
