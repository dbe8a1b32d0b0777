"""The installed programs: output on a real terminal, `kubectl holdfast` with the real kubectl, completion in bash."""

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import fetch_kubectl
import report_documents as documents
from leader_server import PROXY, LeaderServer, serving

PROGRAMS = Path(sys.executable).parent
TEXTS = Path(__file__).resolve().parents[1] / "unit/data/cli"


@pytest.fixture(scope="module")
def server() -> Iterator[LeaderServer]:
    found = {
        "status": documents.STATUS,
        "reservations": documents.RESERVATIONS,
        "slots": documents.SLOTS,
        "search": documents.NEAR,
        "explain/pod/shop/web-5c9d7-2xkqv": documents.POD,
    }
    with serving(found) as started:
        yield started


def environment(server: LeaderServer, **more: str) -> dict[str, str]:
    path = f"{PROGRAMS}:{os.environ['PATH']}"
    kept = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "COLUMNS", "TERM"}}
    return {**kept, "HOLDFAST_SERVER": server.url, "PATH": path, "TERM": "xterm", **more}


def on_terminal(env: dict[str, str], *words: str, width: int = 80) -> str:
    """What the program writes to a terminal of this width."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    with subprocess.Popen([PROGRAMS / words[0], *words[1:]], stdin=inner, stdout=inner, env=env) as process:  # noqa: S603
        os.close(inner)
        written = b""
        try:
            while chunk := os.read(outer, 65_536):
                written += chunk
        except OSError:  # the program closed the terminal
            pass
        os.close(outer)
        assert process.wait(30) == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_gets_colors_and_lines_of_its_width(server: LeaderServer, width: int) -> None:
    text = on_terminal(environment(server), "holdfast", "reservations", width=width)
    assert "\x1b[1m" in text
    assert "\x1b[33m" in text
    plain = on_terminal(environment(server, NO_COLOR="1"), "holdfast", "reservations", width=width)
    assert plain == (TEXTS / f"reservations-{width}.txt").read_text(encoding="utf-8")


def test_a_dumb_terminal_gets_no_escapes(server: LeaderServer) -> None:
    text = on_terminal(environment(server, TERM="dumb"), "holdfast", "status")
    assert text == (TEXTS / "status-80.txt").read_text(encoding="utf-8")


def test_a_pipe_gets_plain_text(server: LeaderServer) -> None:
    done = call(environment(server), PROGRAMS / "holdfast", "status")
    assert done.stdout == (TEXTS / "status-plain.txt").read_text(encoding="utf-8")


def call(env: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603


def test_kubectl_runs_the_plugin(server: LeaderServer) -> None:
    kubectl, env = fetch_kubectl.kubectl(), environment(server)
    done = call(env, kubectl, "holdfast", "explain", "pod", "web-5c9d7-2xkqv", "-n", "shop")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (TEXTS / "explain-plain.txt").read_text(encoding="utf-8")
    missing = call(env, kubectl, "holdfast", "explain", "pod", "web-1")
    assert missing.returncode == 1
    assert missing.stderr.splitlines() == [
        "kubectl holdfast explain: there is no pod web-1 in namespace default",
        "Did you mean:",
        "  kubectl holdfast explain pod web-5c9d7-2xkqv -n shop",
        "  kubectl holdfast explain pod web-5c9d7-8hj2m -n shop",
        "  kubectl holdfast explain node web-node",
    ]
    usage = call(env, kubectl, "holdfast", "explain", "--help")
    assert usage.stdout.startswith("Usage: kubectl holdfast explain [OPTIONS] KIND [NAME]\n")


def test_the_leader_is_asked_through_kubectl_proxy(server: LeaderServer, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(server.kubeconfig, encoding="utf-8")
    kubectl, env = fetch_kubectl.kubectl(), environment(server, KUBECONFIG=str(tmp_path / "config"))
    command = [str(kubectl), "proxy", "--port=0"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as proxy:  # noqa: S603
        try:
            assert proxy.stdout
            address = proxy.stdout.readline().split()[-1]  # Starting to serve on 127.0.0.1:39321
            done = call(env, PROGRAMS / "holdfast", "status", "--server", f"http://{address}{PROXY}")
        finally:
            proxy.terminate()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (TEXTS / "status-plain.txt").read_text(encoding="utf-8")


def test_kubectl_completes_the_plugin(server: LeaderServer) -> None:
    kubectl, env = fetch_kubectl.kubectl(), environment(server)

    def completed(*words: str) -> list[str]:
        lines = call(env, kubectl, "__complete", "holdfast", *words).stdout.splitlines()
        assert lines[-1] == ":4"
        return [line.partition("\t")[0] for line in lines[:-1]]

    assert completed("res") == ["reservations"]
    assert completed("explain", "node") == ["node", "nodeclaim", "nodepool"]
    assert completed("explain", "pod", "web-5c9d7-8") == ["web-5c9d7-8hj2m"]
    assert "--sort" in completed("reservations", "--s")


def test_bash_completes_commands_kinds_and_names(server: LeaderServer) -> None:
    bash = shutil.which("bash")
    assert bash

    def completed(*words: str) -> list[str]:
        script = f"""
            eval "$(_HOLDFAST_COMPLETE=bash_source holdfast)"
            COMP_WORDS=(holdfast {" ".join(repr(word) for word in words)})
            COMP_CWORD={len(words)}
            _holdfast_completion holdfast
            printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        done = call(environment(server), bash, "-c", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    assert completed("ex") == ["explain"]
    assert completed("explain", "node") == ["node", "nodeclaim", "nodepool"]
    assert completed("explain", "pod", "web-5c9d7-2") == ["web-5c9d7-2xkqv"]
    assert completed("explain", "pod", "shop/web-5c9d7-2") == ["shop/web-5c9d7-2xkqv"]
    assert completed("explain", "prov") == ["provisioningrequest"]
    assert completed("explain", "pod", "web", "-n", "s") == []
    assert completed("reservations", "--sort", "id") == ["id", "idle"]


def test_completion_without_a_leader_is_empty(server: LeaderServer) -> None:
    env = environment(server, HOLDFAST_SERVER="http://127.0.0.1:1", COMP_WORDS="holdfast explain pod a")
    env |= {"COMP_CWORD": "3", "_HOLDFAST_COMPLETE": "bash_complete"}
    done = call(env, PROGRAMS / "holdfast")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
