"""Signs SHA256SUMS with an SSH key, and verifies the signature as users do: with `ssh-keygen -Y`.

The key is a file, or the text of one in an environment variable, as a secret of GitHub is. No key is ever created here.
A key of which `release-signers` has no public key is refused: users could not verify its signatures.
"""

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from releaselib import ReleaseError

SIGNER: Final = "holdfast"  # the name of the key's owner in release-signers
NAMESPACE: Final = "file"
KEY_FILE: Final = "HOLDFAST_SIGNING_KEY_FILE"
KEY_TEXT: Final = "HOLDFAST_SIGNING_KEY"


@contextlib.contextmanager
def key_file(given: Path | None, environ: Mapping[str, str]) -> Iterator[Path]:
    """The path of the key. A key from the environment is in a file only inside the block."""
    named = given or (Path(environ[KEY_FILE]) if environ.get(KEY_FILE) else None)
    if named is not None:
        if not named.is_file():
            raise ReleaseError(f"the signing key {named} does not exist")
        yield named
        return
    if not environ.get(KEY_TEXT):
        raise ReleaseError(
            f"no signing key: give --key, {KEY_FILE} (a path) or {KEY_TEXT} (the key itself); "
            "or build with --without-signature"
        )
    with tempfile.TemporaryDirectory(prefix="holdfast-key-") as folder:
        path = Path(folder, "key")
        path.touch(mode=0o600)
        path.write_text(environ[KEY_TEXT].strip() + "\n", encoding="ascii")
        yield path


def check_key(key: Path, signers: Path) -> None:
    """Signs and verifies a test file, so that a wrong key fails before anything is built."""
    with tempfile.TemporaryDirectory(prefix="holdfast-key-") as folder:
        probe = Path(folder, "probe")
        probe.write_text("probe\n", encoding="ascii")
        verify(probe, sign(probe, key), signers)


def sign(path: Path, key: Path) -> Path:
    """Writes the signature beside the file."""
    signature = path.with_name(f"{path.name}.sig")
    signature.unlink(missing_ok=True)
    command = ["ssh-keygen", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(path)]
    done = _run(command, None)
    if done.returncode:
        raise ReleaseError(f"ssh-keygen cannot sign with {key}: {_text(done)}")
    return signature


def verify(path: Path, signature: Path, signers: Path) -> None:
    """Raises ReleaseError if no key in `signers` made the signature of exactly this file."""
    if not signers.is_file():
        raise ReleaseError(f"{signers} does not exist; it has to list the public keys of releases")
    command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", SIGNER, "-n", NAMESPACE]
    done = _run([*command, "-s", str(signature)], path.read_bytes())
    if done.returncode:
        raise ReleaseError(
            f"{path.name} is not signed by a key in {signers.name}: {_text(done)}; "
            f'a line there is: {SIGNER} namespaces="{NAMESPACE}" <public key>'
        )


def _run(command: list[str], content: bytes | None) -> subprocess.CompletedProcess[bytes]:
    """With the terminal of the caller, for passphrases, unless there is content for stdin."""
    environ = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(command, input=content, env=environ, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError:
        raise ReleaseError("ssh-keygen is not installed; it is part of OpenSSH 8.2 and newer") from None


def _text(done: subprocess.CompletedProcess[bytes]) -> str:
    return " ".join((done.stdout + done.stderr).decode(errors="replace").split())
