"""A set of requirements, one for each label key, and comparisons of two sets.

A set is an immutable value: adding returns a new set, and results never depend on the order of additions. Each comparison
has two forms: a bool for the hot path, and conflicts, sorted by key, for messages.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from holdfast.model import requirement
from holdfast.model.requirement import NEGATIVE_OPERATORS, Expression, Operator, Requirement

_NOTHING_UNDEFINED: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why two sets are not compatible: the key on which they differ, and both requirements."""

    key: str
    existing: Requirement | None  # None: the label is not defined
    incoming: Requirement

    def __str__(self) -> str:
        if self.existing is None:
            return f"{self.incoming} is wanted, but label {self.key} is not defined"
        return f"{self.incoming} is wanted, but there is {self.existing}"


@dataclass(frozen=True, slots=True)
class MinValuesGap:
    """A requirement whose minValues cannot be met."""

    key: str
    wanted: int
    found: int


@dataclass(frozen=True, slots=True, eq=False)
class Requirements:
    """Build one with `of`, `from_labels` or `from_expressions`."""

    by_key: Mapping[str, Requirement]  # read-only
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
        """The requirement on a key; Exists if there is none (S-40)."""
        return self.by_key.get(key) or _any(key)

    def add(self, *added: Requirement) -> "Requirements":
        """A set with these requirements added; at a key that both have, the intersection (S-40)."""
        if not added:
            return self
        merged = dict(self.by_key)
        for new in added:
            old = merged.get(new.key)
            merged[new.key] = new if old is None else new.intersection(old)
        return Requirements(merged)

    def union(self, other: "Requirements") -> "Requirements":
        """All requirements of both sets."""
        return self.add(*other.by_key.values()) if self.by_key else other

    def without(self, keys: Collection[str]) -> "Requirements":
        """This set without some keys."""
        return Requirements({key: r for key, r in self.by_key.items() if key not in keys})

    def intersects(self, incoming: "Requirements") -> bool:
        """Whether the requirements on each key that both define are compatible (S-41)."""
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
        """Whether an object with these requirements can satisfy `incoming` (S-42).

        A key that is not defined here is a mismatch unless `incoming` only excludes values, or the key is in
        `allow_undefined`. Pass the well-known labels if this set belongs to a template or a NodeClaim; pass nothing if it
        is the labels of an existing node (S-43).
        """
        for key, wanted in incoming.by_key.items():
            if key not in self.by_key and key not in allow_undefined and not _tolerates_absence(wanted):
                return False
        return self.intersects(incoming)

    def conflicts(self, incoming: "Requirements") -> tuple[Conflict, ...]:
        """Why `intersects` is false; empty if it is true."""
        return tuple(
            Conflict(wanted.key, self.by_key[wanted.key], wanted)
            for wanted in incoming
            if wanted.key in self.by_key and not are_compatible(self.by_key[wanted.key], wanted)
        )

    def incompatibilities(
        self, incoming: "Requirements", allow_undefined: AbstractSet[str] = _NOTHING_UNDEFINED
    ) -> tuple[Conflict, ...]:
        """Why `compatible` is false: undefined labels first, then conflicts; empty if it is true."""
        undefined = tuple(
            Conflict(wanted.key, None, wanted)
            for wanted in incoming
            if wanted.key not in self and wanted.key not in allow_undefined and not _tolerates_absence(wanted)
        )
        return undefined + self.conflicts(incoming)

    def expressions(self) -> tuple[Expression, ...]:
        """The form for manifests, sorted by key (S-34)."""
        return tuple(expression for r in self for expression in r.expressions())

    def min_values_gaps(self, values_by_key: Mapping[str, Collection[str]]) -> tuple[MinValuesGap, ...]:
        """Which minValues these values do not meet. Values that the requirement does not allow do not count."""
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
    """The requirements of a node with these labels, or of a node selector."""
    if value_aliases is None:
        return of(*[_label(key, value) for key, value in labels.items()])
    return of(*(requirement.of(k, Operator.IN, (v,), None, value_aliases) for k, v in labels.items()))


def from_expressions(
    expressions: Iterable[Expression], value_aliases: requirement.ValueAliases | None = None
) -> Requirements:
    """A set of all of these."""
    return of(
        *(requirement.of(e.key, e.operator, e.values, e.min_values, value_aliases) for e in expressions)
    )


@functools.lru_cache(maxsize=8192)
def _label(key: str, value: str) -> Requirement:
    return requirement.of(key, Operator.IN, (value,))


@functools.lru_cache(maxsize=1024)
def _any(key: str) -> Requirement:
    return requirement.of(key, Operator.EXISTS)


def are_compatible(a: Requirement, b: Requirement) -> bool:
    """Whether two requirements on a key are compatible. Two that only exclude values always are: a node without the label
    satisfies both."""
    return a.intersects(b) or (_tolerates_absence(a) and _tolerates_absence(b))


def _tolerates_absence(r: Requirement) -> bool:
    return r.operator in NEGATIVE_OPERATORS
