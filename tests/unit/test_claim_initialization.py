"""What a node still lacks before it is ready for the pods it was made for, in the order in which that is said."""

from typing import Any

import pytest

from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim import initialization
from objects import NOW_S, node, nodeclaim

STARTUP = {"key": "example.com/agent", "effect": "NoSchedule"}
PASSING = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
READY = [{"type": "Ready", "status": "True"}]
CLAIM = nodeclaim(startupTaints=[STARTUP], resources={"requests": {"cpu": "1", "example.com/gpu": "1"}})


def reason(found: Node | None) -> str | None:
    why = initialization.why_not(found, Draft(CLAIM, NOW_S))
    return why[0] if why is not None else None


def like(*, ready: bool = True, taints: tuple[dict[str, Any], ...] = (), gpus: str = "1") -> Node:
    has = {"cpu": "4", "example.com/gpu": gpus}
    return node(
        spec={"taints": list(taints)}, status={"allocatable": has, "conditions": READY if ready else []}
    )


@pytest.mark.fact("NC-16")
def test_what_a_node_lacks_is_said_one_thing_at_a_time_in_the_order_in_which_it_arrives() -> None:
    found = [
        None,
        like(ready=False, taints=(STARTUP, PASSING), gpus="0"),
        like(taints=(STARTUP, PASSING), gpus="0"),
        like(taints=(PASSING,), gpus="0"),
        like(gpus="0"),
        like(),
    ]
    assert [reason(one) for one in found] == [
        "NodeNotFound",
        "NodeNotReady",
        "StartupTaintsExist",
        "KnownEphemeralTaintsExist",
        "ResourceNotRegistered",
        None,
    ]
