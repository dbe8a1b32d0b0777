"""Which capacity reservations an EC2NodeClass selects: those in its status or, before it is resolved, those that match
its terms.

`reservation_status` matches the terms and writes the status. The catalog, the capacity type of instances and drift use
the status. `holdfast plan` has classes without a status and uses the terms (Q-1). Terms are ORed; the fields of a term
are ANDed. An id is never combined with other fields.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import CapacityReservationSelectorTerm

_PARTS: Final = re.compile(r"\\.|.", re.DOTALL)
_WILD: Final = {"*": ".*", "?": "."}
_EXPIRING: Final = "expiring"


@dataclass(frozen=True, slots=True)
class Traits:
    """The fields of a reservation that terms are compared with."""

    id: str
    owner: str
    match_criteria: str
    tags: Mapping[str, str]


def selected(node_class: EC2NodeClass | None, known: Iterable[Traits]) -> frozenset[str]:
    """The ids of the selected reservations: those in the status or, if it lists none, those that match the terms.
    Without a class or terms there are none. It includes reservations that start later."""
    if node_class is None:
        return frozenset()
    terms = node_class.spec.capacity_reservation_selector_terms
    return listed(node_class) or frozenset(one.id for one in known if matches_any(terms, one))


def listed(node_class: EC2NodeClass) -> frozenset[str]:
    """The reservations that the class's status lists, upcoming ones included."""
    return upcoming(node_class) | {found.id for found in node_class.status.capacity_reservations}


def active(node_class: EC2NodeClass) -> frozenset[str]:
    """The reservations that nodes of the class may be in now. A class in direct mode, or without terms, has none."""
    if not node_class.spec.capacity_reservation_selector_terms:
        return frozenset()
    return frozenset(found.id for found in node_class.status.capacity_reservations)


def upcoming(node_class: EC2NodeClass | None) -> frozenset[str]:
    """The listed reservations that start later."""
    announced = node_class.status.upcoming_capacity_reservations if node_class is not None else ()
    return frozenset(found.id for found in announced)


def expiring(node_class: EC2NodeClass | None) -> frozenset[str]:
    """The listed reservations that EC2 is reclaiming: nothing is launched into them."""
    resolved = node_class.status.capacity_reservations if node_class is not None else ()
    return frozenset(found.id for found in resolved if found.state == _EXPIRING)


def matches_any(terms: Sequence[CapacityReservationSelectorTerm], traits: Traits) -> bool:
    return any(matches(term, traits) for term in terms)


def matches(term: CapacityReservationSelectorTerm, traits: Traits) -> bool:
    """An empty term selects nothing."""
    if term.id is not None:
        return term.id == traits.id
    if not (term.owner_id or term.tags or term.instance_match_criteria):
        return False
    return (
        term.owner_id in (None, traits.owner)
        and term.instance_match_criteria in (None, traits.match_criteria)
        and tags_match(term.tags, traits.tags)
    )


def tags_match(wanted: Mapping[str, str], tags: Mapping[str, str]) -> bool:
    """Whether every tag is present and its value matches; `*` matches any text."""
    return all(key in tags and wildcard(value, tags[key]) for key, value in wanted.items())


def wildcard(pattern: str, text: str) -> bool:
    """Matches like a filter of EC2: `*` is any text, `?` any character, and a backslash escapes both."""
    if not any(special in pattern for special in "*?\\"):
        return pattern == text
    return _compiled(pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = _PARTS.findall(pattern)  # characters, each with the backslash before it
    return re.compile("".join(_WILD.get(part) or re.escape(part[-1]) for part in parts), re.DOTALL)
