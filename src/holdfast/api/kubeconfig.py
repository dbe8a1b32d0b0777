"""The wire types of a kubeconfig file.

They include fields that `kube.kubeconfig` rejects: ignoring them silently would connect as another user.
"""

from typing import Any

from msgspec import field

from holdfast.api.meta import Wire


class _Secret(Wire, frozen=True):
    """Shows no values: a traceback or a log line must not print a token or a key."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class ClusterEntry(Wire, frozen=True, rename="kebab", kw_only=True):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class ExecVariable(_Secret, frozen=True):
    name: str
    value: str


class ExecEntry(Wire, frozen=True, kw_only=True):
    api_version: str = ""
    command: str = ""
    args: tuple[str, ...] | None = None
    env: tuple[ExecVariable, ...] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False


class UserEntry(_Secret, frozen=True, rename="kebab", kw_only=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    exec: ExecEntry | None = None
    impersonate: str = field(default="", name="as")
    as_groups: tuple[str, ...] | None = None
    as_uid: str = ""
    as_user_extra: dict[str, Any] | None = None
    username: str = ""
    password: str = ""
    auth_provider: Any = None


class ContextEntry(Wire, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Wire, frozen=True):
    name: str
    cluster: ClusterEntry = ClusterEntry()


class NamedUser(Wire, frozen=True):
    name: str
    user: UserEntry = UserEntry()


class NamedContext(Wire, frozen=True):
    name: str
    context: ContextEntry = ContextEntry()


class Kubeconfig(Wire, frozen=True, rename="kebab", kw_only=True):
    current_context: str = ""
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


class ExecCredentialStatus(_Secret, frozen=True, kw_only=True):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class ExecCredential(Wire, frozen=True, kw_only=True):
    """The output of a credential plugin."""

    api_version: str = ""
    kind: str = ""
    status: ExecCredentialStatus = ExecCredentialStatus()
