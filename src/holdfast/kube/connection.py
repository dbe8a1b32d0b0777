"""The address, CA and credentials of an API server, as read by `kubeconfig` and `incluster`."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast import errors
from holdfast.kube.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    ca_pem: str = ""  # empty: the system's CAs
    insecure: bool = False  # do not verify the certificate
    tls_server_name: str = ""  # name in the certificate, if it differs from the host
    proxy_url: str = ""
    impersonate: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    server: Server
    credentials: Credentials
    namespace: str = "default"


def checked_url(url: str, where: str) -> str:
    """The URL without a trailing slash; InvalidInput if it is not one."""
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine = False
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        raise errors.InvalidInput(f"{where}: {url!r} is not the URL of a server; write https://host:port")
    return url.rstrip("/")


def proxy_for(url: str, configured: str, environ: Mapping[str, str], where: str) -> str:
    """The configured proxy, else the one of the environment, unless NO_PROXY covers the host."""
    parts = urlsplit(url)
    proxy = configured
    if not proxy:
        named = {key.lower(): value for key, value in environ.items() if value}
        if not _bypasses_proxy(parts.hostname or "", named.get("no_proxy", "")):
            proxy = named.get(f"{parts.scheme}_proxy", "")
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise errors.InvalidInput(f"{where}: proxies of {proxy!r} are not supported; use http:// or https://")
    return proxy


def _bypasses_proxy(host: str, no_proxy: str) -> bool:
    """NO_PROXY as curl and Go read it: domains with subdomains, addresses, CIDRs, or a star."""
    return any(_covers(entry.strip(), host) for entry in no_proxy.split(",") if entry.strip())


def _covers(entry: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name = entry.lstrip("*.").lower()
        return entry == "*" or host.lower() == name or host.lower().endswith(f".{name}")
