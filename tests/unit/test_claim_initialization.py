"""Why a NodeClaim is not initialized yet, and the order in which the reasons are reported."""

from typing import Any

import pytest

from holdfast.api.nodes import Node
from holdfast.controllers.nodeclaim import initialization
from objects import node, nodeclaim

STARTUP = {"key": "example.com/agent", "effect": "NoSchedule"}
EPHEMERAL = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
READY = [{"type": "Ready", "status": "True"}]
CLAIM = nodeclaim(startupTaints=[STARTUP], resources={"requests": {"cpu": "1", "example.com/gpu": "1"}})


def reason(found: Node | None) -> str | None:
    why = initialization.why_not(found, CLAIM)
    return why[0] if why is not None else None


def node_with(*, ready: bool = True, taints: tuple[dict[str, Any], ...] = (), gpus: str = "1") -> Node:
    allocatable = {"cpu": "4", "example.com/gpu": gpus}
    return node(
        spec={"taints": list(taints)},
        status={"allocatable": allocatable, "conditions": READY if ready else []},
    )


@pytest.mark.fact("NC-16")
def test_initialization_reports_one_reason_at_a_time_in_order() -> None:
    found = [
        None,
        node_with(ready=False, taints=(STARTUP, EPHEMERAL), gpus="0"),
        node_with(taints=(STARTUP, EPHEMERAL), gpus="0"),
        node_with(taints=(EPHEMERAL,), gpus="0"),
        node_with(gpus="0"),
        node_with(),
    ]
    assert [reason(one) for one in found] == [
        "NodeNotFound",
        "NodeNotReady",
        "StartupTaintsExist",
        "KnownEphemeralTaintsExist",
        "ResourceNotRegistered",
        None,
    ]
