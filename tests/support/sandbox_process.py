"""`holdfast sandbox` as a process, and the settings that it prints. For tests of the command and of clients."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import botocore.session

import fetch_kubectl

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/sandbox/two-slots.yaml"
WITHIN_S = 60.0  # generous, because the host may be busy


def environ(folder: Path) -> dict[str, str]:
    """An environment without settings of the host, with one folder for all temporary files."""
    (folder / "tmp").mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder / "tmp")}


class Sandbox:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.output: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            self.output.append(line)
            if line.strip().startswith("karpenter-aws"):
                break
        else:
            raise AssertionError(process.stderr.read() if process.stderr else "")
        source = next(line for line in self.output if line.strip().startswith("source "))
        self.env_file = Path(shlex.split(source)[1])
        lines = self.env_file.read_text().splitlines()
        words = [shlex.split(line)[1] for line in lines if line.startswith("export ")]
        self.environ = dict(word.split("=", 1) for word in words)

    def kubectl(self, *arguments: str) -> str:
        command = [str(fetch_kubectl.kubectl()), *arguments]
        home = {"HOME": str(self.env_file.parent)}
        completed = subprocess.run(  # noqa: S603 - our own kubectl
            command, env=self.environ | home, check=True, capture_output=True, text=True
        )
        return completed.stdout

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
        """Stops the process, and returns its standard error."""
        self.process.send_signal(number)
        _, stderr = self.process.communicate(timeout=WITHIN_S)
        return stderr


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
