"""The library of the compiled kernel: when it is used, and what happens without it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import build_kernel
from holdfast.core.scheduling.kernel import compiled, packing_state
from holdfast.core.scheduling.kernel.packing_state import PackingState
from holdfast.core.scheduling.solve import solve
from kernels import needs_compiler
from planner_builders import fake_types, pods, pool, request, shape


@pytest.fixture(autouse=True)
def loads_again() -> Iterator[None]:
    compiled._library.cache_clear()
    yield
    compiled._library.cache_clear()


def test_without_a_library_plans_are_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = request([pool("default", fake_types(20))], pods(30, shape(700)))
    with_library = solve(asked)
    compiled._library.cache_clear()
    monkeypatch.setattr(compiled, "_LIBRARY", tmp_path / "kernel.so")
    assert compiled.why_plain().startswith("the compiled kernel cannot be loaded: ")
    assert compiled.placement() is compiled.plain
    assert solve(asked) == with_library


def test_a_file_that_is_no_library_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    library.write_text("no library", encoding="utf-8")
    monkeypatch.setattr(compiled, "_LIBRARY", library)
    assert compiled.why_plain().startswith("the compiled kernel cannot be loaded: ")


@needs_compiler
def test_a_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for source in build_kernel.FOLDER.glob("*.py"):
        (tmp_path / source.name).write_bytes(source.read_bytes())
    command = build_kernel.compiler()
    assert command is not None
    (tmp_path / "slots.py").write_text(
        (tmp_path / "slots.py").read_text(encoding="utf-8") + "# changed\n", encoding="utf-8"
    )
    build_kernel.build(tmp_path / "kernel.so", command, folder=tmp_path)
    monkeypatch.setattr(compiled, "_LIBRARY", tmp_path / "kernel.so")
    assert compiled.why_plain() == "kernel.so was compiled from other sources; `make setup` compiles it again"
    monkeypatch.setattr(compiled, "_FOLDER", tmp_path)
    compiled._library.cache_clear()
    assert compiled.why_plain() == ""


@needs_compiler
@pytest.mark.parametrize(
    "order", [np.zeros(4, dtype=np.int32), np.zeros((4, 2), dtype=np.int64)[:, 0]], ids=["type", "stride"]
)
def test_an_array_that_the_library_would_misread_is_rejected(order: packing_state.Ints) -> None:
    fields = {name: np.zeros(1, dtype=dtype) for name, dtype in compiled._FIELDS}
    with pytest.raises(TypeError, match="order is not a contiguous array of int64"):
        compiled.placement()(PackingState(**fields | {"order": order}))
