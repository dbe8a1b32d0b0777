"""A hash of the fields of an EC2NodeClass that an instance depends on, to detect drift.

The launcher and drift call it. Karpenter computes its hash with a Go library. This one has its own version, so that the
hash annotations of Karpenter's claims are updated instead of the nodes being replaced (aws-1.6.2, aws-1.6.3a). It
depends on the class alone. Karpenter's includes the CA bundle of the cluster: a bundle that is read from another
source, or not at all, would replace every node.
"""

from typing import Final

import msgspec

from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import families
from holdfast.state.conversion import fingerprint

VERSION: Final = "holdfast-v2"  # v1 included the CA bundle
# The results of these selectors are compared with each instance. A change of prefixes needs no new node (aws-1.1).
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
    """The annotations of a launched claim."""
    profile = node_class.status.instance_profile
    return {
        aws.EC2NODECLASS_HASH: of(node_class),
        aws.EC2NODECLASS_HASH_VERSION: VERSION,
        **({aws.INSTANCE_PROFILE_NAME: profile} if profile else {}),
    }
