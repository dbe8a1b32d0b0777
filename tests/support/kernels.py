"""Plans with the plain Python kernel, whether or not a compiled one exists."""

from typing import Any
from unittest import mock

from checker.scenario import Documents
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.kernel import compiled


def plan_with_plain_kernel(documents: Documents) -> dict[str, Any]:
    with mock.patch.object(compiled, "placement", return_value=compiled.plain):
        return plan_documents(documents)
