"""Matches pods and nodes by labels and taints: node selectors, node affinity, tolerations."""

from collections.abc import Iterable, Mapping
from typing import Final

from holdfast.sim.cluster.kinds import Json, Node

REPELS: Final = ("NoSchedule", "NoExecute")


def selects(spec: Json, node: Node) -> bool:
    """Whether the node matches a pod's node selector and required node affinity."""
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any_term(required.get("nodeSelectorTerms") or (), labels, node.metadata.name)


def any_term(terms: Iterable[Json], labels: Mapping[str, str], name: str) -> bool:
    return any(term_matches(term, labels, name) for term in terms)


def term_matches(term: Json, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node selector term matches. An empty term matches nothing."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(e, labels) for e in expressions) and all(
        _holds(e, {"metadata.name": name}) for e in fields
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> bool:
    value: str | None = labels.get(expression["key"])
    values: list[str] = expression.get("values") or []
    match expression["operator"]:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and _whole(value) and len(values) == 1 and _whole(values[0]):
            less, more = (values[0], value) if expression["operator"] == "Gt" else (value, values[0])
            return int(less) < int(more)
    return False


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def taints(node: Node) -> list[Json]:
    return node.spec.get("taints") or []


def tolerates(tolerations: Iterable[Json], taint: Json) -> bool:
    return any(tolerates_one(toleration, taint) for toleration in tolerations)


def tolerates_one(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(spec: Json, node: Node, effects: tuple[str, ...] = REPELS) -> Json | None:
    """The first taint of the node that the pod does not tolerate."""
    tolerations = spec.get("tolerations") or ()
    return next((t for t in taints(node) if t["effect"] in effects and not tolerates(tolerations, t)), None)
