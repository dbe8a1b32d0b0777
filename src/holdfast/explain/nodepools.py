"""Explains one NodePool: whether it launches nodes, its limits, its nodes, and the reservations that it may use. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api import conditions
from holdfast.api.nodepool import NodePool
from holdfast.api.reports import Considered, Explanation, Fact, NodeRow, ReservationRow
from holdfast.explain import claims
from holdfast.model import wording
from holdfast.state.conversion import times

KIND: Final = "nodepool"
_RESERVATIONS_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInput:
    pool: NodePool
    now_s: int
    no_nodes: str | None = None  # why the planner launches no nodes of it
    unserved: str = ""  # why the last plan could not use it
    rows: Sequence[NodeRow] = ()  # of its nodes, with prices
    reservations: Sequence[ReservationRow] = ()  # that it may use


def explain(known: PoolInput) -> Explanation:
    pool = known.pool
    ready = conditions.find(pool.status.conditions, conditions.READY)
    problem = known.no_nodes or known.unserved
    counts = Counter(row.capacity_type or "launching" for row in known.rows)
    nodes = ", ".join(f"{count} {type_}" for type_, count in sorted(counts.items())) or "none"
    what = f"The NodePool launches nodes; it has {wording.count(len(known.rows), 'node')}."
    if problem:
        what = f"The NodePool launches no nodes: {problem}."
    why = [
        f"{one.type} is {one.status}: {one.message or one.reason or 'without a message'}"
        for one in pool.status.conditions
        if one.status == conditions.FALSE and one.type != conditions.READY
    ]
    return Explanation(
        at=known.now_s,
        kind=KIND,
        name=pool.metadata.name,
        what=what,
        since=times.epoch_s_or_none(
            ready.last_transition_time if ready is not None else pool.metadata.creation_timestamp
        ),
        why=tuple(why),
        considered=tuple(_reservation(row) for row in known.reservations[:_RESERVATIONS_MAX]),
        changes=("A condition that becomes True; each names its cause.",) if problem and why else (),
        facts=tuple(
            Fact(name=name, value=value)
            for name, value in (
                ("Node class", pool.spec.template.spec.node_class_ref.name),
                ("Nodes", nodes),
                ("Cost", f"${sum(row.usd_per_hour or 0 for row in known.rows):.4f} an hour, without slots"),
                ("Weight", str(pool.spec.weight or 0)),
                ("Limits", _amounts(pool.spec.limits)),
                ("In use", _amounts(pool.status.resources)),
            )
            if value
        ),
    )


def _reservation(row: ReservationRow) -> Considered:
    return Considered(subject=f"reservation {row.id}", text=f"{claims.counts(row)}; {row.window}")


def _amounts(amounts: "dict[str, str | int]") -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items()))
