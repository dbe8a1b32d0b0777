"""Two real kubelets with containerd on one host, each in its own network namespace: for `make e2e-install`.

The caller runs in the namespace of the first node, together with the control plane and the simulated AWS, which listen on
loopback. Pods reach them under service addresses, which iptables rewrites: there is no kube-proxy.
"""

import contextlib
import ipaddress
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.sim import control_plane

NAMESPACE: Final = "holdfast-e2e"
API_SERVICE: Final = control_plane.SERVICE_ADDRESS
AWS_SERVICE: Final = "10.96.0.2"
_LINK: Final = "10.201.0"  # between the two nodes: .1 and .2
PACKAGES: Final = {
    "buildah": "buildah",
    "containerd": "containerd",
    "runc": "runc",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "socat": "socat",
    "promtool": "prometheus",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
_POD_NAMESPACES: Final = Path("/run/netns")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_TAINT: Final = "CriticalAddonsOnly"  # so that only Holdfast runs on the real nodes
_READY_S: Final = 90.0


@dataclass(frozen=True)
class Node:
    name: str
    folder: Path
    namespace: str
    address: str
    pods: str  # CIDR
    cgroup: str  # below every hierarchy; "/" for the first node

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    def enter(self) -> tuple[str, ...]:
        return ("nsenter", f"--net=/run/netns/{self.namespace}")


def missing() -> list[str]:
    """The Debian packages that have to be installed first."""
    return sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})


@contextlib.contextmanager
def namespaces() -> Iterator[None]:
    """The network namespaces of both nodes, connected by a pair of interfaces."""
    first, second = NAMESPACE, f"{NAMESPACE}-2"
    with contextlib.ExitStack() as stack:
        stack.callback(_delete_pod_namespaces, set(_POD_NAMESPACES.glob("cni-*")))
        for name in (first, second):
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name, check=False)
            _run("ip", "-n", name, "link", "set", "lo", "up")
        _run(
            "ip", "-n", first, "link", "add", "to-2", "type", "veth", "peer", "name", "to-1", "netns", second
        )
        for name, device, end in ((first, "to-2", 1), (second, "to-1", 2)):
            _run("ip", "-n", name, "address", "add", f"{_LINK}.{end}/24", "dev", device)
            _run("ip", "-n", name, "link", "set", device, "up")
        _run("ip", "-n", second, "route", "add", "default", "via", f"{_LINK}.1")
        for name, pods, end in ((first, _pods(2), 2), (second, _pods(1), 1)):
            _run("ip", "-n", name, "route", "replace", pods, "via", f"{_LINK}.{end}")
        yield


def _delete_pod_namespaces(before: set[Path]) -> None:
    """containerd leaves those of pods that ran when it was stopped."""
    for path in set(_POD_NAMESPACES.glob("cni-*")) - before:
        _run("ip", "netns", "delete", path.name, check=False)


def nodes(folder: Path) -> tuple[Node, Node]:
    return (
        Node("real-1", folder / "real-1", NAMESPACE, f"{_LINK}.1", _pods(1), "/"),
        Node("real-2", folder / "real-2", f"{NAMESPACE}-2", f"{_LINK}.2", _pods(2), f"/{NAMESPACE}-2"),
    )


def rewrite(api_port: int, aws_port: int) -> None:
    """Sends what is addressed to the services to the ports on loopback. Runs in the namespace of the first node."""
    for name in ("net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet"):
        Path("/proc/sys", name).write_text("1", encoding="ascii")
    for service, port, to in ((API_SERVICE, 443, api_port), (AWS_SERVICE, 80, aws_port)):
        _run("ip", "address", "add", f"{service}/32", "dev", "lo")
        for chain in ("PREROUTING", "OUTPUT"):
            match = ("-p", "tcp", "-d", service, "--dport", str(port))
            _run("iptables", "-t", "nat", "-A", chain, *match, "-j", "DNAT", "--to", f"127.0.0.1:{to}")


@contextlib.contextmanager
def running(
    node: Node, *, kubelet: Path, kubeconfig: Path, images: Sequence[Path], names: Mapping[str, str]
) -> Iterator[None]:
    """containerd with these images, and the kubelet, until the block ends. `names` are more names of images: their new
    and their old name."""
    with contextlib.ExitStack() as stack:
        _write(node)
        stack.callback(_remove_cgroups, node)
        containerd = _start(
            node, "containerd", "containerd", "--config", str(node.folder / "containerd.toml")
        )
        stack.callback(_stop, containerd)
        _until(lambda: _ctr(node, "version", check=False) == 0, "containerd answers")
        for image in images:
            _ctr(node, "--namespace", "k8s.io", "images", "import", str(image))
        for new, old in names.items():
            _ctr(node, "--namespace", "k8s.io", "images", "tag", old, new)
        flags = {
            "config": node.folder / "kubelet.yaml",
            "kubeconfig": kubeconfig,
            "root-dir": node.folder / "kubelet",
            "cert-dir": node.folder / "pki",
            "hostname-override": node.name,
            "node-ip": node.address,
        }
        process = _start(node, "kubelet", str(kubelet), *(f"--{key}={value}" for key, value in flags.items()))
        stack.callback(_remove_containers, node)
        stack.callback(_stop, process)
        yield


