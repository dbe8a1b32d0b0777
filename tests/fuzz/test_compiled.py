"""The compiled kernel gives the same plans as the same source in plain Python, and reads no element outside its arrays."""

import subprocess
import sys
from pathlib import Path

import pytest

import build_kernel
from checker import check, generate
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.kernel import compiled
from kernels import needs_compiler, plan_with_plain_kernel

BATCH = 50
SEEDS = range(4000, 6000, BATCH)

CHECKED = """
import sys
from pathlib import Path
from checker import generate
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.kernel import compiled
compiled._LIBRARY = Path(sys.argv[1])
assert not compiled.why_plain(), compiled.why_plain()
for seed in range(int(sys.argv[2]), int(sys.argv[3])):
    plan_documents(generate.scenario(seed))
"""


@needs_compiler
def test_the_library_is_of_these_sources() -> None:
    assert compiled.why_plain() == ""


@needs_compiler
@pytest.mark.parametrize("first", SEEDS)
def test_compiled_kernel_gives_the_same_plan(first: int) -> None:
    claims = 0
    for seed in range(first, first + BATCH):
        documents = generate.scenario(seed)
        from_plain = plan_with_plain_kernel(documents)
        assert check.difference(from_plain, plan_documents(documents)) == [], seed
        claims += len(from_plain["claims"])
    assert claims > BATCH


@needs_compiler
def test_compiled_kernel_reads_and_writes_within_its_arrays(tmp_path: Path) -> None:
    library = tmp_path / build_kernel.LIBRARY
    command = build_kernel.compiler()
    assert command is not None
    build_kernel.build(library, command, checked=True)
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", CHECKED, str(library), "0", "100"],
        env={"PYTHONPATH": "tests:tests/support"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
