"""The conditions of a ProvisioningRequest, from its state: their texts for one pod, for some and for none."""

import re
from typing import Any, Final

import pytest

from holdfast.core import provisioning_answers
from holdfast.core.provisioning_answers import BOOKING_S, RequestState
from holdfast.model.reasons import RESERVATION, Reason, ReasonCode

NOW_S: Final = 1_000_000
FULL: Final = Reason(ReasonCode.FULL, "has no free slot", ("cr-1",), RESERVATION)
WRONG: Final = re.compile(
    r"\b(?:0|1) of 1 |\b1 (?:pods|nodes|slots)\b|\b1 (?:of \d+ )?\w* ?(?:are|have|were)\b"
)


def text(pods: int, *, on: tuple[str, ...] = (), **fields: Any) -> str:
    """The message of the last condition. `on`: the ready nodes of its pods."""
    located = {str(number): node for number, node in enumerate(on)}
    state = RequestState(created_s=NOW_S, pods=pods, located=located, **fields)
    (*_, last) = provisioning_answers.answer(state, NOW_S)
    return last.message


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (text(1, on=("n",)), "1 pod has capacity on 1 node, for 10 minutes."),
        (text(2, on=("n", "n")), "2 pods have capacity on 1 node, for 10 minutes."),
        (text(1, starting=1), "The node of the pod is being launched."),
        (
            text(3, on=("n",), starting=2),
            "1 of 3 pods has capacity on a ready node; the other nodes are being launched.",
        ),
        (
            text(3, on=("n", "m"), starting=1),
            "2 of 3 pods have capacity on ready nodes; the other nodes are being launched.",
        ),
        (text(3, starting=3), "The nodes of 3 pods are being launched."),
        (
            text(1, starting=1, late=("n",)),
            "Node n is not ready 30 minutes after the launch.",
        ),
        (
            text(3, on=("k",), starting=2, late=("m", "n")),
            "Nodes m, n are not ready 30 minutes after the launch.",
        ),
        (text(1, bound=1, provisioned_s=NOW_S), "The pod of the request is scheduled."),
        (text(3, bound=3, provisioned_s=NOW_S), "All 3 pods of the request are scheduled."),
        (text(1, provisioned_s=NOW_S - BOOKING_S), "The pod was not scheduled within 10 minutes."),
        (text(3, provisioned_s=NOW_S - BOOKING_S), "None of 3 pods was scheduled within 10 minutes."),
        (text(3, bound=1, provisioned_s=NOW_S - BOOKING_S), "1 of 3 pods was scheduled within 10 minutes."),
        (text(3, bound=2, provisioned_s=NOW_S - BOOKING_S), "2 of 3 pods were scheduled within 10 minutes."),
    ],
)
def test_messages_are_correct_for_one_pod_and_for_several(found: str, expected: str) -> None:
    assert found == expected


@pytest.mark.parametrize("pods", range(1, 4))
@pytest.mark.parametrize("ready", range(3))
@pytest.mark.parametrize("bound", range(3))
@pytest.mark.parametrize("provisioned_s", [None, NOW_S, NOW_S - BOOKING_S])
@pytest.mark.parametrize("reasons", [(), (FULL,)])
def test_no_message_has_one_with_a_plural(
    pods: int, ready: int, bound: int, provisioned_s: int | None, reasons: tuple[Reason, ...]
) -> None:
    located = {str(number): f"node-{number % 2}" for number in range(min(ready, pods - min(bound, pods)))}
    state = RequestState(
        created_s=NOW_S,
        pods=pods,
        bound=min(bound, pods),
        located=located,
        starting=pods - min(bound, pods) - len(located),
        provisioned_s=provisioned_s,
        reasons=reasons,
    )
    for condition in provisioning_answers.answer(state, NOW_S):
        assert not WRONG.search(condition.message), condition.message
