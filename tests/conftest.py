"""Adds a marker to the tests that only `make test-all` runs, and prints the command that repeats a failed test. Examples of
property tests have no deadline: they take long on a busy computer."""

from collections import defaultdict
from collections.abc import Callable

import hypothesis
import pytest

from exhaustive import KEPT, left_to_test_all

hypothesis.settings.register_profile("holdfast", deadline=None)
hypothesis.settings.load_profile("holdfast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _mark(items, lambda nodeid: nodeid.partition("[")[0])  # tests
    items_to_run = [item for item in items if item.get_closest_marker("exhaustive") is None]
    _mark(items_to_run, lambda nodeid: nodeid.partition("::")[0])  # files


def _mark(items: list[pytest.Item], name_of: Callable[[str], str]) -> None:
    cases = defaultdict(list)
    for item in items:
        cases[name_of(item.nodeid)].append(item)
    for name in cases.keys() & KEPT.keys():
        for item in left_to_test_all(cases[name], KEPT[name]):
            item.add_marker(pytest.mark.exhaustive)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed = {
        report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())
    }
    for nodeid in sorted(failed):
        terminalreporter.write_line(f"run it again: .venv/bin/python -m pytest '{nodeid}'")
