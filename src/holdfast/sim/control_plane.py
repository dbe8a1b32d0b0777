"""Runs a real control plane on loopback: etcd and kube-apiserver, and a scheduler and controllers for any API server.

It uses free ports and new keys; all files are in a folder that the caller creates and removes.
"""

import contextlib
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import serialization

from holdfast.sim.api.serving import certificates
from holdfast.sim.api.serving.http import HOST, Address
from holdfast.sim.processes import Health, Processes

SERVICE_ADDRESS: Final = "10.96.0.1"  # of the Service `kubernetes`: the first of the range below
_SERVICES: Final = "10.96.0.0/16"
_ACCOUNTS: Final = "ServiceAccount"  # it needs service accounts, which a controller creates


async def start_server(
    started: Processes,
    folder: Path,
    *,
    token: str,
    port: int = 0,
    accounts: bool = True,
    more_flags: Sequence[str] = (),
) -> Address:
    """Starts etcd and kube-apiserver with an administrator's token. Without `accounts` pods need no service account:
    for callers without a controller manager."""
    tls = certificates.make(HOST, SERVICE_ADDRESS)
    public = serialization.load_pem_private_key(tls.key, password=None).public_key()
    written = {
        "ca.crt": tls.authority,
        "tls.crt": tls.certificate,
        "tls.key": tls.key,  # also signs service account tokens
        "accounts.pub": public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        "tokens.csv": f'{token},admin,1,"system:masters"\n'.encode(),
    }
    for name, text in written.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(text)
    clients, peers, secure = free_ports(3)
    store = await _start_store(started, folder, clients, peers)
    address = Address(f"https://{HOST}:{port or secure}", tls.authority)
    flags = [
        f"--etcd-servers={store}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port or secure}",
        f"--tls-cert-file={folder / 'tls.crt'}",
        f"--tls-private-key-file={folder / 'tls.key'}",
        f"--service-cluster-ip-range={_SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'tls.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        *([] if accounts else [f"--disable-admission-plugins={_ACCOUNTS}"]),
        *more_flags,
    ]
    health = Health(f"{address.url}/readyz", address.trust(), token)
    await started.start("kube-apiserver", *flags, health=health)
    return address


async def start_managers(
    started: Processes,
    folder: Path,
    address: Address,
    *,
    token: str,
    controllers: Sequence[str] = ("*",),
    more_flags: Sequence[str] = (),
) -> None:
    """Starts kube-controller-manager and kube-scheduler for an API server, real or not. Only the listed controllers
    run. Both programs get the additional flags."""
    kubeconfig, authority = folder / "managers.kubeconfig", folder / "managers.crt"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(address.kubeconfig(token), encoding="utf-8")
    authority.write_bytes(address.authority)
    manager, scheduler = free_ports(2)
    common = (f"--kubeconfig={kubeconfig}", f"--bind-address={HOST}", "--leader-elect=false", *more_flags)
    signs = folder / "tls.key"
    await started.start(
        "kube-controller-manager",
        *common,
        f"--secure-port={manager}",
        f"--root-ca-file={authority}",
        *([f"--service-account-private-key-file={signs}"] if signs.exists() else []),
        f"--controllers={','.join(controllers)}",
        health=Health(f"https://{HOST}:{manager}/healthz"),
    )
    await started.start(
        "kube-scheduler",
        *common,
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--secure-port={scheduler}",
        health=Health(f"https://{HOST}:{scheduler}/healthz"),
    )


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in taken]


async def _start_store(started: Processes, folder: Path, clients: int, peers: int) -> str:
    store, ring = f"http://{HOST}:{clients}", f"http://{HOST}:{peers}"
    await started.start(
        "etcd",
        f"--data-dir={folder / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={store}",
        f"--advertise-client-urls={store}",
        f"--listen-peer-urls={ring}",
        f"--initial-advertise-peer-urls={ring}",
        f"--initial-cluster=default={ring}",
        health=Health(f"{store}/health"),
    )
    return store
