"""Changes the meaning of single expressions and reports which changes the tests detect: `make mutants N=100 SEED=1`.

It works on copies of the repository in a temporary folder, one for each core. Only tests that execute the changed line
run. The command fails if a mutant survives and tests/mutants/survivors.toml does not list it with a reason.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mutantlib import survivors
from mutantlib.executions import Executions, environment, pytest_command
from mutantlib.mutations import Mutation, mutations

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".cache/mutants"
_TIMEOUT_S: Final = 240
_TIMEOUT: Final = "timeout"
_FIRST: Final = 10  # tests of the first run: they detect most mutants

# The mutated modules, below src/holdfast.
GROUPS: Final = {
    "ledger": (
        "core/reservations/boundaries.py",
        "core/reservations/deadlines.py",
        "core/reservations/ledger.py",
        "core/reservations/slot_use.py",
        "core/reservations/pool_slots.py",
        "core/reservations/capacity_type.py",
        "controllers/reservations/availability.py",
        "controllers/reservations/expiration.py",
        "controllers/reservations/capacity_type.py",
        "cloud/aws/reservations/capacity_reservation.py",
    ),
    "slots": (
        "core/scheduling/kernel/slots.py",
        "core/scheduling/search/settling.py",
        "core/scheduling/output/reservation_reasons.py",
        "core/scheduling/output/waiting.py",
        "core/disruption/waiting_replacements.py",
        "core/disruption/slot_release.py",
        "controllers/provisioning/slots.py",
        "controllers/slot_holds.py",
    ),
    "launch": (
        "controllers/nodeclaim/garbage.py",
        "controllers/nodeclaim/launch.py",
        "controllers/nodeclaim/launch_batch.py",
        "controllers/nodeclaim/launched_claim.py",
        "cloud/aws/launch/choice.py",
        "model/snapshot.py",
        "cloud/aws/launch/launch_groups.py",
        "cloud/aws/launch/launched_instances.py",
        "cloud/aws/launch/launcher.py",
    ),
    "rolling": (
        "core/disruption/budgets.py",
        "core/disruption/consolidation.py",
        "core/disruption/cooldown.py",
        "core/disruption/drift.py",
        "core/disruption/repair.py",
        "core/disruption/rolling.py",
    ),
}
MODULES: Final = tuple(module for modules in GROUPS.values() for module in modules)


@dataclass(frozen=True, slots=True)
class Mutant:
    module: str
    mutation: Mutation

    def __str__(self) -> str:
        return f"{self.module}:{self.mutation.line}: {self.mutation.change}\n    {self.mutation.text}"


@dataclass(frozen=True, slots=True)
class Result:
    mutant: Mutant
    noticed_by: str | None  # None: it survived
    tests: int


def all_mutants(root: Path, modules: Sequence[str]) -> list[Mutant]:
    return [
        Mutant(module, one)
        for module in modules
        for one in mutations((root / "src/holdfast" / module).read_text(encoding="utf-8"))
    ]


def main() -> int:
    options = _options()
    chosen = [m for m in MODULES if _is_chosen(m, options.module)]
    if not chosen:
        print(f"no module matches {options.module}; known: {', '.join((*GROUPS, *MODULES))}")
        return 2
    picked = all_mutants(ROOT, chosen)
    if options.line:
        picked = [one for one in picked if options.line in one.mutation.text]
    if len(picked) > options.count:
        picked = random.Random(options.seed).sample(picked, options.count)  # noqa: S311 - a seed replays a run
    workers = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()  # each mutant has its own copy
        for number in range(workers):
            _copy(Path(folder, str(number)))
            copies.put(Path(folder, str(number)))
        executions = Executions(Path(folder, "0"), MODULES, CACHE)
        executions.record(pool, only_read=options.recorded)
        results = list(pool.map(lambda one: _tried_in_a_copy(copies, executions, one), picked))
    return _report(results, chosen, options)


def _is_chosen(module: str, wanted: str) -> bool:
    return (
        not wanted or wanted in module or any(wanted == group and module in GROUPS[group] for group in GROUPS)
    )


def _copy(copy: Path) -> None:
    """Copies every file that git tracks or would add, with uncommitted changes."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],  # noqa: S607
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def _tried_in_a_copy(copies: SimpleQueue[Path], executions: Executions, mutant: Mutant) -> Result:
    copy = copies.get()
    try:
        return _tried(copy, executions, mutant)
    finally:
        copies.put(copy)


def _tried(copy: Path, executions: Executions, mutant: Mutant) -> Result:
    path = copy / "src/holdfast" / mutant.module
    original = path.read_text(encoding="utf-8")
    stat = path.stat()
    tests = executions.tests(mutant.module, mutant.mutation.line, mutant.mutation.end_line)
    path.write_text(mutant.mutation.apply(original), encoding="utf-8")
    try:
        noticed_by = _noticed_by(copy, tests[:_FIRST]) or _noticed_by(copy, tests[_FIRST:])
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    if noticed_by == _TIMEOUT and _noticed_by(copy, tests) == _TIMEOUT:
        noticed_by = None  # the computer is slow: the tests time out without the mutant, too
    result = Result(mutant, noticed_by, len(tests))
    print(f"{noticed_by or 'SURVIVED'} ({len(tests)} tests): {mutant}", flush=True)
    return result


def _noticed_by(copy: Path, tests: Sequence[str]) -> str | None:
    """The test that fails; None if all pass. No byte code is written: that of a mutant could be used by later runs."""
    if not tests:
        return None
    command = pytest_command("-x", "--tb=no", "-rfE", *tests)
    env = environment(copy) | {"PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ran = subprocess.run(  # noqa: S603 - our own tests
            command, cwd=copy, env=env, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return _TIMEOUT
    if ran.returncode == 0:
        return None
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" ")[1] if failed else f"exit code {ran.returncode}"


def _report(results: Sequence[Result], chosen: Sequence[str], options: argparse.Namespace) -> int:
    known = survivors.read(ROOT)
    survived = [one for one in results if one.noticed_by is None]
    unknown = [
        one for one in survived if not any(s.is_about(one.mutant.module, one.mutant.mutation) for s in known)
    ]
    print(f"\nN={options.count} SEED={options.seed} MODULE={options.module}")
    print(f"{'module':45} {'mutants':>7} {'noticed':>7} {'survived':>8} {'without reason':>14}")
    counts = [Counter(one.mutant.module for one in some) for some in (results, survived, unknown)]
    for module in (*chosen, "all"):
        all_of, left, new = (count.total() if module == "all" else count[module] for count in counts)
        if all_of:
            print(
                f"{module:45} {all_of:7} {all_of - left:7} {left:8} {new:14} {(all_of - left) / all_of:7.1%}"
            )
    for one in results:
        if one.noticed_by and any(s.is_about(one.mutant.module, one.mutant.mutation) for s in known):
            print(f"listed as survivor, but noticed by {one.noticed_by}: {one.mutant}")
    for one in unknown:
        print(f"survivor without a reason ({one.tests} tests execute it): {one.mutant}")
    return 1 if unknown else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="how many mutants are picked")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", default="", help="a group, or a part of a module's path")
    parser.add_argument("--line", default="", help="only lines that contain this text")
    parser.add_argument("--recorded", action="store_true", help="with tests alone that are recorded already")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
