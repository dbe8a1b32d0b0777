"""Pytest plugin: records which lines of the listed modules each test executes, and how long the test takes.

Loaded by `executions` with `-p mutantlib.executed_lines`. Only a few cases of a parametrized test are recorded. A test
that takes too long, or that fails while it is traced, is not used for mutants.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

CASES_MAX: Final = 3  # of one parametrized test
_LIMIT_S: Final = 10.0

_modules = frozenset(os.environ.get("MUTANTS_MODULES", "").split(os.pathsep))
_report = Path(os.environ.get("MUTANTS_REPORT", os.devnull))
_lines: set[tuple[str, int]] = set()


def _called(frame: FrameType, event: str, _: Any) -> Any:
    """Traces only frames of the listed modules line by line."""
    return _line if event == "call" and frame.f_code.co_filename in _modules else None


def _line(frame: FrameType, event: str, _: Any) -> Any:
    if event == "line":
        _lines.add((frame.f_code.co_filename, frame.f_lineno))
    return _line


def _too_slow(*_: Any) -> None:
    raise TimeoutError("this test takes too long for mutants")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    items[:] = [item for all_of in cases.values() for item in _spread(all_of)]


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first, the last, and cases in between."""
    if len(items) <= CASES_MAX:
        return items
    return [items[i * (len(items) - 1) // (CASES_MAX - 1)] for i in range(CASES_MAX)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _lines.clear()
    signal.signal(signal.SIGALRM, _too_slow)
    signal.setitimer(signal.ITIMER_REAL, _LIMIT_S, 1.0)  # repeated, in case a test catches the exception
    threading.settrace(_called)
    sys.settrace(_called)
    began = time.monotonic()
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        took_s = time.monotonic() - began
        if _lines and not getattr(item, "mutants_failed", False):
            by_module: dict[str, list[int]] = {}
            for name, line in sorted(_lines):
                by_module.setdefault(name, []).append(line)
            with _report.open("a", encoding="utf-8") as out:
                out.write(
                    json.dumps({"test": item.nodeid, "took_s": round(took_s, 3), "lines": by_module}) + "\n"
                )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if not report.passed:
        item.mutants_failed = True  # type: ignore[attr-defined]
    return report
