"""What EKS says of the cluster: where its API server is, who signed for it, and its service addresses.

Called by `app` when the program starts. What the settings say wins; a cluster that EKS does not know (one that
somebody runs himself) needs both endpoint and bundle in the settings, and cannot have AL2023 nodes, which want
the service addresses.
"""

from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors
from holdfast.cloud.aws.calls import Calls
from holdfast.cloud.aws.cluster import Cluster

_EKS: Final = "eks"
_IPV6: Final = "ipv6"


@dataclass(frozen=True, slots=True)
class Told:
    """What the settings say; empty: ask EKS."""

    name: str
    endpoint: str = ""
    ca_bundle: str = ""
    dns_ip: str | None = None  # from the cluster's own DNS service


async def read(aws: Calls, told: Told) -> Cluster:
    """InvalidInput when neither the settings nor EKS say where the API server is."""
    try:
        answer = await aws.call(_EKS, "DescribeCluster", name=told.name)
    except (errors.NotFound, errors.Unauthorized) as error:
        if not told.endpoint:
            raise errors.InvalidInput(
                f"EKS does not say where cluster {told.name} is ({error}); set CLUSTER_ENDPOINT, or allow "
                "eks:DescribeCluster"
            ) from error
        return _cluster(told, {})
    return _cluster(told, answer["cluster"])


def _cluster(told: Told, said: dict[str, Any]) -> Cluster:
    network = said.get("kubernetesNetworkConfig", {})
    return Cluster(
        name=told.name,
        endpoint=told.endpoint or said.get("endpoint", ""),
        ca_bundle=told.ca_bundle or said.get("certificateAuthority", {}).get("data", ""),
        service_cidr=network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr"),
        dns_ip=told.dns_ip,
        ipv6=network.get("ipFamily") == _IPV6,
    )
