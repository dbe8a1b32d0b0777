"""Pytest plugin: the planner's kernel always runs as Python.

Loaded by `executions` in every run of pytest. The compiled kernel executes no lines that can be traced.
"""

import pytest

from holdfast.core.scheduling.kernel import compiled


def pytest_configure() -> None:
    pytest.MonkeyPatch().setattr(compiled, "placement", lambda: compiled.plain)
