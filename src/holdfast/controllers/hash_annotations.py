"""Writes the hash annotations of a NodePool or a node class, and those of its NodeClaims when the hash version changes.

Hashes of two versions are never compared, so the claims are written first and their owner last. After a crash between
the two, the next reconcile writes the remaining claims (P-15).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast import errors
from holdfast.api import claim_conditions, conditions
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.ports import Kube


@dataclass(frozen=True, slots=True)
class HashAnnotations:
    hash_key: str
    version_key: str
    hash: str
    version: str

    @property
    def annotations(self) -> dict[str, str]:
        return {self.hash_key: self.hash, self.version_key: self.version}


async def write(kube: Kube, owner: Object, claims: Iterable[NodeClaim], hashes: HashAnnotations) -> str:
    """Writes the annotations of the owner and, before it, of its claims if the version changed: only then are the claims
    read. Returns a log text."""
    there = owner.metadata.annotations
    if hashes.annotations.items() <= there.items():
        return ""
    updated = 0
    if there.get(hashes.version_key) != hashes.version:
        for claim in tuple(claims):
            updated += await _update_claim(kube, claim, hashes)
    await kube.patch(owner, {"metadata": {"annotations": hashes.annotations}})
    return f"updated hash to {hashes.hash}" + (
        f", {updated} claims to version {hashes.version}" if updated else ""
    )


async def _update_claim(kube: Kube, claim: NodeClaim, hashes: HashAnnotations) -> bool:
    """A drifted claim keeps its hash, so that it stays drifted."""
    if claim.metadata.annotations.get(hashes.version_key) == hashes.version:
        return False
    is_drifted = conditions.holds(claim.status.conditions, claim_conditions.DRIFTED)
    annotations = {hashes.version_key: hashes.version} if is_drifted else hashes.annotations
    try:
        await kube.patch(claim, {"metadata": {"annotations": annotations}})
    except errors.NotFound:
        return False
    return True