def _write(node: Node) -> None:
    for name in ("containerd", "state", "kubelet", "cni", "logs"):
        (node.folder / name).mkdir(parents=True, exist_ok=True)
    (node.folder / "containerd.toml").write_text(
        f"""version = 2
root = "{node.folder}/containerd"
state = "{node.folder}/state"
[grpc]
address = "{node.socket}"
[plugins."io.containerd.grpc.v1.cri"]
restrict_oom_score_adj = true
sandbox_image = "localhost/pause:1"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{node.folder}/cni"
""",
        encoding="utf-8",
    )
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": False,
        "ipam": {
            "type": "host-local",
            "dataDir": str(node.folder / "addresses"),
            "ranges": [[{"subnet": node.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    network = {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }
    (node.folder / "cni/10-pods.conflist").write_text(json.dumps(network), encoding="utf-8")
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "failCgroupV1": False,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(node.folder / "logs"),
        "registerWithTaints": [{"key": _TAINT, "value": "true", "effect": "NoSchedule"}],
        "healthzPort": 0,
        "clusterDomain": "cluster.local",
        "evictionHard": {"memory.available": "100Mi"},
    }
    (node.folder / "kubelet.yaml").write_text(json.dumps(config), encoding="utf-8")
    if node.cgroup != "/":
        _make_cgroups(node)


def _make_cgroups(node: Node) -> None:
    """A kubelet of its own root in every hierarchy of cgroup v1; with v2 the kubelet makes it."""
    for hierarchy in _hierarchies():
        folder = hierarchy / node.cgroup.lstrip("/")
        folder.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / name).exists():
                (folder / name).write_text((hierarchy / name).read_text(encoding="ascii"), encoding="ascii")


def _remove_cgroups(node: Node) -> None:
    # runc also makes cgroups in the unified hierarchy of a host with v1.
    for hierarchy in (*_hierarchies(), _CGROUPS / "unified"):
        roots = [hierarchy / "kubepods"] if node.cgroup == "/" else [hierarchy / node.cgroup.lstrip("/")]
        for root in roots:
            for folder in sorted(root.rglob("*"), key=lambda path: -len(path.parts)):
                if folder.is_dir():
                    with contextlib.suppress(OSError):
                        folder.rmdir()
            with contextlib.suppress(OSError):
                root.rmdir()


def _hierarchies() -> list[Path]:
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [path for path in _CGROUPS.iterdir() if path.is_dir() and path.name != "unified"]


def _remove_containers(node: Node) -> None:
    """Ends all containers: a kubelet that stops leaves them."""
    listed = _ctr_text(node, "--namespace", "k8s.io", "tasks", "list", "--quiet").split()
    for task in listed:
        _ctr(
            node, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", "--all", task, check=False
        )
    for task in listed:
        _ctr(node, "--namespace", "k8s.io", "tasks", "delete", "--force", task, check=False)
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()[::-1]:
        target = line.split()[1]
        if target.startswith(str(node.folder)):
            _run("umount", "--lazy", target, check=False)


def kill_container(node: Node, pod_uid: str) -> None:
    """Kills the processes of a pod's container, as a crash does. The kubelet starts it again."""
    for line in _ctr_text(node, "--namespace", "k8s.io", "containers", "list", "--quiet").split():
        described = json.loads(_ctr_text(node, "--namespace", "k8s.io", "containers", "info", line))
        labels: Mapping[str, str] = described.get("Labels") or {}
        if (
            labels.get("io.kubernetes.pod.uid") == pod_uid
            and labels.get("io.cri-containerd.kind") == "container"
        ):
            _ctr(node, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", line)


def _start(node: Node, name: str, *command: str) -> "subprocess.Popen[bytes]":
    with (node.folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([*node.enter(), *command], stdout=log, stderr=log, start_new_session=True)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ctr(node: Node, *arguments: str, check: bool = True) -> int:
    return _run("ctr", "--address", str(node.socket), *arguments, check=check)


def _ctr_text(node: Node, *arguments: str) -> str:
    command = ["ctr", "--address", str(node.socket), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + _READY_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_READY_S:.0f} s: {what}")
        time.sleep(0.2)


def _pods(node: int) -> str:
    return str(ipaddress.ip_network(f"10.20{node + 1}.0.0/24"))


def _run(*command: str, check: bool = True) -> int:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode
