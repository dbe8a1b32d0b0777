"""The two kernels in tests: plans with the plain one, and tests that need a C compiler for the other."""

from typing import Any
from unittest import mock

import pytest

import build_kernel
from checker.scenario import Documents
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.kernel import compiled

needs_compiler = pytest.mark.skipif(build_kernel.compiler() is None, reason="there is no C compiler")


def plan_with_plain_kernel(documents: Documents) -> dict[str, Any]:
    with mock.patch.object(compiled, "placement", return_value=compiled.plain):
        return plan_documents(documents)
