"""A gang: pods that start together. The planner places enough of its members, or none of them.

`state` builds gangs from the objects of the API server; the planner and disruption do not depend on their source.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from holdfast import errors

POD_GROUP: Final = "PodGroup"
PROVISIONING_REQUEST: Final = "ProvisioningRequest"
JOB_SET: Final = "JobSet"
LEADER_WORKER_SET: Final = "LeaderWorkerSet"
LABELLED: Final = (JOB_SET, LEADER_WORKER_SET)  # sources whose pods are known by their labels
_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Gang:
    key: str  # unique in the cluster
    name: str  # of its object, with the namespace
    source: str  # the kind of its object
    least: int | None  # how many members must have a node; None: unknown, because the object does not exist
    bound: frozenset[str] = frozenset()  # uids of members with a node
    unbound: frozenset[str] = frozenset()  # uids of the other members
    priority: int = 0
    since_s: int = 0
    together: str | None = None  # the node label of which all members need the same value
    booked: bool = False  # its members keep their capacity until pods replace them
    grows_until_s: int | None = None  # until then `least` includes members that do not exist yet

    @property
    def rank(self) -> tuple[int, int, str]:
        """Sorts the gang that is placed first to the front: the highest priority, then the oldest."""
        return -self.priority, self.since_s, self.key

    @property
    def is_waiting(self) -> bool:
        """Whether fewer members have a node than the gang needs."""
        return self.least is None or len(self.bound) < self.least

    def with_nominated(self, pods: AbstractSet[str]) -> "Gang":
        """The gang if these pods were bound."""
        nominated = self.unbound & pods
        return (
            replace(self, bound=self.bound | nominated, unbound=self.unbound - nominated)
            if nominated
            else self
        )


def sources(written: str) -> frozenset[str]:
    """Parses `JobSet,LeaderWorkerSet` or `none`."""
    found = [] if written == _NONE else [one.strip() for one in written.split(",")]
    if not frozenset(LABELLED).issuperset(found):
        raise errors.InvalidInput(f"is not {_NONE}, or a list of {' and '.join(LABELLED)}")
    return frozenset(found)


def sources_text(found: AbstractSet[str]) -> str:
    """The sources as `sources` parses them."""
    return ",".join(one for one in LABELLED if one in found) or _NONE
