"""The translation of the placement kernel to C: what is in the subset means the same, and what is not is an error."""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import build_kernel
from kernels import needs_compiler

STATE = """
from typing import Final, NamedTuple
import numpy as np
from numpy.typing import NDArray
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
SEVEN: Final = 7
BELOW: Final = -3
(
    FIRST,
    SECOND,
) = range(2)
class PackingState(NamedTuple):
    a: Ints
    grid: Ints
    words: Words
"""


def kernel(folder: Path, body: str) -> Path:
    """A kernel of one module; the others are empty."""
    folder.mkdir(exist_ok=True)
    for module in build_kernel._MODULES:
        (folder / f"{module}.py").write_text("", encoding="utf-8")
    (folder / "packing_state.py").write_text(STATE, encoding="utf-8")
    (folder / "placing.py").write_text(body, encoding="utf-8")
    return folder


def as_python(folder: Path, ps: tuple[Any, ...]) -> int:
    scope: dict[str, Any] = {}
    exec((folder / "packing_state.py").read_text(encoding="utf-8"), scope)  # noqa: S102 - written above
    exec((folder / "placing.py").read_text(encoding="utf-8"), scope)  # noqa: S102 - written above
    return int(scope["run"](scope["PackingState"](*ps)))


def as_c(folder: Path, ps: tuple[Any, ...]) -> int:
    library = folder / "kernel.so"
    command = build_kernel.compiler()
    assert command is not None
    build_kernel.build(library, command, folder=folder)
    described = np.zeros((len(ps), 4), dtype=np.int64)
    for row, array in zip(described, ps, strict=True):
        row[: array.ndim + 1] = (array.ctypes.data, *array.shape)
    run = ctypes.CDLL(str(library)).holdfast_run
    run.argtypes, run.restype = [ctypes.c_void_p], ctypes.c_int64
    return int(run(described.ctypes.data))


BODIES = {
    "floor division": "    return sum3(ps.a[0] // 4, ps.a[1] // 4, ps.a[1] // SEVEN)",
    "a range that shrinks": """    found = 0
    for i in range(ps.a[2]):
        ps.a[2] = 0
        found += 10 + i
    return found""",
    "the variable after a loop": """    i = 0
    for i in range(5):
        if i == 3:
            break
    return i""",
    "a loop variable that is changed": """    found = 0
    for i in range(4):
        i = i * 2
        found = found * 10 + i
    return found""",
    "a loop backwards": """    found = 0
    for i in range(ps.a[2], 1, -1):
        found = found * 10 + i
    return found""",
    "a swap": """    ps.a[FIRST], ps.a[SECOND] = ps.a[SECOND], ps.a[FIRST]
    return ps.a[0] * 100 + ps.a[1]""",
    "pairs": """    first, _ = pair(ps, 1)
    x, y = pair(ps, 0)
    return first * 100 + x * 10 + y""",
    "truth": """    if ps.a[2] and not ps.a[3] or ps.words[0] & ps.words[1]:
        return 1
    return 0""",
    "comparisons as numbers": """    is_more = ps.a[0] > ps.a[1] or ps.a[2] < 0
    return 2 * ps.a[2] + (ps.a[3] == 0) + is_more""",
    "shifts and bits": "    return ((ps.a[2] << 22) | 5) * 40503 ^ (ps.a[1] >> 3)",
    "two dimensions": """    for i in range(ps.grid.shape[0]):
        for j in range(ps.grid.shape[1]):
            ps.grid[i, j] += i * 10 + j
    return total(ps, ps.grid)""",
    "words": """    ps.words[0] |= ps.words[1]
    return 1 if ps.words[0] & ps.words[2] else 0""",
    "least and most": "    return min(ps.a[0], ps.a[1]) * 1000 + max(ps.a[0], BELOW)",
    "while, continue and else": """    found, i = 0, 0
    while True:
        i += 1
        if i > 9:
            break
        elif i == 4:
            continue
        else:
            found += i
    return found if found > 1 else -found""",
}
HELPERS = """
def sum3(a: int, b: int, c: int) -> int:
    return a * 10000 + b * 100 + c

def pair(ps: PackingState, i: int) -> tuple[int, int]:
    return (ps.a[i], 1) if i > 0 else (2, ps.a[i])

def total(ps: PackingState, rows: Ints) -> int:
    found = 0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            found = found * 3 + rows[i, j]
    return found
"""


@needs_compiler
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_subset_means_the_same_in_c(tmp_path: Path, body: str) -> None:
    folder = kernel(tmp_path, f"def run(ps: PackingState) -> int:\n{body}\n{HELPERS}")

    def arrays() -> tuple[Any, ...]:
        numbers = np.array([-9, -31, 5, 0], dtype=np.int64)
        return numbers, np.arange(6, dtype=np.int64).reshape(2, 3), np.array([1, 2, 2**63], dtype=np.uint64)

    expected, found = arrays(), arrays()
    assert as_c(folder, found) == as_python(folder, expected)
    for one, other in zip(expected, found, strict=True):
        assert (one == other).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    return len(ps.a)", "placing.py:2: a call of len"),
        ("    return ps.a[0] / 2", "placing.py:2: `ps.a[0] / 2`"),
        ("    return ps.a[0] % 2", "placing.py:2: `ps.a[0] % 2`"),
        ("    return 1 < ps.a[0] < 3", "placing.py:2: `1 < ps.a[0] < 3`"),
        ("    x = ps.a[0] or 4\n    return x", "placing.py:2: `ps.a[0] or 4`"),
        ("    for x in ps.a:\n        return x\n    return 0", "placing.py:2: `for x in ps.a:`"),
        ("    raise ValueError", "placing.py:2: `raise ValueError`"),
        ("    return ps.b[0]", "placing.py:2: the array `ps.b`"),
        ("    return change(ps) + change(ps)", "placing.py:2: more than one call that changes an array"),
        ("    return 0\ndef f(x: str) -> int:\n    return 0", "placing.py:3: an argument of type str"),
    ],
)
def test_what_is_not_in_the_subset_is_an_error_with_its_line(tmp_path: Path, body: str, message: str) -> None:
    helper = "def change(ps: PackingState) -> int:\n    ps.a[0] += 1\n    return ps.a[0]\n"
    folder = kernel(tmp_path, f"def run(ps: PackingState) -> int:\n{body}\n{helper}")
    with pytest.raises(build_kernel.UnsupportedError) as error:
        build_kernel.c_source(folder)
    assert str(error.value).startswith(message)


@needs_compiler
def test_the_same_sources_give_the_same_library(tmp_path: Path) -> None:
    command = build_kernel.compiler()
    assert command is not None
    for name in "ab":
        build_kernel.build(tmp_path / name, command)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_compiler_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{sys.executable} -m cc")
    assert build_kernel.compiler() == [sys.executable, "-m", "cc"]
