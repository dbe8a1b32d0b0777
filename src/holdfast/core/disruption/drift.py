"""Whether a NodeClaim no longer matches its NodePool.

Pure: the drift reason of the cloud is an argument. As in Karpenter, the first difference is the reason, and an unknown
value is never a difference (NC-40, NC-41, R-38).
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
_OLD_ENOUGH_S: Final = 3600  # the catalog may not include the offering of a recent launch


@dataclass(frozen=True, slots=True)
class Hash:
    """A hash and its version; hashes of different versions are not compared."""

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
    """A NodeClaim with the values of its NodePool and its class."""

    launched: bool
    age_s: int
    labels: Mapping[str, str]
    claim_hash: Hash
    pool_hash: Hash
    wanted: Requirements  # of the NodePool's template
    instance_types: tuple[InstanceType, ...]
    cloud: CloudLabels
    ignored: frozenset[str] = frozenset()  # labels that are not compared


def reason(one: Subject) -> str | None:
    """The drift reason; None: the NodeClaim is not drifted from its NodePool. `Cloud.drift` compares it with its class."""
    if not one.launched:
        return None
    if one.claim_hash.differs(one.pool_hash):
        return NODE_POOL
    if not _labels(one).compatible(one.wanted.without(one.ignored)):
        return REQUIREMENTS
    if is_old(one.age_s) and not is_offered(one):
        return INSTANCE_TYPE
    return None


def is_old(age_s: int) -> bool:
    """Whether the catalog must have the offering of a claim of this age."""
    return age_s >= _OLD_ENOUGH_S


def is_offered(one: Subject) -> bool:
    """Whether the instance type still has an offering with the labels of the claim. For a reserved node an on-demand
    offering is sufficient; the cloud compares its reservation (R-38)."""
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
