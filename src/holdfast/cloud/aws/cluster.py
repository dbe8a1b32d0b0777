"""The cluster that instances join: what user data and tags say of it.

Filled in once, when the program starts, from its settings and from what EKS says.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.api import aws

OWNED: Final = "owned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    name: str
    endpoint: str
    ca_bundle: str = ""  # base64, as kubeconfig files have it; empty: the image brings its own
    service_cidr: str | None = None  # AL2023 cannot start without it
    dns_ip: str | None = None  # the cluster's DNS, unless a class names another
    ipv6: bool = False

    @property
    def tags(self) -> dict[str, str]:
        """What says that an AWS object belongs to this cluster."""
        return {f"{aws.CLUSTER_TAG_PREFIX}{self.name}": OWNED, aws.CLUSTER_NAME_TAG: self.name}
