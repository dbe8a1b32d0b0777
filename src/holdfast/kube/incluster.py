"""The connection of a pod to its API server, from the mounted service account.

The token is read again every minute, because the kubelet renews it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast import errors
from holdfast.kube import credentials
from holdfast.kube.connection import Connection, Server, checked_url
from holdfast.ports import Clock

_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_pod(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("KUBERNETES_SERVICE_HOST"))


def load(*, environ: Mapping[str, str], clock: Clock, folder: Path = _FOLDER) -> Connection:
    """Raises InvalidInput outside of a pod, or if the service account is not mounted."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise errors.InvalidInput("not running in a pod: KUBERNETES_SERVICE_HOST is not set")
    url = checked_url(f"https://{f'[{host}]' if ':' in host else host}:{port}", "KUBERNETES_SERVICE_HOST")
    try:
        ca_pem = (folder / "ca.crt").read_text(encoding="ascii")
        namespace = (folder / "namespace").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidInput(
            f"the service account below {folder} cannot be read: {error};"
            " is automountServiceAccountToken switched off?"
        ) from error
    token = credentials.token_file(folder / "token", clock=clock)
    return Connection(Server(url=url, ca_pem=ca_pem), token, namespace or "default")
