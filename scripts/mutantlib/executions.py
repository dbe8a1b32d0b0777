"""Finds the tests that execute a line: recorded once for each test file, then read from a cache.

Called by `mutants.py`. The cache has one file of JSON lines for each content of a test file and the mutated modules.
Tests that import the mutated module directly come first, then some quick ones, then those that execute most of the
module in the least time. Their total time is limited.
"""

import ast
import functools
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TESTS: Final = (
    "tests/unit",
    "tests/property",
    "tests/scenario",
    "tests/contract/test_aws_launch_*.py",
    "tests/contract/test_aws_instance_provider.py",
    "tests/contract/test_aws_discovery_reservations.py",
)
# Too slow for mutants, or for other code.
NOT_USED: Final = tuple(
    f"test_{name}*.py"
    for name in (
        "better",
        "checker",
        "class",
        "cli",
        "clocks",
        "crd",
        "demo",
        "ec2_and_api_faults",
        "examples",
        "fault_simulation",
        "hostile",
        "identity",
        "idle",
        "instance_status",
        "interruption",
        "kube",
        "leftovers",
        "nodeclass",
        "nodepool",
        "noise",
        "oracle",
        "outages",
        "provisioning_pods",
        "runtime",
        "sim",
        "start",
        "tidy",
    )
)
_IMPORTED_FROM: Final = ("src", "tests", "tests/support", "scripts")
_FILE_LIMIT_S: Final = 900
_TESTS_MAX: Final = 150  # for one mutant
_QUICK: Final = 20  # at least this many quick tests, and all that import the module
_BUDGET_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Execution:
    test: str
    took_s: float
    lines: dict[str, frozenset[int]]  # by module


class Executions:
    def __init__(self, copy: Path, modules: Iterable[str], cache: Path) -> None:
        self._copy = copy
        self._modules = tuple(modules)
        self._cache = cache
        self._all: list[Execution] = []
        self._imports: dict[str, frozenset[str]] = {}

    def record(self, pool: Executor, *, only_read: bool = False) -> None:
        """Runs each test file that imports one of the modules once, with tracing, unless the cache has it. `only_read`:
        skips test files that the cache does not have."""
        self._cache.mkdir(parents=True, exist_ok=True)
        reports: dict[Path, Path] = {}
        for file in _files(self._copy):
            if _reaches(self._copy, file, self._modules):
                name = self._name(file).replace("/", "_")
                reports[file] = self._cache / f"{name}.{_version(self._copy, file, self._modules)}"
        if not only_read:
            missing = [(self._name(file), report) for file, report in reports.items() if not report.exists()]
            list(pool.map(self._trace, *zip(*missing, strict=True)) if missing else ())
        for file, report in reports.items():
            if report.exists():
                self._all.extend(self._read(report))
                self._imports[self._name(file)] = _imported(file)

    def _name(self, file: Path) -> str:
        return file.relative_to(self._copy).as_posix()

    def _trace(self, name: str, report: Path) -> None:
        print(f"recording which lines {name} executes", flush=True)
        partial = report.with_suffix(".partial")
        partial.write_text("", encoding="utf-8")
        paths = (str(self._copy / "src/holdfast" / module) for module in self._modules)
        env = environment(self._copy) | {
            "MUTANTS_MODULES": os.pathsep.join(paths),
            "MUTANTS_REPORT": str(partial),
        }
        command = pytest_command("-p", "mutantlib.executed_lines", name)
        try:
            subprocess.run(  # noqa: S603 - our own tests
                command, cwd=self._copy, env=env, check=False, capture_output=True, timeout=_FILE_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            print(f"{name} takes longer than {_FILE_LIMIT_S} s; the tests that ended are used", flush=True)
        partial.rename(report)

    def _read(self, report: Path) -> Iterator[Execution]:
        for line in report.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            lines = {
                path.partition("src/holdfast/")[2]: frozenset(numbers)
                for path, numbers in one["lines"].items()
            }
            yield Execution(one["test"], one["took_s"], lines)

    def tests(self, module: str, first: int, last: int) -> list[str]:
        """The tests that execute one of these lines, in the order of their use."""
        wanted = frozenset(range(first, last + 1))
        near = [one for one in self._all if module in one.lines]
        found = [one for one in near if one.lines[module] & wanted] or near  # defaults: executed at import
        found.sort(key=lambda one: (not self._names(one.test, module), one.took_s))
        quick = max(_QUICK, sum(self._names(one.test, module) for one in found))
        most_of_it = _from_each_file(
            sorted(found[quick:], key=lambda one: -len(one.lines[module]) / (0.5 + one.took_s))
        )
        # Only some cases of a parametrized unit test are recorded, and another case may execute the line.
        other_cases = [one for one in near if one.test.startswith("tests/unit/") and "[" in one.test]
        chosen: list[str] = []
        budget_s = _BUDGET_S
        for one in (*found[:quick], *other_cases, *most_of_it)[:_TESTS_MAX]:
            budget_s -= one.took_s
            if budget_s < 0 and chosen:
                break
            chosen.append(_all_cases(one.test))
        return list(dict.fromkeys(chosen))

    def _names(self, test: str, module: str) -> bool:
        dotted = "holdfast." + module.removesuffix(".py").replace("/", ".")
        return dotted in self._imports[test.partition("::")[0]]


def _from_each_file(found: Iterable[Execution]) -> list[Execution]:
    """The first test of each file, then the second of each, and so on: tests of one file detect similar mutants."""
    by_file: dict[str, list[Execution]] = {}
    for one in found:
        by_file.setdefault(one.test.partition("::")[0], []).append(one)
    return [one for some in itertools.zip_longest(*by_file.values()) for one in some if one is not None]


def _all_cases(test: str) -> str:
    """All cases of a parametrized unit test: only some were recorded, and they are quick."""
    return test.partition("[")[0] if test.startswith("tests/unit/") else test


def environment(copy: Path) -> dict[str, str]:
    paths = (str(copy / folder) for folder in _IMPORTED_FROM)
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}


