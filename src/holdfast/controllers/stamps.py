"""Stamps objects with a fingerprint, and moves NodeClaims to a new version of it.

Callers: the hash reconcilers of NodePools and of node classes. The rule: fingerprints of two versions are never
compared, so claims are moved first and what they belong to last; a crash between leaves work and no harm (P-15).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast import errors
from holdfast.api import claim_conditions, conditions
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.ports import Kube


@dataclass(frozen=True, slots=True)
class Stamp:
    hash_key: str
    version_key: str
    hash: str
    version: str

    @property
    def annotations(self) -> dict[str, str]:
        return {self.hash_key: self.hash, self.version_key: self.version}


async def put(kube: Kube, owner: Object, claims: Sequence[NodeClaim], stamp: Stamp) -> str:
    """Brings the annotations of an object up to date, and before it those of its claims when the version changed.
    The answer is what was done, if anything was."""
    there = owner.metadata.annotations
    if stamp.annotations.items() <= there.items():
        return ""
    moved = 0
    if there.get(stamp.version_key) != stamp.version:
        for claim in claims:
            moved += await _move(kube, claim, stamp)
    await kube.patch(owner, {"metadata": {"annotations": stamp.annotations}})
    return f"stamped {stamp.hash}" + (f", moved {moved} claims to {stamp.version}" if moved else "")


async def _move(kube: Kube, claim: NodeClaim, stamp: Stamp) -> bool:
    """A claim that has drifted keeps its fingerprint, and so its drift."""
    if claim.metadata.annotations.get(stamp.version_key) == stamp.version:
        return False
    stays = conditions.holds(claim.status.conditions, claim_conditions.DRIFTED)
    annotations = {stamp.version_key: stamp.version} if stays else stamp.annotations
    try:
        await kube.patch(claim, {"metadata": {"annotations": annotations}})
    except errors.NotFound:
        return False
    return True
