"""`holdfast sandbox` as a real process: kubectl and botocore find a world, and nothing is left when it ends."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import botocore.session
import pytest

import fetch_kubectl

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/sandbox/two-slots.yaml"
WITHIN_S = 60.0  # of a machine that is busy with much else


def environ(folder: Path) -> dict[str, str]:
    """Nothing of this machine's own, and one place for everything temporary."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder / "tmp")}


class Sandbox:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            self.said.append(line)
            if line.strip().startswith("karpenter-aws"):
                break
        else:
            raise AssertionError(process.stderr.read() if process.stderr else "")
        source = next(line for line in self.said if line.strip().startswith("source "))
        self.env_file = Path(shlex.split(source)[1])
        words = shlex.split(self.env_file.read_text())
        self.environ = dict(word.split("=", 1) for word in words if word != "export")

    def kubectl(self, *arguments: str) -> str:
        command = [str(fetch_kubectl.kubectl()), *arguments]
        home = {"HOME": str(self.env_file.parent)}
        done = subprocess.run(  # noqa: S603 - our own kubectl
            command, env=self.environ | home, check=True, capture_output=True, text=True
        )
        return done.stdout

    def client(self, service: str) -> Any:
        session = botocore.session.Session()
        return session.create_client(
            service,
            region_name=self.environ["AWS_REGION"],
            endpoint_url=self.environ["AWS_ENDPOINT_URL"],
            aws_access_key_id=self.environ["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environ["AWS_SECRET_ACCESS_KEY"],
        )

    def stop(self, number: int = signal.SIGTERM) -> str:
        """What it wrote to standard error."""
        self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=WITHIN_S)
        return complaints


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", "holdfast", "sandbox", *arguments],
        cwd=ROOT, env=environ(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Sandbox]:
    process = start(folder, *arguments)
    try:
        yield Sandbox(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def fails(folder: Path, *arguments: str) -> list[str]:
    """The lines of the complaint."""
    _, complaints = (process := start(folder, *arguments)).communicate(timeout=WITHIN_S)
    assert process.returncode == 1
    assert list((folder / "tmp").iterdir()) == []
    return complaints.splitlines()


def listens(url: str) -> bool:
    address = urlsplit(url)
    with socket.socket() as line:
        return line.connect_ex((address.hostname or "", address.port or 0)) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_world_is_there_until_it_is_told_to_go_and_nothing_of_it_is_left(
    tmp_path: Path, number: int
) -> None:
    with running(tmp_path) as sandbox:
        urls = [sandbox.environ["CLUSTER_ENDPOINT"], sandbox.environ["AWS_ENDPOINT_URL"]]
        assert [listens(url) for url in urls] == [True, True]
        assert sandbox.env_file.with_name("kubeconfig").stat().st_mode & 0o077 == 0
        assert sandbox.stop(number) == ""
        assert sandbox.process.returncode == 0
    assert [listens(url) for url in urls] == [False, False]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_scenario_is_what_kubectl_and_botocore_find(tmp_path: Path) -> None:
    with running(tmp_path, str(EXAMPLE)) as sandbox:
        listed = sandbox.kubectl("get", "nodepools,ec2nodeclasses,deployments", "-o", "name").split()
        assert listed == [
            "nodepool.karpenter.sh/two-slots",
            "ec2nodeclass.karpenter.k8s.aws/two-slots",
            "deployment.apps/shop",
        ]
        until = time.monotonic() + WITHIN_S
        while sandbox.kubectl("get", "pods", "-o", "name").count("pod/shop") < 3:
            assert time.monotonic() < until
            time.sleep(0.2)
        (reservation,) = sandbox.client("ec2").describe_capacity_reservations()["CapacityReservations"]
        assert (reservation["TotalInstanceCount"], reservation["AvailableInstanceCount"]) == (3, 2)
        who = sandbox.client("sts").get_caller_identity()
        assert who["Account"] == "111122223333"
        endpoint = sandbox.client("eks").describe_cluster(name="holdfast")["cluster"]["endpoint"]
        assert endpoint == sandbox.environ["CLUSTER_ENDPOINT"]
        assert sandbox.stop() == ""


def test_a_folder_of_ones_own_is_used_and_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "world"
    with running(tmp_path, "--folder", str(folder)) as sandbox:
        assert sandbox.environ["KUBECONFIG"] == str(folder / "kubeconfig")
        sandbox.stop()
    assert not folder.exists()
    folder.mkdir()
    (folder / "precious").touch()
    assert fails(tmp_path, "--folder", str(folder)) == [f"{folder} is not empty"]
    assert (folder / "precious").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: World", "{file}:1: World: .apiVersion: required, and not there"),
        (
            "apiVersion: holdfast.dev/v1alpha1\nkind: World\nmetadata: {name: x}\nspec: {region: mars-1}",
            "{file}:4: World/x: .spec.region: mars-1 is not a region that is shipped (eu-west-1, us-east-1, us-west-2)",
        ),
        (
            "apiVersion: holdfast.dev/v1alpha1\nkind: World\nmetadata: {name: x}\nspec:\n  start: 2026-11-15T10:00:00Z",
            "{file}:5: World/x: .spec.start: time is real in a sandbox: leave it out",
        ),
        (
            "apiVersion: v1\nkind: Pood\nmetadata: {name: x}",
            "{file}:1: Pood/x: the API server knows no Pood of v1",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndate: {}",
            (
                '{file}:1: ConfigMap/x: POST /api/v1/namespaces/default/configmaps: ConfigMap in version "v1" '
                'cannot be handled as a ConfigMap: strict decoding error: unknown field "date"'
            ),
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said_and_nothing_is_left(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(text)
    assert fails(tmp_path, str(file)) == [said.format(file=file)]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (line,) = fails(tmp_path, "--aws-port", str(port))
    assert str(port) in line
    assert "address already in use" in line


def test_a_real_control_plane_that_is_not_there_is_asked_for_in_one_line(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "")
        (line,) = fails(tmp_path, "--control-plane", "real")
    assert line.startswith("etcd is neither in KUBEBUILDER_ASSETS nor on PATH")