def pytest_command(*arguments: str) -> list[str]:
    plugins = ("-p", "no:cacheprovider", "-p", "mutantlib.uncompiled")
    return [sys.executable, "-m", "pytest", "-q", "--no-header", *plugins, *arguments]


def _files(copy: Path) -> list[Path]:
    found = set()
    for pattern in TESTS:
        path = copy / pattern
        found |= set(path.glob("test_*.py") if path.is_dir() else path.parent.glob(path.name))
    used = (file for file in found if not any(file.match(pattern) for pattern in NOT_USED))
    folders = [Path(pattern).parts[1] for pattern in TESTS]
    return sorted(used, key=lambda file: (folders.index(file.parent.name), file.name))


def _reaches(copy: Path, file: Path, modules: Iterable[str]) -> bool:
    """Whether a test file imports one of the modules, directly or indirectly."""
    wanted = {copy / "src/holdfast" / module for module in modules}
    seen, left = {file}, [file]
    while left:
        for name in _imported(left.pop()):
            path = _file_of(copy, name)
            if path is not None and path not in seen:
                seen.add(path)
                left.append(path)
    return bool(seen & wanted)


@functools.cache
def _file_of(copy: Path, name: str) -> Path | None:
    paths = (copy / folder / (name.replace(".", "/") + ".py") for folder in _IMPORTED_FROM)
    return next((path for path in paths if path.is_file()), None)


def _version(copy: Path, file: Path, modules: Iterable[str]) -> str:
    """A hash of the test file and of the modules: the records contain their line numbers."""
    digest = hashlib.sha256(file.read_bytes())
    for module in modules:
        digest.update((copy / "src/holdfast" / module).read_bytes())
    return digest.hexdigest()[:12]


@functools.cache
def _imported(file: Path) -> frozenset[str]:
    """The modules that a test file imports: `from a import b` may import `a` and `a.b`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)
