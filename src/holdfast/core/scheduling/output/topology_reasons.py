"""Names the topology constraints that exclude a pod from the nodes that could be launched, with the counts after a run.

Called by `reasons` and `suitability`. A constraint is named if it alone excludes every remaining offering. If only several
together do, all constraints that exclude some are named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.constraints import Row
from holdfast.core.scheduling.input.groups import HOST, Group, Sort
from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.core.scheduling.output.checks import Checks
from holdfast.core.scheduling.search.run import Outcome
from holdfast.model.requirements import Requirements

SPREAD: Final = "topology spread"
AFFINITY: Final = "pod affinity"
ANTI_AFFINITY: Final = "pod anti-affinity"
OTHERS_ANTI_AFFINITY: Final = "pod anti-affinity of other pods"

Domains = Mapping[str, str]
"""By topology key, the domain in which the pod itself is already counted."""


@dataclass(frozen=True)
class Constraint:
    text: str
    key: int  # of the domain axis, or HOST
    allowed: Mask  # [domain of the key]; for HOST: [0], whether a new node is allowed
    needs_label: bool  # whether a node without the label is excluded; only anti-affinity accepts one


class Topology:
    """The topology constraints of classes after a run."""

    def __init__(self, checks: Checks, outcome: Outcome) -> None:
        p = checks.problem
        self._checks = checks
        self._counts = outcome.domain_count
        self._hosts = outcome.host_total
        self._eligible = p.constraints.eligible()
        self._groups = p.constraints.groups
        steps = [len(ladder.rungs) for ladder in p.ladders]
        self._first = (np.cumsum(steps) - steps).tolist() if steps else []

    def constraints(self, c: int, inside: Domains, *, preferred: bool = False) -> list[Constraint]:
        """The constraints of a class: only what is required, or with preferences. `inside` is not empty for a placed pod,
        which the counts include."""
        p, rungs = self._checks.problem, self._checks.rungs(c)
        rung = 0 if preferred else len(rungs) - 1
        of, wanted = p.constraints, rungs[rung]
        row = self._first[p.ladder_of[c]] + rung
        found = []
        for spread, values in zip(wanted.spreads, of.spread[row], strict=True):
            text = f"{SPREAD}, key={spread.key}, maxSkew={spread.max_skew}"
            found.append(Constraint(text, values[5], self._spread(values, inside), needs_label=True))
        for term, values in zip(wanted.affinity, of.affinity[row], strict=True):
            text = f"{AFFINITY}, key={term.key}"
            found.append(Constraint(text, values[3], self._affinity(values, inside), needs_label=True))
        for i, values in enumerate(of.anti_affinity[row]):
            text = ANTI_AFFINITY if i < len(wanted.anti_affinity) else OTHERS_ANTI_AFFINITY
            group = self._group(values[0], values[1])
            allowed = self._anti_affinity(values, group, c, inside)
            found.append(Constraint(f"{text}, key={group.key}", values[1], allowed, needs_label=False))
        return found

    def excluding(
        self, found: Sequence[Constraint], rows: Rows, wanted: Requirements, left: Mask
    ) -> list[str]:
        """The constraints that exclude all remaining offerings; empty if they allow one."""
        masks = [self._passing([one], rows, wanted) for one in found]
        together = left.copy()
        for key in {one.key for one in found}:
            together &= self._passing([one for one in found if one.key == key], rows, wanted)
        if together.any() or not left.any():
            return []
        alone = [one for one, mask in zip(found, masks, strict=True) if not (left & mask).any()]
        some = [one for one, mask in zip(found, masks, strict=True) if (left & ~mask).any()]
        return list(dict.fromkeys(one.text for one in alone or some or found))

    def _passing(self, of_key: Sequence[Constraint], rows: Rows, wanted: Requirements) -> Mask:
        """[offering] whether all of these constraints, on one key, allow a node of the offering in the same domain."""
        key, axis = of_key[0].key, self._checks.problem.domains
        allowed: Mask = np.logical_and.reduce([one.allowed for one in of_key])
        if key == HOST:
            return np.full(len(rows), bool(allowed[0]))
        name = axis.keys[key]
        required, table = wanted.by_key.get(name), rows.in_domain(name, axis.domains[key])
        if table is None:
            table = np.full((len(axis.domains[key]), len(rows)), required is not None)
        if required is not None:
            table = table & np.array([required.has(d) for d in axis.domains[key]], dtype=bool)[:, None]
        passing: Mask = np.asarray((table & allowed[:, None]).any(axis=0))
        if not any(one.needs_label for one in of_key):
            passing |= ~np.asarray(table.any(axis=0))
        return passing

    def _counted(self, group: int, key: int, inside: Domains, *, itself: bool) -> Ints:
        """[domain of a key] how many pods of a group it has, without the pod itself; for HOST: [0], on all nodes."""
        if key == HOST:
            return self._hosts[group : group + 1] - int(itself and bool(inside))
        axis = self._checks.problem.domains
        counts = self._counts[group, axis.first[key] : axis.first[key + 1]].copy()
        where = axis.index.get((axis.keys[key], inside.get(axis.keys[key], "")))
        if itself and where is not None:
            counts[where - axis.first[key]] -= 1
        return counts

    def _among(self, set_: int, key: int) -> Mask:
        axis = self._checks.problem.domains
        among: Mask = self._eligible[set_, axis.first[key] : axis.first[key + 1]] > 0
        return among

    def _spread(self, values: Row, inside: Domains) -> Mask:
        group, skew, itself, least_domains, set_, key = values
        if key == HOST:
            return np.array([itself <= skew])
        counts, among = self._counted(group, key, inside, itself=bool(itself)), self._among(set_, key)
        least = int(counts[among].min()) if among.any() and among.sum() >= least_domains else 0
        allowed: Mask = counts + itself - least <= skew
        return allowed

    def _affinity(self, values: Row, inside: Domains) -> Mask:
        group, itself, set_, key = values
        counts = self._counted(group, key, inside, itself=bool(itself))
        if key == HOST:
            return np.array([bool(itself) and counts[0] <= 0])
        among = self._among(set_, key)
        begins = among & (bool(itself) and not (counts > 0).any())
        allowed: Mask = (counts > 0) | begins
        return allowed

    def _anti_affinity(self, values: Row, group: Group, c: int, inside: Domains) -> Mask:
        index, key = values
        if key == HOST:
            return np.array([True])
        shape = self._checks.problem.classes[c].shape
        itself = group.selects(shape.namespace, dict(shape.labels))
        if group.sort is Sort.OWNER:
            owned = {(term.key, term.selector, term.namespaces) for term in shape.anti_affinity}
            itself = (group.key, group.selector, group.namespaces) in owned
        allowed: Mask = self._counted(index, key, inside, itself=itself) <= 0
        return allowed

    def _group(self, index: int, key: int) -> Group:
        return (self._groups.hosts if key == HOST else self._groups.domains)[index]
