"""Whether a node is no longer what its NodePool would make.

Pure: the drift reason of the cloud is an argument. The rules are
Karpenter's (NC-40, NC-41, R-38), the first difference is the reason, and what is not known is never a difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.model import requirements
from holdfast.model.offerings import InstanceType
from holdfast.model.requirements import Requirements
from holdfast.model.snapshot import ClaimView, CloudLabels

NODE_POOL: Final = "NodePoolDrifted"
REQUIREMENTS: Final = "RequirementsDrifted"
INSTANCE_TYPE: Final = "InstanceTypeNotFound"
_OLD_ENOUGH_S: Final = 3600  # a catalog may lag behind what was just launched


@dataclass(frozen=True, slots=True)
class Hash:
    """A fingerprint, with the version of how it was made; two of different versions are not compared."""

    value: str | None
    version: str | None

    def differs(self, other: "Hash") -> bool:
        return (
            None not in (self.value, self.version, other.value)
            and self.version == other.version
            and self.value != other.value
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """A NodeClaim beside its NodePool."""

    launched: bool
    age_s: int
    labels: Mapping[str, str]
    claim_hash: Hash
    pool_hash: Hash
    wanted: Requirements  # what every node of the pool is
    instance_types: tuple[InstanceType, ...]
    cloud: CloudLabels
    cloud_says: str | None = None  # why the instance is no longer what its class would launch
    ignored: frozenset[str] = frozenset()  # labels that say nothing: the cloud alone decides about them


def reason(one: Subject) -> str | None:
    """Why it drifted; None: it did not."""
    if not one.launched:
        return None
    if one.claim_hash.differs(one.pool_hash):
        return NODE_POOL
    if not _labels(one).compatible(one.wanted.without(one.ignored)):
        return REQUIREMENTS
    if one.age_s >= _OLD_ENOUGH_S and not is_offered(one):
        return INSTANCE_TYPE
    return one.cloud_says


def is_offered(one: Subject) -> bool:
    """Whether its type still comes the way it is. A reserved node may also be had on demand, and which reservation it
    is in is the cloud's question (R-38)."""
    type_ = next((t for t in one.instance_types if t.name == one.labels.get(names.INSTANCE_TYPE)), None)
    if type_ is None:
        return False
    kinds = {one.labels.get(names.CAPACITY_TYPE)}
    own = _labels(one).without({names.CAPACITY_TYPE})
    if names.RESERVED in kinds:
        kinds.add(names.ON_DEMAND)
        own = own.without(one.cloud.reserved)
    claim = ClaimView("", None, own)
    return any(
        offering.capacity_type in kinds and claim.suits_offering(type_, offering, one.cloud)
        for offering in type_.offerings
    )


def _labels(one: Subject) -> Requirements:
    return requirements.from_labels({k: v for k, v in one.labels.items() if k not in one.ignored})
