"""Git repositories and releases: commits, SSH keys that sign, and the commands with which users verify."""

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    return run(folder, "git", *author, *words).stdout.strip()


def commit(folder: Path, name: str) -> str:
    """Commits everything and a new file, and returns the id of the commit."""
    (folder / name).touch()
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", name)
    return git(folder, "rev-parse", "--short=9", "HEAD")


def new_key(folder: Path, name: str) -> Path:
    key = folder / name
    run(folder, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(key))
    return key


def signers(folder: Path, *keys: Path) -> Path:
    path = folder / "signers"
    lines = [f'holdfast namespaces="file" {key.with_suffix(".pub").read_text()}' for key in keys]
    path.write_text("# comment\n" + "".join(lines))
    return path


def check_sums(folder: Path) -> int:
    return run(folder, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", check=False).returncode


def run(folder: Path, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)  # noqa: S603
    assert not check or done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done
