"""A fingerprint of what an EC2NodeClass says about its instances, to find out that it changed.

Called where nodes are launched and where drift is looked for. Karpenter's own fingerprint is made by a
library of Go; ours has a version of its own, so that claims which Karpenter stamped are stamped anew
instead of being replaced (aws-1.6.2, aws-1.6.3a).
"""

import hashlib
import json
from typing import Any, Final

import msgspec

from holdfast.api import aws, conditions
from holdfast.api.conditions import TRUE
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.cloud.aws import families

VERSION: Final = "holdfast-v1"
DRIFTED: Final = "Drifted"
# What these select is compared with each machine, one by one; prefixes do not need a new node (aws-1.1).
_NOT_HASHED: Final = frozenset(
    {
        "subnetSelectorTerms",
        "securityGroupSelectorTerms",
        "amiSelectorTerms",
        "amiFamily",
        "capacityReservationSelectorTerms",
        "ipPrefixCount",
    }
)
_DIGITS: Final = 16


def of(node_class: EC2NodeClass, ca_bundle: str) -> str:
    spec = msgspec.to_builtins(node_class.spec)
    kept = {key: value for key, value in spec.items() if key not in _NOT_HASHED}
    content = [_canonical(kept), families.of(node_class).name, ca_bundle]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_DIGITS]


def annotations(node_class: EC2NodeClass, ca_bundle: str) -> dict[str, str]:
    """What a claim is stamped with when it is launched."""
    profile = node_class.status.instance_profile
    return {
        aws.EC2NODECLASS_HASH: of(node_class, ca_bundle),
        aws.EC2NODECLASS_HASH_VERSION: VERSION,
        **({aws.INSTANCE_PROFILE_NAME: profile} if profile else {}),
    }


def restamped(claim: NodeClaim, node_class: EC2NodeClass, ca_bundle: str) -> dict[str, str]:
    """What a claim has to be stamped with anew, so that its class can be compared: one that another version
    stamped, Karpenter's for one, takes the class as it is now, unless it has drifted already (aws-1.6.2)."""
    if claim.metadata.annotations.get(aws.EC2NODECLASS_HASH_VERSION) == VERSION:
        return {}
    drifted = conditions.find(claim.status.conditions, DRIFTED)
    if drifted is not None and drifted.status == TRUE:
        return {aws.EC2NODECLASS_HASH_VERSION: VERSION}
    return {aws.EC2NODECLASS_HASH: of(node_class, ca_bundle), aws.EC2NODECLASS_HASH_VERSION: VERSION}


def _canonical(value: Any) -> Any:
    """Lists are sets: their order says nothing. What is empty says as much as what is not there."""
    if isinstance(value, dict):
        found = {key: _canonical(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each not in (None, "", [], {}, False)}
    if isinstance(value, list | tuple):
        return sorted((_canonical(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value
