"""Marks what only `make test-all` runs, and prints after a failure the command that runs the test again."""

from collections import defaultdict

import pytest

from exhaustive import KEPT, left_to_test_all


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases = defaultdict(list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    for name, kept in KEPT.items():
        for item in left_to_test_all(cases[name], kept):
            item.add_marker(pytest.mark.exhaustive)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed = {
        report.nodeid for kind in ("failed", "error") for report in terminalreporter.stats.get(kind, ())
    }
    for nodeid in sorted(failed):
        terminalreporter.write_line(f"run it again: .venv/bin/python -m pytest '{nodeid}'")
