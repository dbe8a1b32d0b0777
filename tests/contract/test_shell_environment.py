"""The file `env` of the sandbox and the demo, sourced by every shell that this computer has."""

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.app import shell_environment

SHELLS = [path for shell in ("sh", "dash", "bash", "zsh", "ksh") if (path := shutil.which(shell))]
SET_BY_SHELLS = ("PWD", "OLDPWD", "SHLVL", "_", "HOME", "LOGNAME")
PROXY = "proxy.example"
BEFORE = {
    "PATH": "/usr/bin:/bin",
    "KUBECONFIG": "/etc/my config",
    "AWS_PROFILE": "work",
    "AWS_ENDPOINT_URL_EC2": "https://ec2.example",
    "AWS_PAGER": "less -R",
    "NO_PROXY": PROXY,
}
VARIABLES = {"KUBECONFIG": "/tmp/it's here/kubeconfig", "AWS_REGION": "us-west-2", "AWS_PAGER": ""}  # noqa: S108 - not used


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    path.write_text(shell_environment.script(VARIABLES))
    return path


def variables(shell: str, *commands: str) -> dict[str, str]:
    """The exported variables after the commands, without those of the shell itself."""
    script = "\n".join(("set -eu", *commands, "env -0"))
    done = subprocess.run([shell, "-c", script], env=BEFORE, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stderr == ""
    found = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    return {name: value for name, value in found.items() if name not in SET_BY_SHELLS}


@pytest.mark.parametrize("shell", SHELLS)
def test_sourced_file_sets_its_variables_and_unsets_settings_that_the_aws_cli_prefers(
    shell: str, env: Path
) -> None:
    found = variables(shell, f". {env}")
    expected = VARIABLES | {"PATH": BEFORE["PATH"], "NO_PROXY": f"127.0.0.1,{PROXY}", "no_proxy": "127.0.0.1"}
    assert found == expected


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("shell", SHELLS)
def test_holdfast_off_restores_the_environment(shell: str, times: int, env: Path) -> None:
    nothing_left = "if set | grep -q ^HOLDFAST_; then exit 3; fi; if command -v holdfast_off; then exit 4; fi"
    assert variables(shell, *[f". {env}"] * times, "holdfast_off", nothing_left) == BEFORE
