"""Pytest plugin: the planner's kernel always runs as Python.

Loaded by `executions` in every run of pytest. Compiled code executes no lines that can be traced, and once a large plan
compiles the kernel, every later test in the process uses it. To compile a mutant takes longer than its time limit.
"""

import pytest

from holdfast.core.scheduling.kernel import compiled


def pytest_configure() -> None:
    pytest.MonkeyPatch().setattr(compiled, "placement", lambda _pods: compiled.plain)
