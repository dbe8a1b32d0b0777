"""Where an API server is, and what it takes to be let in: the result of reading a kubeconfig or a pod's files.

Callers: `kubeconfig` and `incluster` make it, `http` connects with it.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast import errors
from holdfast.kube.credentials import Credentials


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    ca_pem: str = ""  # empty: what the machine trusts
    insecure: bool = False  # any certificate will do
    tls_server_name: str = ""  # the name to expect in the certificate, when it is not the host's
    proxy_url: str = ""
    impersonate: str = ""


@dataclass(frozen=True, slots=True)
class Connection:
    server: Server
    credentials: Credentials
    namespace: str = "default"


def checked_url(url: str, where: str) -> str:
    """The address without a slash at its end; InvalidInput when it is not one."""
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine = False
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port_is_fine:
        raise errors.InvalidInput(f"{where}: {url!r} is no address of a server; write https://host:port")
    return url.rstrip("/")


def proxy_for(url: str, configured: str, environ: Mapping[str, str], where: str) -> str:
    """The proxy to go through: the configured one, or that of the environment unless NO_PROXY names the host."""
    parts = urlsplit(url)
    proxy = configured
    if not proxy:
        named = {key.lower(): value for key, value in environ.items() if value}
        if not _goes_direct(parts.hostname or "", named.get("no_proxy", "")):
            proxy = named.get(f"{parts.scheme}_proxy", "")
    if proxy and urlsplit(proxy).scheme not in {"http", "https"}:
        raise errors.InvalidInput(f"{where}: proxies of {proxy!r} are not supported; use http:// or https://")
    return proxy


def _goes_direct(host: str, no_proxy: str) -> bool:
    """NO_PROXY as curl and Go read it: names with all below them, addresses, blocks of addresses, or a star."""
    return any(_covers(entry.strip(), host) for entry in no_proxy.split(",") if entry.strip())


def _covers(entry: str, host: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name = entry.lstrip("*.").lower()
        return entry == "*" or host.lower() == name or host.lower().endswith(f".{name}")
