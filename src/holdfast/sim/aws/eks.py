"""The simulated EKS: the values of a cluster that a node needs."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.sim.aws.errors import ApiError, NoSuchOperation
from holdfast.sim.aws.service import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    name: str
    region: str
    version: str  # of Kubernetes, such as 1.36
    endpoint: str
    certificate_authority: str  # PEM in base64
    created_s: int
    service_ipv4_cidr: str = "10.100.0.0/16"
    vpc_id: str = "vpc-0123456789abcdef0"
    subnet_ids: Sequence[str] = ()
    security_group_id: str = "sg-0123456789abcdef0"


class Eks:
    def __init__(self, clusters: Sequence[Cluster]) -> None:
        self._clusters = {cluster.name: cluster for cluster in clusters}

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        match operation:
            case "DescribeCluster":
                return {"cluster": self._describe(params["name"], caller)}
            case "ListClusters":
                return {"clusters": sorted(self._clusters)}
            case _:
                raise NoSuchOperation(operation)

    def _describe(self, name: str, caller: Caller) -> dict[str, Any]:
        cluster = self._clusters.get(name)
        if cluster is None:
            raise ApiError("ResourceNotFoundException", f"No cluster found for name: {name}.", 404)
        return {
            "name": cluster.name,
            "arn": f"arn:aws:eks:{cluster.region}:{caller.account_id}:cluster/{cluster.name}",
            "createdAt": dt.datetime.fromtimestamp(cluster.created_s, dt.UTC),
            "version": cluster.version,
            "platformVersion": "eks.1",
            "endpoint": cluster.endpoint,
            "status": "ACTIVE",
            "certificateAuthority": {"data": cluster.certificate_authority},
            "roleArn": f"arn:aws:iam::{caller.account_id}:role/{cluster.name}",
            "kubernetesNetworkConfig": {"serviceIpv4Cidr": cluster.service_ipv4_cidr, "ipFamily": "ipv4"},
            "resourcesVpcConfig": {
                "subnetIds": list(cluster.subnet_ids),
                "securityGroupIds": [],
                "clusterSecurityGroupId": cluster.security_group_id,
                "vpcId": cluster.vpc_id,
                "endpointPublicAccess": True,
                "endpointPrivateAccess": False,
                "publicAccessCidrs": ["0.0.0.0/0"],
            },
            "tags": {},
        }
