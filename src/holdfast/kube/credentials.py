"""Credentials for an API server: tokens and certificates, renewed before they expire.

An error names the file or the program that has no credential.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec

from holdfast import errors
from holdfast.api.kubeconfig import ExecCredential
from holdfast.ports import Clock

_FILE_IS_FRESH_S: Final = 60  # the kubelet writes a new token long before the old one expires
_RENEW_BEFORE_S: Final = 60  # the token must be valid when the request arrives
_PLUGIN_TIMEOUT_S: Final = 60
_MOST_OUTPUT: Final = 1024 * 1024
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Credential:
    """A token or a client certificate; empty: anonymous."""

    token: str = field(default="", repr=False)
    certificate_pem: str = field(default="", repr=False)
    key_pem: str = field(default="", repr=False)
    expires_s: int | None = None


class Credentials(Protocol):
    async def current(self) -> Credential:
        """A valid credential; raises Unauthorized or Unreachable if there is none."""

    def refused(self) -> None:
        """The server rejected the last credential: drop it from the cache."""


@dataclass(frozen=True, slots=True)
class Fixed:
    credential: Credential = Credential()

    async def current(self) -> Credential:
        return self.credential

    def refused(self) -> None:
        pass


class Renewed:
    """Caches the credential of a source until shortly before it expires."""

    def __init__(self, source: Callable[[], Awaitable[Credential]], *, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._cached: Credential | None = None
        self._one_at_a_time = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._one_at_a_time:
            credential = self._cached
            if credential is None or self._expires_soon(credential):
                credential = self._cached = await self._source()
            return credential

    def refused(self) -> None:
        self._cached = None

    def _expires_soon(self, credential: Credential) -> bool:
        # expires_s is wall-clock time of another system, so this must be the wall clock, not the monotonic one.
        ends_s = credential.expires_s
        return ends_s is not None and self._clock.now_s() >= ends_s - _RENEW_BEFORE_S


def token_file(path: Path, *, clock: Clock, certificate: Credential = Credential()) -> Renewed:  # noqa: B008 - frozen
    """A token in a file that the kubelet renews; read again every minute."""

    async def read() -> Credential:
        return read_now()

    def read_now() -> Credential:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.Unauthorized(f"the token in {path} cannot be read: {error}") from error
        if not token:
            raise errors.Unauthorized(f"the token file {path} is empty")
        until_s = clock.now_s() + _FILE_IS_FRESH_S + _RENEW_BEFORE_S
        return Credential(token, certificate.certificate_pem, certificate.key_pem, until_s)

    return Renewed(read, clock=clock)


@dataclass(frozen=True, slots=True)
class Plugin:
    """An exec credential plugin of a kubeconfig."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]  # over the environment of this process
    api_version: str
    install_hint: str = ""
    cluster_info: Mapping[str, object] | None = None


def plugin(program: Plugin, *, environ: Mapping[str, str], clock: Clock) -> Renewed:
    if program.api_version not in _EXEC_VERSIONS:
        raise errors.InvalidInput(
            f"{program.command}: credential plugins of {program.api_version or 'no apiVersion'} are not known;"
            f" known are {', '.join(_EXEC_VERSIONS)}"
        )

    async def run() -> Credential:
        return _read_credential(program, await _run(program, environ))

    return Renewed(run, clock=clock)


async def _run(program: Plugin, environ: Mapping[str, str]) -> bytes:
    spec: dict[str, object] = {"interactive": False}
    if program.cluster_info is not None:
        spec["cluster"] = program.cluster_info
    exec_info = {"apiVersion": program.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**environ, **program.env, "KUBERNETES_EXEC_INFO": json.dumps(exec_info)}
    try:
        process = await asyncio.create_subprocess_exec(
            program.command,
            *program.args,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"\n{program.install_hint}" if program.install_hint else ""
        raise errors.Unauthorized(f"{program.command} cannot be run: {error}{hint}") from error
    try:
        async with asyncio.timeout(_PLUGIN_TIMEOUT_S):
            out, err = await process.communicate()
    except TimeoutError as error:
        raise errors.Unreachable(f"{program.command} took over {_PLUGIN_TIMEOUT_S} s") from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        message = err.decode(errors="replace").strip()[-1000:]
        raise errors.Unauthorized(f"{program.command} ended with {process.returncode}: {message}")
    if len(out) > _MOST_OUTPUT:
        raise errors.Unauthorized(f"{program.command} printed {len(out):,} bytes, which is no credential")
    return out


def _read_credential(program: Plugin, out: bytes) -> Credential:
    try:
        printed = msgspec.json.decode(out, type=ExecCredential)
        ends = printed.status.expiration_timestamp
        expires_s = int(datetime.fromisoformat(ends).astimezone(UTC).timestamp()) if ends else None
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise errors.Unauthorized(f"{program.command} printed no ExecCredential: {error}") from error
    if printed.kind != "ExecCredential" or printed.api_version != program.api_version:
        raise errors.Unauthorized(
            f"{program.command} printed {printed.kind or 'nothing'} of {printed.api_version or 'no apiVersion'},"
            f" not an ExecCredential of {program.api_version}"
        )
    status = printed.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise errors.Unauthorized(f"{program.command} printed neither a token nor a certificate with its key")
    return Credential(status.token, status.client_certificate_data, status.client_key_data, expires_s)


def resolve(command: str, folder: Path) -> str:
    """Makes a command with a slash relative to the kubeconfig; others are looked up in PATH."""
    return str(folder / command) if os.sep in command else command
