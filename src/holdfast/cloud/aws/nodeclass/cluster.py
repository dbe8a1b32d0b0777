"""The cluster that instances join: the values for user data and tags, and whether they are sufficient.

Pure. `identity` reads the values. Without all values that its image needs, no instance is launched.
"""

from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.api import aws
from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.nodeclass.class_checks import Problem
from holdfast.cloud.aws.nodeclass.ownership import ALONE, Ownership

OWNED: Final = "owned"
NOT_FOUND: Final = "ClusterNotFound"
MISMATCH: Final = "ClusterMismatch"
NO_ENDPOINT: Final = "ClusterEndpointResolutionFailed"
NO_CA_BUNDLE: Final = "ClusterCABundleResolutionFailed"
NO_CIDR: Final = "ClusterCIDRResolutionFailed"  # Karpenter's reason (aws-1.5.1)

_NEEDS_CIDR: Final = "AL2023"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    name: str
    endpoint: str  # empty: unknown
    ca_bundle: str = ""  # base64, as in kubeconfig files; empty: unknown
    service_cidr: str | None = None
    dns_ip: str | None = None  # of the cluster's DNS, unless a class sets another
    ipv6: bool = False
    is_another: bool = False  # the EKS cluster of this name is not the one that this process is connected to
    error: errors.HoldfastError | None = None  # of the last DescribeCluster call
    ownership: Ownership = ALONE

    @property
    def tags(self) -> dict[str, str]:
        """The tags of AWS objects that belong to this cluster."""
        return {f"{aws.CLUSTER_TAG_PREFIX}{self.name}": OWNED, aws.CLUSTER_NAME_TAG: self.name}

    @property
    def may_recover(self) -> bool:
        """Whether the last DescribeCluster call failed with a retryable error."""
        return isinstance(self.error, errors.Retryable)

    def problem(self, family: str) -> Problem | None:
        """Why instances of an AMI family cannot join, or None. Instances of Custom have all values in their own user
        data."""
        if family == families.CUSTOM:
            return None
        if isinstance(self.error, errors.NotFound):
            return Problem(
                NOT_FOUND,
                f"EKS has no cluster {self.name} in this account and region; correct CLUSTER_NAME, or set "
                "CLUSTER_ENDPOINT and SERVICE_CIDR if the cluster is not one of EKS",
            )
        if self.is_another:
            return Problem(
                MISMATCH,
                f"EKS cluster {self.name} has another certificate authority than the API server that Holdfast is "
                "connected to; correct CLUSTER_NAME, or set CLUSTER_CA_BUNDLE if nodes connect in another way",
            )
        for reason, value, what, setting in (
            (NO_ENDPOINT, self.endpoint, "endpoint", "CLUSTER_ENDPOINT"),
            (NO_CA_BUNDLE, self.ca_bundle, "CA bundle", "CLUSTER_CA_BUNDLE"),
            (NO_CIDR, self.service_cidr or family != _NEEDS_CIDR, "service CIDR", "SERVICE_CIDR"),
        ):
            if not value:
                cause = str(self.error or "EKS DescribeCluster did not return a valid one")
                return Problem(
                    reason,
                    f"the {what} of cluster {self.name}, which {family} nodes need to join, is unknown: {cause}; "
                    f"allow eks:DescribeCluster, or set {setting}",
                )
        return None
