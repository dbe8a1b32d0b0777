"""Reads kubeconfig files.

Several files are merged as kubectl does: the first entry of a name wins, and paths are relative to their file.
Unsupported fields are rejected: ignoring them would connect to another server or as another user.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from holdfast import errors
from holdfast.api import documents, kinds
from holdfast.api.kubeconfig import (
    ClusterEntry,
    ContextEntry,
    Kubeconfig,
    NamedCluster,
    NamedContext,
    NamedUser,
    UserEntry,
)
from holdfast.kube import credentials
from holdfast.kube.connection import Connection, Server, checked_url, proxy_for
from holdfast.kube.credentials import Credential, Credentials
from holdfast.ports import Clock

N = TypeVar("N", NamedCluster, NamedUser, NamedContext)

_DEFAULT: Final = Path(".kube") / "config"


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: Kubeconfig


def files(environ: Mapping[str, str], explicit: str = "") -> tuple[Path, ...]:
    """The explicit file, else those of KUBECONFIG, else ~/.kube/config."""
    if explicit:
        return (Path(explicit),)
    listed = [Path(name) for name in environ.get("KUBECONFIG", "").split(":") if name]
    if listed:
        return tuple(listed)
    return (Path(environ["HOME"]) / _DEFAULT,) if environ.get("HOME") else ()


def load(paths: Sequence[Path], *, environ: Mapping[str, str], clock: Clock, context: str = "") -> Connection:
    """The connection of a context, by default the current one. Raises InvalidInput with the location of a mistake."""
    read = [
        _read(path) for path in paths if len(paths) == 1 or path.exists()
    ]  # kubectl skips missing files of several
    if not read:
        raise errors.InvalidInput("no kubeconfig found; set KUBECONFIG or --kubeconfig")
    name = context or next((f.content.current_context for f in read if f.content.current_context), "")
    if not name:
        raise errors.InvalidInput(f"{read[0].path} has no current-context; set --context")
    _, chosen = _find(name, "context", ((f, f.content.contexts or ()) for f in read))
    link = chosen.context
    cluster_file, cluster = _find(link.cluster, "cluster", ((f, f.content.clusters or ()) for f in read))
    user_file, user = _user(link, read)
    server = _server(cluster_file, cluster.name, cluster.cluster, environ, user.user)
    identity = _Identity(user_file.path, user.name, user.user, server).credentials(environ, clock)
    return Connection(server, identity, link.namespace or "default")


def _read(path: Path) -> _File:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise errors.InvalidInput(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    found = list(documents.read(data))
    if len(found) != 1:
        raise errors.InvalidInput(f"kubeconfig {path} has {len(found)} documents; it must have one")
    document = found[0]
    if isinstance(document, documents.Broken):
        raise errors.InvalidInput(f"kubeconfig {path}:{document.line}: {document.message}")
    try:
        return _File(path, msgspec.convert(kinds.without_nulls(document.value), Kubeconfig))
    except msgspec.ValidationError as error:
        raise errors.InvalidInput(f"kubeconfig {path}: {error}") from error


def _find(name: str, what: str, entries: Iterable[tuple[_File, Iterable[N]]]) -> tuple[_File, N]:
    known: list[str] = []
    for file, named in entries:
        for entry in named:
            if entry.name == name:
                return file, entry
            known.append(entry.name)
    there_are = f"it has {', '.join(sorted(known))}" if known else "it has none"
    raise errors.InvalidInput(f"the kubeconfig has no {what} {name!r}; {there_are}")


def _user(link: ContextEntry, read: Sequence[_File]) -> tuple[_File, NamedUser]:
    if not link.user:  # anonymous
        return read[0], NamedUser("")
    return _find(link.user, "user", ((f, f.content.users or ()) for f in read))


def _server(
    file: _File, name: str, entry: ClusterEntry, environ: Mapping[str, str], user: UserEntry
) -> Server:
    where = f"kubeconfig {file.path}, cluster {name!r}"
    url = checked_url(entry.server, where)
    ca = _pem(
        file.path,
        where,
        entry.certificate_authority_data,
        entry.certificate_authority,
        "certificate-authority",
    )
    if ca and entry.insecure_skip_tls_verify:
        raise errors.InvalidInput(
            f"{where}: certificate-authority and insecure-skip-tls-verify exclude each other"
        )
    return Server(
        url=url,
        ca_pem=ca,
        insecure=entry.insecure_skip_tls_verify,
        tls_server_name=entry.tls_server_name,
        proxy_url=proxy_for(url, entry.proxy_url, environ, where),
        impersonate=user.impersonate,
    )


@dataclass(frozen=True, slots=True)
class _Identity:
    path: Path
    name: str
    user: UserEntry
    server: Server

    def credentials(self, environ: Mapping[str, str], clock: Clock) -> Credentials:
        """By kubectl's precedence: token, token file, plugin. A client certificate is used in addition."""
        self._reject_unsupported()
        user = self.user
        certificate = self._certificate()
        if user.token:
            return credentials.Fixed(Credential(user.token, certificate.certificate_pem, certificate.key_pem))
        if user.token_file:
            path = self.path.parent / user.token_file
            return credentials.token_file(path, clock=clock, certificate=certificate)
        if user.exec is not None and not certificate.certificate_pem:
            return self._plugin(environ, clock)
        return credentials.Fixed(certificate)

    def _reject_unsupported(self) -> None:
        for field, value in (
            ("auth-provider", self.user.auth_provider),
            ("username", self.user.username),
            ("as-groups", self.user.as_groups),
            ("as-uid", self.user.as_uid),
            ("as-user-extra", self.user.as_user_extra),
        ):
            if value:
                raise errors.InvalidInput(f"{self._where()}: {field} is not supported")

    def _certificate(self) -> Credential:
        user = self.user
        certificate = _pem(
            self.path,
            self._where(),
            user.client_certificate_data,
            user.client_certificate,
            "client-certificate",
        )
        key = _pem(self.path, self._where(), user.client_key_data, user.client_key, "client-key")
        if bool(certificate) != bool(key):
            there, missing = ("certificate", "key") if certificate else ("key", "certificate")
            raise errors.InvalidInput(f"{self._where()}: a client {there} needs its {missing}")
        return Credential("", certificate, key)

    def _plugin(self, environ: Mapping[str, str], clock: Clock) -> Credentials:
        entry = self.user.exec
        assert entry is not None
        if not entry.command:
            raise errors.InvalidInput(f"{self._where()}: exec has no command")
        cluster_info = {"server": self.server.url, "insecure-skip-tls-verify": self.server.insecure}
        if self.server.ca_pem:
            cluster_info["certificate-authority-data"] = base64.b64encode(
                self.server.ca_pem.encode()
            ).decode()
        program = credentials.Plugin(
            command=credentials.resolve(entry.command, self.path.parent),
            args=entry.args or (),
            env={variable.name: variable.value for variable in entry.env or ()},
            api_version=entry.api_version,
            install_hint=entry.install_hint,
            cluster_info=cluster_info if entry.provide_cluster_info else None,
        )
        from holdfast.kube import eks  # noqa: PLC0415 - botocore is slow to import

        cluster = eks.cluster_of(program, environ)
        if cluster is not None:
            return eks.tokens(cluster, clock=clock)
        return credentials.plugin(program, environ=environ, clock=clock)

    def _where(self) -> str:
        return f"kubeconfig {self.path}, user {self.name!r}"


def _pem(path: Path, where: str, data: str, file: str, field: str) -> str:
    """A certificate or key, inline in base64 or in its own file. Inline takes precedence, as in kubectl."""
    try:
        raw = (
            base64.b64decode(data, validate=True)
            if data
            else (path.parent / file).read_bytes()
            if file
            else b""
        )
        text = raw.decode("ascii")
    except binascii.Error as error:
        raise errors.InvalidInput(f"{where}: {field}-data is not base64: {error}") from error
    except OSError as error:
        raise errors.InvalidInput(f"{where}: {field} {file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise errors.InvalidInput(f"{where}: {field} is not PEM text") from error
    if (data or file) and "-----BEGIN" not in text:
        raise errors.InvalidInput(f"{where}: {field} is not PEM text")
    return text
