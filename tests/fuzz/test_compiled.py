"""The compiled kernel gives the same plans as the same source in plain Python."""

import pytest

from checker import check, generate
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.kernel import compiled

SEEDS = range(4000, 4060)


def test_compiled_kernel_gives_the_same_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenarios = [generate.scenario(seed) for seed in SEEDS]
    monkeypatch.setattr(compiled, "placement", lambda _: compiled.plain)
    from_python = [plan_documents(one) for one in scenarios]
    monkeypatch.undo()
    monkeypatch.setattr(compiled, "COMPILE_FROM_PODS", 0)
    from_compiled = [plan_documents(one) for one in scenarios]
    assert sum(len(plan["claims"]) for plan in from_python) > len(SEEDS)
    for one, other in zip(from_python, from_compiled, strict=True):
        assert check.difference(one, other) == []
