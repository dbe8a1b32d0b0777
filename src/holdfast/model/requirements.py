"""A set of requirements, one per label key, and the questions that are asked of two of them.

Called wherever pods, NodePools, instance types, offerings and nodes are compared. The rule: a set is a
value. Adding gives a new set, equal sets hash alike, and answers never depend on the order in which
requirements were added. Each question comes in two forms: a bool for the hot path, and the reasons, sorted
by key, for people.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from holdfast.model import requirement
from holdfast.model.requirement import NEGATIVE_OPERATORS, Expression, Operator, Requirement

_NOTHING_UNDEFINED: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why two sets do not go together: at this key one side has one thing and the other wants another."""

    key: str
    existing: Requirement | None  # None: the label is not defined at all on that side
    incoming: Requirement

    def __str__(self) -> str:
        if self.existing is None:
            return f"{self.incoming} is wanted, but label {self.key} is not defined"
        return f"{self.incoming} is wanted, but there is {self.existing}"


@dataclass(frozen=True, slots=True)
class MinValuesGap:
    """A requirement whose minValues cannot be met: fewer different values are left than it asks for."""

    key: str
    wanted: int
    found: int


@dataclass(frozen=True, slots=True, eq=False)
class Requirements:
    """Build one with `of`, `from_labels` or `from_expressions`."""

    by_key: Mapping[str, Requirement]  # to read; nobody writes to it
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(frozenset(self.by_key.values())))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Requirements):
            return NotImplemented
        return self._hash == other._hash and self.by_key == other.by_key

    def __len__(self) -> int:
        return len(self.by_key)

    def __iter__(self) -> Iterator[Requirement]:
        """In the order of the keys."""
        return iter([self.by_key[key] for key in sorted(self.by_key)])

    def __contains__(self, key: object) -> bool:
        return key in self.by_key

    def __str__(self) -> str:
        return ", ".join(str(r) for r in self)

    def get(self, key: str) -> Requirement:
        """The requirement at a key; where there is none, any value will do (S-40)."""
        return self.by_key.get(key) or requirement.of(key, Operator.EXISTS)

    def add(self, *added: Requirement) -> "Requirements":
        """These and ours: at a key that both have, the intersection (S-40)."""
        if not added:
            return self
        merged = dict(self.by_key)
        for new in added:
            old = merged.get(new.key)
            merged[new.key] = new if old is None else new.intersection(old)
        return Requirements(merged)

    def union(self, other: "Requirements") -> "Requirements":
        """All that both sets require."""
        return self.add(*other.by_key.values()) if self.by_key else other

    def without(self, keys: Collection[str]) -> "Requirements":
        """This set with some keys forgotten."""
        return Requirements({key: r for key, r in self.by_key.items() if key not in keys})

    def intersects(self, incoming: "Requirements") -> bool:
        """Whether at each key that both define some value suits both (S-41)."""
        few, many = self.by_key, incoming.by_key
        if len(few) > len(many):
            few, many = many, few
        for key, one in few.items():
            other = many.get(key)
            if other is not None and not are_compatible(one, other):
                return False
        return True

    def compatible(
        self, incoming: "Requirements", allow_undefined: AbstractSet[str] = _NOTHING_UNDEFINED
    ) -> bool:
        """Whether something like us can satisfy `incoming` (S-42).

        A key that we do not define is a mismatch unless `incoming` merely excludes values there, or the key
        is in `allow_undefined`: the well-known labels when we are a template, a claim or what an offering is
        compared with; nothing when we are the labels of a real node (S-43).
        """
        for key, wanted in incoming.by_key.items():
            if key not in self.by_key and key not in allow_undefined and not _tolerates_absence(wanted):
                return False
        return self.intersects(incoming)

    def conflicts(self, incoming: "Requirements") -> tuple[Conflict, ...]:
        """Why `intersects` says no; empty when it says yes."""
        return tuple(
            Conflict(wanted.key, self.by_key[wanted.key], wanted)
            for wanted in incoming
            if wanted.key in self.by_key and not are_compatible(self.by_key[wanted.key], wanted)
        )

    def incompatibilities(
        self, incoming: "Requirements", allow_undefined: AbstractSet[str] = _NOTHING_UNDEFINED
    ) -> tuple[Conflict, ...]:
        """Why `compatible` says no: undefined labels first, then conflicts; empty when it says yes."""
        undefined = tuple(
            Conflict(wanted.key, None, wanted)
            for wanted in incoming
            if wanted.key not in self and wanted.key not in allow_undefined and not _tolerates_absence(wanted)
        )
        return undefined + self.conflicts(incoming)

    def expressions(self) -> tuple[Expression, ...]:
        """The output form (S-34), in the order of the keys."""
        return tuple(expression for r in self for expression in r.expressions())

    def min_values_gaps(self, values_by_key: Mapping[str, Collection[str]]) -> tuple[MinValuesGap, ...]:
        """Which minValues these values miss. Values that the requirement does not allow do not count."""
        gaps = []
        for r in self:
            if r.min_values is not None:
                found = sum(r.has(value) for value in set(values_by_key.get(r.key, ())))
                if found < r.min_values:
                    gaps.append(MinValuesGap(r.key, r.min_values, found))
        return tuple(gaps)


NO_REQUIREMENTS: Final = Requirements({})


def of(*requirements: Requirement) -> Requirements:
    return NO_REQUIREMENTS.add(*requirements)


def from_labels(
    labels: Mapping[str, str], value_aliases: requirement.ValueAliases | None = None
) -> Requirements:
    """What a node with these labels is, or what a node selector asks for: each label has that value."""
    return of(*(requirement.of(k, Operator.IN, (v,), None, value_aliases) for k, v in labels.items()))


def from_expressions(
    expressions: Iterable[Expression], value_aliases: requirement.ValueAliases | None = None
) -> Requirements:
    """All of these together."""
    return of(
        *(requirement.of(e.key, e.operator, e.values, e.min_values, value_aliases) for e in expressions)
    )


def are_compatible(a: Requirement, b: Requirement) -> bool:
    """Two that only exclude are satisfied together by a node without the label, whatever the sets say."""
    return a.intersects(b) or (_tolerates_absence(a) and _tolerates_absence(b))


def _tolerates_absence(r: Requirement) -> bool:
    return r.operator in NEGATIVE_OPERATORS
