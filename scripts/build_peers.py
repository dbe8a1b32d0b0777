"""Builds the real programs that tests compare Holdfast with, from the Go modules in peers/: `make peers`.

Tests import it, too. Binaries are in a cache outside the repository, in a folder named after the pinned versions, so
they are built once for each set of versions. The folder `current` beside it has links to the last ones; `holdfast` uses
these. A program in KUBEBUILDER_ASSETS or PATH is used instead. Exit code 3 without Go.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.sim import programs

PEERS: Final = Path(__file__).resolve().parents[1] / "peers"
NO_GO: Final = 3


class Peer(NamedTuple):
    module: str  # folder in peers/
    package: str
    flags: tuple[str, ...] = ()
    ours: bool = False  # only this repository has its source
    default: bool = True  # whether `make peers` builds it


KUBERNETES: Final = "k8s.io/kubernetes/cmd/"
# Nodes report it, and Kueue does not start with an API server whose version it cannot parse.
_BASE: Final = "k8s.io/component-base/version"
VERSION: Final = (f"-ldflags=-X {_BASE}.gitVersion=v1.36.3 -X {_BASE}.gitMajor=1 -X {_BASE}.gitMinor=36",)
# The oldest Kubernetes that Holdfast supports (docs/support.md). Programs have it in their name in the cache.
OLDEST: Final = "1.30"
OLDEST_PROGRAMS: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
OLDEST_VERSION: Final = (
    f"-ldflags=-X {_BASE}.gitVersion=v1.30.14 -X {_BASE}.gitMajor=1 -X {_BASE}.gitMinor=30",
)
OLDER: Final = ("-modfile=karpenter-1.14.mod", "-tags=karpenter_1_14")
ALL: Final[Mapping[str, Peer]] = {
    "etcd": Peer("control-plane", "./etcd"),
    "kube-apiserver": Peer("control-plane", KUBERNETES + "kube-apiserver", VERSION),
    "kube-controller-manager": Peer("control-plane", KUBERNETES + "kube-controller-manager", VERSION),
    "kube-scheduler": Peer("control-plane", KUBERNETES + "kube-scheduler", VERSION),
    **{
        f"{name}-{OLDEST}": Peer("control-plane-oldest", KUBERNETES + name, OLDEST_VERSION, default=False)
        for name in OLDEST_PROGRAMS
    },
    "kubelet": Peer("kubelet", KUBERNETES + "kubelet", VERSION, default=False),
    "kueue": Peer("kueue", "sigs.k8s.io/kueue/cmd/kueue"),
    "kwok": Peer("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "karpenter-aws": Peer("karpenter-aws", "github.com/aws/karpenter-provider-aws/cmd/controller"),
    "kubeconform": Peer("chart-tools", "github.com/yannh/kubeconform/cmd/kubeconform", default=False),
    "helm-unittest": Peer(
        "chart-tools", "github.com/helm-unittest/helm-unittest/cmd/helm-unittest", default=False
    ),
    "actionlint": Peer("workflow-tools", "github.com/rhysd/actionlint/cmd/actionlint", default=False),
    "karpenter-plan-1.14": Peer("karpenter-plan", ".", OLDER, ours=True),
    "karpenter-plan-1.15": Peer("karpenter-plan", ".", ours=True),
}


class NoGoError(Exception):
    """A program must be built, and Go is not installed."""


def main(names: list[str]) -> int:
    os.nice(10)
    names = names or [name for name, peer in ALL.items() if peer.default]
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name} ...", end=" ", flush=True)
        try:
            path = binary(name)
        except NoGoError as error:
            print()
            print(error, file=sys.stderr)
            return NO_GO
        except subprocess.CalledProcessError as error:
            print()
            print(error.stderr, file=sys.stderr)
            return 1
        print(path, flush=True)
    return 0


def binary(name: str) -> Path:
    """The path of the program. Builds it if necessary."""
    given = None if ALL[name].ours else programs.given(name)
    return given or _linked(_built(name))


def _linked(path: Path) -> Path:
    link = programs.cache() / "current" / path.name
    if not link.is_symlink() or link.readlink() != path:
        link.parent.mkdir(parents=True, exist_ok=True)
        fresh = link.with_name(f"{link.name}.{os.getpid()}")
        fresh.symlink_to(path)
        fresh.replace(link)
    return path


def _built(name: str) -> Path:
    peer = ALL[name]
    path = programs.cache() / f"{peer.module}-{_pins(PEERS / peer.module)}" / name
    if path.exists():
        return path
    go = shutil.which("go")
    if go is None:
        raise NoGoError(f"{name} has to be built from peers/{peer.module}, and there is no go on PATH")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{name}.{os.getpid()}")
    # Some modules need a newer patch release of Go than the installed one; Go downloads it like a module.
    subprocess.run(  # noqa: S603 - a command of our own
        [go, "build", *peer.flags, "-o", str(partial), peer.package],
        cwd=PEERS / peer.module,
        env=os.environ | {"GOTOOLCHAIN": "auto", "GOFLAGS": "-buildvcs=false"},
        check=True,
        capture_output=True,
        text=True,
    )
    partial.replace(path)
    return path


def _pins(module: Path) -> str:
    """A hash of the pinned versions and the sources."""
    digest = hashlib.sha256()
    for path in sorted(module.rglob("*")):
        if path.is_file():
            digest.update(str(path.relative_to(module)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
