"""A fingerprint of what an EC2NodeClass says about its instances, to find out that it changed.

Called where nodes are launched and where drift is looked for. Karpenter's own fingerprint is made by a
library of Go; ours has a version of its own, so that claims which Karpenter stamped are stamped anew
instead of being replaced (aws-1.6.2, aws-1.6.3a). The rule: it depends on the class alone. Karpenter's has the
cluster's CA bundle in it, and a bundle that is read in another way, or cannot be read, would replace every node.
"""

from typing import Final

import msgspec

from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import families
from holdfast.state.conversion import fingerprint

VERSION: Final = "holdfast-v2"  # v1 had the CA bundle in it
# What these select is compared with each instance, one by one; prefixes do not need a new node (aws-1.1).
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


def of(node_class: EC2NodeClass) -> str:
    spec = msgspec.to_builtins(node_class.spec)
    hashed = {key: value for key, value in spec.items() if key not in _NOT_HASHED}
    return fingerprint.of(hashed, families.of(node_class).name)


def annotations(node_class: EC2NodeClass) -> dict[str, str]:
    """The annotations that a claim gets when it is launched."""
    profile = node_class.status.instance_profile
    return {
        aws.EC2NODECLASS_HASH: of(node_class),
        aws.EC2NODECLASS_HASH_VERSION: VERSION,
        **({aws.INSTANCE_PROFILE_NAME: profile} if profile else {}),
    }
