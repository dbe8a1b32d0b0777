"""What would change a reason, as a sentence for a user.

Pure. Called where a decision is explained: the annotation of a NodeClaim, `holdfast explain`, the JSON API.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.model import wording
from holdfast.model.reasons import NODE_POOL, Reason, ReasonCode

_MAX: Final = 5
_POOL_SELECTS_NOTHING: Final = "A reservation that the node class of {} selects."
# `{}` is what the reason is about: reservations or a NodePool.
_TEXTS: Final[Mapping[ReasonCode, str]] = {
    ReasonCode.NO_NODE_POOL: "A NodePool that is Ready.",
    ReasonCode.INVALID: "A corrected pod; pods cannot be changed, so correct its owner.",
    ReasonCode.TAINT: "A toleration of the pod, or {} without the taint.",
    ReasonCode.REQUIREMENTS: "A pod or {} with other requirements.",
    ReasonCode.RESOURCES: "Smaller requests of the pod, or {} with larger instance types.",
    ReasonCode.NO_SUCH_RESOURCE: "An instance type that has the resource, in {}.",
    ReasonCode.OFFERINGS: "An offering that becomes available; Holdfast tries again by itself.",
    ReasonCode.TOPOLOGY: "Other topology constraints of the pod, or nodes in other domains.",
    ReasonCode.HOST_PORTS: "Another host port of the pod or of the DaemonSet.",
    ReasonCode.VOLUMES: "Volumes that can be attached to the instance types and in the zones of {}.",
    ReasonCode.LIMITS: "Higher limits, or fewer nodes, of {}.",
    ReasonCode.MIN_VALUES: "More instance types that are compatible, or lower minValues of {}.",
    ReasonCode.WAITS_FOR_SLOT: "A slot of {} that becomes free.",
    ReasonCode.NOT_BOUND: "The cause for which kube-scheduler does not bind the pod; its events name it.",
    ReasonCode.EXCLUDES_NODE_POOLS: "A pod that does not exclude nodes of NodePools.",
    ReasonCode.GANG_INCOMPLETE: "The missing pods of {}, which its owner creates.",
    ReasonCode.GANG_DOES_NOT_FIT: "Capacity for all pods of {}; Holdfast tries again by itself.",
    ReasonCode.BEHIND_GANG: "Nodes for {}; Holdfast then plans the pod again by itself.",
    ReasonCode.HOLDS_SLOTS: "The end of pods that use slots which {} needs.",
    ReasonCode.USES_REQUEST: "Capacity for {}; Holdfast tries again by itself.",
    ReasonCode.EXCLUDES_RESERVED: "A pod that allows the capacity type reserved.",
    ReasonCode.NO_RESERVATION_SELECTED: "A term of capacityReservationSelectorTerms that selects {}.",
    ReasonCode.WRONG_INSTANCE_TYPE: "A pod that allows the instance type of {}.",
    ReasonCode.WRONG_ZONE: "A pod that allows the zone of {}.",
    ReasonCode.WRONG_PLATFORM: "A pod that allows the operating system and architecture of {}.",
    ReasonCode.WRONG_RESERVATION: "A pod with other requirements, or other labels of {}.",
    ReasonCode.TOO_SMALL: "Smaller requests of the pod, or a reservation of a larger instance type.",
    ReasonCode.FULL: "A slot of {} that becomes free.",
    ReasonCode.HELD: "A slot of {} that becomes free.",
    ReasonCode.NOT_STARTED: "The start of {}.",
    ReasonCode.DRAINING: "A reservation that does not end soon.",
    ReasonCode.ENDS_TOO_SOON: "A later end of {}, or a shorter run time of the pod.",
    ReasonCode.UNHEALTHY: "{} in state active that accepts launches.",
    ReasonCode.POOL_EXCLUDES_RESERVED: "A NodePool whose requirements allow {}.",
    ReasonCode.EXISTING_NODE: "Nothing has to change: the node exists already.",
    ReasonCode.SHARED_NODE: "Nothing has to change: the node is launched for other pods anyway.",
    ReasonCode.HEAVIER_POOL: "The setting reservedBeforeWeight, or other weights of the NodePools.",
    ReasonCode.PREFERENCE: "A pod without the preference, or the setting preferencePolicy Ignore.",
    ReasonCode.NOT_COMPARED: "Nothing has to change: free slots are used first, whether they are explained or not.",
    ReasonCode.PACKING: "Nothing has to change: this packing costs less.",
}


def sentences(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """One sentence for each cause, without repetitions, at most five."""
    found = (_sentence(reason) for reason in reasons if isinstance(reason.code, ReasonCode))
    return tuple(dict.fromkeys(found))[:_MAX]


def _sentence(reason: Reason) -> str:
    assert isinstance(reason.code, ReasonCode)
    is_of_pool = reason.code is ReasonCode.NO_RESERVATION_SELECTED and reason.kind == NODE_POOL
    template = _POOL_SELECTS_NOTHING if is_of_pool else _TEXTS[reason.code]
    text = template.replace("{}", _about(reason))
    return text[0].upper() + text[1:]


def _about(reason: Reason) -> str:
    if not reason.subjects:
        return "a NodePool"
    if reason.kind == NODE_POOL:
        return f"NodePool {wording.listed(reason.subjects)}"
    names = wording.listed(reason.subjects, shown=3)
    return f"{wording.plural(reason.kind, len(reason.subjects))} {names}" if reason.kind else names
