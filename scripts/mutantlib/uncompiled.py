"""Pytest plugin: runs the planner's kernel as Python.

`executions` loads it in every run of pytest, because lines of the compiled kernel cannot be traced.
"""

import pytest

from holdfast.core.scheduling.kernel import compiled


def pytest_configure() -> None:
    pytest.MonkeyPatch().setattr(compiled, "placement", lambda: compiled.plain)
