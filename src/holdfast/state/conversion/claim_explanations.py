"""Writes and reads the annotation that explains a NodeClaim.

Its size is bounded: it names some pods and some reservations, and counts the others.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast import names
from holdfast.api.claim_explanation import ClaimExplanation, ConsideredReservations
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.core.scheduling.output import remedies
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.model import prices, reasons
from holdfast.model.reasons import Reason

_PODS_MAX: Final = 10
_CAUSES_MAX: Final = 12
_IDS_MAX: Final = 6
_TEXT_MAX: Final = 300
_ALWAYS: Final = "Consolidation, drift or expiration, as the disruption settings of its NodePool allow."
_BLOCK_END: Final = "The end of its reservation, if it has one: the node is drained before it."
_MOVES: Final = "Consolidation then moves its pods, as the disruption settings of its NodePool allow."


def annotation(planned: PlannedClaim, pods: Iterable[Pod], *, cause: str, now_s: int) -> dict[str, str]:
    """`pods` are those of the claim that still exist."""
    found = sorted(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)
    price = planned.price_nano_usd_per_hour
    written = ClaimExplanation(
        at=now_s,
        cause=cause[:_TEXT_MAX],
        pods=tuple(found[:_PODS_MAX]),
        pod_count=len(planned.pods),
        instance_type=planned.instance_type,
        zone=planned.zone,
        capacity_type=planned.capacity_type,
        usd_per_hour=None if price is None else prices.text(price),
        reservation=planned.reservation_id,
        not_reserved=tuple(map(_considered, planned.not_reserved[:_CAUSES_MAX])),
        more_causes=max(0, len(planned.not_reserved) - _CAUSES_MAX),
        changes=_changes(planned),
    )
    return {names.EXPLANATION: msgspec.json.encode(written).decode()}


def of(claim: NodeClaim) -> ClaimExplanation | None:
    """None: the NodeClaim has none, as those of Karpenter and earlier releases, or it cannot be decoded."""
    text = claim.metadata.annotations.get(names.EXPLANATION)
    try:
        return msgspec.json.decode(text, type=ClaimExplanation) if text else None
    except msgspec.MsgspecError:
        return None


def sentences(explanation: ClaimExplanation) -> list[str]:
    """Why the NodeClaim uses none of the reservations, one sentence for each cause."""
    return [reasons.sentence(one.text, one.ids, one.kind, one.more) for one in explanation.not_reserved]


def _considered(reason: Reason) -> ConsideredReservations:
    ids = reason.subjects[:_IDS_MAX]
    return ConsideredReservations(
        code=str(reason.code),
        text=reason.text[:_TEXT_MAX],
        kind=reason.kind,
        ids=ids,
        more=len(reason.subjects) - len(ids),
    )


def _changes(planned: PlannedClaim) -> tuple[str, ...]:
    if planned.reservation_id is not None:
        return (_ALWAYS, _BLOCK_END)
    found = remedies.sentences(planned.not_reserved)
    return (*found, _MOVES) if found else (_ALWAYS,)
