"""Converts node selectors and node affinity of pods and volumes to requirements.

A term that cannot be parsed raises `InvalidInput` with a message; the caller converts it to a reason.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast import errors
from holdfast.api import metadata
from holdfast.api.pods import NodeSelectorRequirement
from holdfast.model import requirements
from holdfast.model.requirement import Expression, Operator
from holdfast.model.requirements import Requirements
from holdfast.state.conversion import nodepools

# Gte and Lte are for NodePools; Kubernetes has no such operators on pods.
_OPERATORS: Final = {o.value: o for o in Operator if o not in (Operator.GTE, Operator.LTE)}


@dataclass(frozen=True, slots=True)
class LabelRules:
    """Well-known labels and label aliases of the cloud."""

    well_known: frozenset[str]
    key_aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings, e.g. of storage drivers


def expression(wire: NodeSelectorRequirement, rules: LabelRules) -> Expression:
    operator = _OPERATORS.get(wire.operator)
    if operator is None:
        raise errors.InvalidInput(
            f"operator {wire.operator!r} on {wire.key} is unknown; known are {', '.join(_OPERATORS)}"
        )
    return Expression(rules.key_aliases.get(wire.key, wire.key), operator, wire.values)


def all_of(wires: Iterable[NodeSelectorRequirement], rules: LabelRules) -> Requirements:
    """The requirements of all these terms."""
    return requirements.from_expressions([expression(wire, rules) for wire in wires])


def all_labels(labels: Mapping[str, str], rules: LabelRules) -> Requirements:
    """The requirements of a node selector."""
    return requirements.from_labels({rules.key_aliases.get(k, k): v for k, v in labels.items()})


def problems(wanted: Expression, rules: LabelRules) -> Iterator[str]:
    """Why no node that we launch can match this expression (S-7)."""
    shown = wanted.values if wanted.operator in (Operator.IN, Operator.NOT_IN) else ()
    syntax = [f.message for value in (*shown, "") for f in metadata.labels({wanted.key: value}, ())]
    if syntax:
        yield f"{wanted.key}: {syntax[0]}"
        return
    for finding in nodepools.expression_problems(wanted, (), rules.well_known):
        yield finding.message if wanted.key in finding.message else f"{wanted.key}: {finding.message}"
