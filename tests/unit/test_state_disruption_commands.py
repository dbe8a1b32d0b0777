"""The annotation of a NodeClaim that holds its DisruptionCommand."""

from collections.abc import Mapping

import pytest

import objects
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.disruption.commands import Action, DisruptionCommand, Method
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.state.conversion import disruption_commands

COMMAND = DisruptionCommand(
    Method.REPAIR,
    DisruptionReason.UNHEALTHY,
    Action.TERMINATE_FIRST,
    (),
    "KernelReady is False",
    drain_bound_s=60,
    id="1f",
    started_s=1_000_000,
    replacement_names=("default-a", "default-b"),
)
BEFORE_0_2 = '{"id":"1f","reason":"Drifted","method":"drift","why":"AMI","at":7,"replacements":["default-a"]}'


def claim(annotations: Mapping[str, str | None]) -> NodeClaim:
    written = {key: value for key, value in annotations.items() if value is not None}
    return objects.nodeclaim("c", {"annotations": written}, {"nodeName": "n"})


def test_command_is_read_as_it_was_written() -> None:
    written = claim(disruption_commands.annotations(COMMAND))
    assert disruption_commands.of(written) == COMMAND
    assert disruption_commands.is_annotated(written)


def test_annotation_of_earlier_releases_is_read_and_replaced() -> None:
    old = {names.DISRUPTION_COMMAND_BEFORE_0_2: BEFORE_0_2}
    found = disruption_commands.of(claim(old))
    assert found is not None
    assert (found.reason, found.started_s, found.action) == (DisruptionReason.DRIFTED, 7, Action.REPLACE)
    assert found.replacement_names == ("default-a",)
    assert disruption_commands.of(claim(old | disruption_commands.annotations(COMMAND))) == COMMAND
    assert not disruption_commands.is_annotated(claim(old | disruption_commands.WITHOUT))


@pytest.mark.parametrize("text", ["", "{}", "[1]", BEFORE_0_2.replace("Drifted", "Bored"), "\x00"])
def test_annotation_that_cannot_be_decoded_is_no_command(text: str) -> None:
    assert disruption_commands.of(claim({names.DISRUPTION_COMMAND: text})) is None


def test_node_is_deleted_once_all_replacements_exist() -> None:
    claims = [claim(disruption_commands.annotations(COMMAND))]
    assert disruption_commands.nodes_to_delete(claims, lambda name: name == "default-a") == frozenset()
    assert disruption_commands.nodes_to_delete(claims, lambda _: True) == {"n"}
    assert disruption_commands.nodes_to_delete([claim({})], lambda _: True) == frozenset()
