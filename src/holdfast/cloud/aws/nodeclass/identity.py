"""Reads the identity of the cluster: its endpoint, CA bundle and service CIDR.

A setting has priority. The CA bundle is else that of this process's connection to the API server, as in Karpenter, and
else that of EKS. The endpoint is never that of this process's connection: inside the cluster that is an address that
nodes cannot use. EKS is called only for missing values, at most once a minute. Values of EKS that no node could use are
ignored.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast import errors, ports
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.client.sources import Source
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.nodeclass.ownership import ALONE, Ownership

PERIOD_S: Final = 60.0  # between two calls, while a value is missing

_EKS: Final = "eks"
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The values that are known without EKS; empty: unknown."""

    name: str
    endpoint: str = ""
    ca_bundle: str = ""
    connection_ca_bundle: str = ""  # the CA of this process's connection to the API server
    service_cidr: str | None = None
    dns_ip: str | None = None  # of the cluster's DNS service
    ownership: Ownership = ALONE


@dataclass(frozen=True, slots=True, kw_only=True)
class _EksCluster:
    """The values from DescribeCluster."""

    endpoint: str
    ca_bundle: str
    service_cidr: str | None


class Identity:
    def __init__(self, aws: Calls, given: Given, clock: ports.Clock) -> None:
        self._aws = aws
        self._given = given
        self._source = Source("cluster", self._read, period_s=PERIOD_S, clock=clock)
        self._error: errors.HoldfastError | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster, as far as it is known now."""
        given, eks = self._given, self._source.last
        cidr = given.service_cidr or (eks.service_cidr if eks else None)
        return Cluster(
            name=given.name,
            endpoint=given.endpoint or (eks.endpoint if eks else ""),
            ca_bundle=given.ca_bundle or given.connection_ca_bundle or (eks.ca_bundle if eks else ""),
            service_cidr=cidr,
            dns_ip=given.dns_ip,
            ipv6=":" in (cidr or given.dns_ip or ""),
            is_another=eks is not None and self._is_another(eks.ca_bundle),
            error=self._error,
            ownership=given.ownership,
        )

    async def read(self) -> Cluster:
        """The cluster, after a call to EKS if a value is missing and the last call is long enough ago."""
        known = self.cluster
        if known.endpoint and known.ca_bundle and known.service_cidr and not known.is_another:
            return known
        try:
            await self._source.fresh()
        except errors.HoldfastError as error:
            self._error = error
        else:
            self._error = None
        return self.cluster

    def _is_another(self, ca_bundle: str) -> bool:
        ours, theirs = certificates(self._given.connection_ca_bundle), certificates(ca_bundle)
        return bool(ours and theirs and not ours & theirs) and not self._given.ca_bundle

    async def _read(self) -> _EksCluster:
        return await self._aws.read(_EKS, "DescribeCluster", _eks_cluster, name=self._given.name)


def _eks_cluster(answer: Mapping[str, Any]) -> _EksCluster:
    found: Mapping[str, Any] = answer["cluster"]
    network = found.get("kubernetesNetworkConfig") or {}
    ca_bundle = (found.get("certificateAuthority") or {}).get("data") or ""
    return _EksCluster(
        endpoint=_url(found.get("endpoint") or ""),
        ca_bundle=ca_bundle if certificates(ca_bundle) else "",
        service_cidr=_cidr(network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr") or ""),
    )


def encoded(pem: str) -> str:
    """A CA bundle in base64, for user data."""
    return base64.b64encode(pem.encode()).decode()


def certificates(bundle: str) -> frozenset[bytes]:
    """The certificates in a base64 CA bundle; empty if it is malformed. Line breaks in the PEM text do not matter."""
    try:
        text = base64.b64decode("".join(bundle.split()), validate=True).decode("ascii")
        return frozenset(
            base64.b64decode("".join(body.split()), validate=True) for body in _CERTIFICATE.findall(text)
        )
    except (binascii.Error, UnicodeDecodeError):
        return frozenset()


def _url(written: str) -> str:
    try:
        parts = urlsplit(written)
    except ValueError:
        return ""
    return written if parts.scheme == "https" and parts.hostname else ""


def _cidr(written: str) -> str | None:
    try:
        return str(ipaddress.ip_network(written))
    except ValueError:
        return None
