"""Encodes and decodes the annotation of a NodeClaim that stores its DisruptionCommand.

A started command is stored nowhere else, so after a restart the queue continues it or rolls it back from the annotation
alone. The NodeClaim of every candidate has the same text.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from holdfast import names
from holdfast.api.meta import Object, Wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.disruption.commands import Action, DisruptionCommand, Method
from holdfast.core.disruption.inputs import DisruptionReason

WITHOUT: Final[dict[str, str | None]] = {
    names.DISRUPTION_COMMAND: None,
    names.DISRUPTION_COMMAND_BEFORE_0_2: None,
}
"""The change of annotations that removes the command."""


class _Annotation(Wire, frozen=True, kw_only=True):
    id: str
    reason: DisruptionReason
    method: Method
    why: str
    at: int  # seconds since the epoch
    action: Action | None = None  # None: written by a release before 0.2
    replacements: tuple[str, ...] = ()
    drain_bound: int | None = None  # seconds


def of(claim: Object) -> DisruptionCommand | None:
    """The command that disrupts a NodeClaim. An annotation that cannot be decoded counts as absent."""
    text = _text(claim)
    try:
        read = msgspec.json.decode(text, type=_Annotation) if text else None
    except msgspec.MsgspecError:
        return None
    if read is None:
        return None
    return DisruptionCommand(
        method=read.method,
        reason=read.reason,
        action=read.action or (Action.REPLACE if read.replacements else Action.DELETE),
        candidates=(),
        why=read.why,
        drain_bound_s=read.drain_bound,
        id=read.id,
        started_s=read.at,
        replacement_names=read.replacements,
    )


def annotations(command: DisruptionCommand) -> dict[str, str | None]:
    """The change of annotations that stores a started command."""
    written = _Annotation(
        id=command.id,
        reason=command.reason,
        method=command.method,
        why=command.why,
        at=command.started_s,
        action=command.action,
        replacements=command.replacement_names,
        drain_bound=command.drain_bound_s,
    )
    return WITHOUT | {names.DISRUPTION_COMMAND: msgspec.json.encode(written).decode()}


def is_annotated(claim: Object) -> bool:
    """Whether a NodeClaim has the annotation, even if it cannot be decoded."""
    return _text(claim) is not None


def nodes_to_delete(claims: Iterable[NodeClaim], exists: Callable[[str], bool]) -> frozenset[str]:
    """The nodes of NodeClaims whose replacements all exist. Earlier, a plan would launch other nodes for their pods
    (D-45)."""
    found = ((claim.status.node_name, of(claim)) for claim in claims)
    return frozenset(
        node for node, command in found if node and command and all(map(exists, command.replacement_names))
    )


def _text(claim: Object) -> str | None:
    annotations = claim.metadata.annotations
    return annotations.get(names.DISRUPTION_COMMAND, annotations.get(names.DISRUPTION_COMMAND_BEFORE_0_2))
