"""A real control plane on loopback: etcd and kube-apiserver, for as long as a `with` lasts.

Called by `scripts/e2e.py`. The rules: free ports, keys made on the spot, logs kept when something fails, and nothing
left behind otherwise.
"""

import contextlib
import http
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization

import build_peers
from holdfast.sim.api import certificates

TOKEN: Final = "an-admin"
READY_WITHIN_S: Final = 120.0


class NotReadyError(Exception):
    """A process of the control plane did not come up; the message says where its log is."""


@contextlib.contextmanager
def running() -> Iterator[Path]:
    """The path of a kubeconfig of an administrator."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-control-plane-"))
    started: list[subprocess.Popen[bytes]] = []
    well = False
    try:
        yield _start(folder, started)
        well = True
    finally:
        for process in reversed(started):  # the server before its store
            process.terminate()
            process.wait(timeout=30)
        if well:
            shutil.rmtree(folder)


def _start(folder: Path, started: list[subprocess.Popen[bytes]]) -> Path:
    made = certificates.make("127.0.0.1")
    accounts = serialization.load_pem_private_key(made.key, password=None).public_key()
    written = {
        "ca.crt": made.authority,
        "tls.crt": made.certificate,
        "tls.key": made.key,  # it signs tokens of service accounts as well
        "accounts.pub": accounts.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
    }
    for name, text in written.items():
        (folder / name).write_bytes(text)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n', encoding="utf-8")
    clients, peers, secure = _free_ports(3)
    store, ring = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
    started.append(
        _spawn(
            folder,
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls={ring}",
            f"--initial-advertise-peer-urls={ring}",
            f"--initial-cluster=default={ring}",
        )
    )
    _wait(folder, "etcd", started[-1], http.client.HTTPConnection("127.0.0.1", clients, timeout=5), "/health")
    started.append(_spawn(folder, "kube-apiserver", *_server_flags(folder, store, secure)))
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    door = http.client.HTTPSConnection("127.0.0.1", secure, timeout=5, context=context)
    _wait(folder, "kube-apiserver", started[-1], door, "/readyz")
    return _kubeconfig(folder, secure)


def _server_flags(folder: Path, store: str, port: int) -> tuple[str, ...]:
    """As few as will do. No controller makes service accounts here, so pods are admitted without."""
    return (
        f"--etcd-servers={store}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'tls.crt'}",
        f"--tls-private-key-file={folder / 'tls.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'tls.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
    )


def _spawn(folder: Path, name: str, *flags: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(  # noqa: S603 - our own peers
            [build_peers.binary(name), *flags], stdout=log, stderr=subprocess.STDOUT, cwd=folder
        )


def _wait(
    folder: Path, name: str, process: subprocess.Popen[bytes], door: http.client.HTTPConnection, path: str
) -> None:
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        try:
            door.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
            answer = door.getresponse()
            answer.read()
            if answer.status == http.HTTPStatus.OK:
                door.close()
                return
        except (OSError, http.client.HTTPException):
            door.close()
        time.sleep(0.1)
    raise NotReadyError(f"{name} did not become ready; see {folder / f'{name}.log'}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


def _kubeconfig(folder: Path, port: int) -> Path:
    server = {
        "server": f"https://127.0.0.1:{port}",
        "certificate-authority": str(folder / "ca.crt"),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": server}],
        "users": [{"name": "admin", "user": {"token": TOKEN}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path
