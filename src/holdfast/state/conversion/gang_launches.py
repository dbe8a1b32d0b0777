"""The annotation of NodeClaims that are launched all or none, because gangs have pods on several of them."""

import re
from typing import Final, NamedTuple

from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim

_VALUE: Final = re.compile(r"([0-9a-zA-Z-]{1,64})/([1-9][0-9]{0,5})")


class GangLaunch(NamedTuple):
    """NodeClaims of one plan that are launched all or none."""

    id: str
    size: int  # how many there are

    @property
    def annotations(self) -> dict[str, str]:
        return {names.GANG_LAUNCH: f"{self.id}/{self.size}"}


def of(claim: NodeClaim) -> GangLaunch | None:
    """The launch that a NodeClaim is part of. A value that cannot be read counts as none."""
    found = _VALUE.fullmatch(claim.metadata.annotations.get(names.GANG_LAUNCH, ""))
    return GangLaunch(found[1], int(found[2])) if found else None


def ids(claim: NodeClaim) -> tuple[str, ...]:
    """For an index."""
    found = of(claim)
    return (found.id,) if found is not None else ()


def is_launched(claim: NodeClaim) -> bool:
    return conditions.holds(claim.status.conditions, claim_conditions.LAUNCHED)
