"""The images of `make e2e-install`, built with buildah: a base from Debian packages, Holdfast, and a pause container.

No registry is used. The base with pip stands in for python:slim, the one without a shell for a distroless image.
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

BASE: Final = "localhost/holdfast-e2e-base"
RUN_BASE: Final = "localhost/holdfast-e2e-run-base"
HOLDFAST: Final = "localhost/holdfast"
PAUSE: Final = "localhost/pause:1"

_SUITE: Final = "trixie"  # Debian 13 has Python 3.13
_PATH: Final = "PATH=/usr/local/bin:/usr/bin:/bin"
_BASES: Final = {
    BASE: ("minbase", "ca-certificates,python3,python3-pip,python3-venv"),
    RUN_BASE: (
        "extract",
        "base-files,libgcc-s1,libpython3.13-stdlib,libstdc++6,netbase,python3-minimal,tzdata",
    ),
}
_UNUSED: Final = (
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/var/lib/apt/*",
    "/var/cache/*",
)
_PAUSE_C: Final = "#include <unistd.h>\n#include <stdlib.h>\n#include <signal.h>\nstatic void end(int s) { exit(0); }\nint main(void) { signal(SIGTERM, end); signal(SIGINT, end); for (;;) pause(); }\n"
ENVIRONMENT: Final = os.environ | {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}


def build_bases() -> None:
    """Makes the bases that are not there yet. They are kept in buildah's storage."""
    for name, (variant, packages) in _BASES.items():
        if _exists(name):
            continue
        with tempfile.TemporaryDirectory(prefix="holdfast-base-") as folder:
            excluded = [f"--dpkgopt=path-exclude={path}" for path in _UNUSED]
            command = ["mmdebstrap", f"--variant={variant}", f"--include={packages}", *excluded]
            _run(*command, _SUITE, f"{folder}/root.tar")
            _build(name, Path(folder), f"FROM scratch\nADD root.tar /\nENV {_PATH}\n")


def build_pause() -> None:
    if _exists(PAUSE):
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-pause-") as folder:
        source = Path(folder, "pause.c")
        source.write_text(_PAUSE_C, encoding="ascii")
        _run("cc", "-static", "-Os", "-s", "-o", f"{folder}/pause", str(source))
        _build(PAUSE, Path(folder), 'FROM scratch\nCOPY pause /pause\nENTRYPOINT ["/pause"]\n')


def build_holdfast(root: Path, tag: str) -> str:
    """Builds the image of a checkout as its `make image` does. The certificates and pip's settings are those of the host."""
    mounts = [
        f"--volume={path}:{path}:ro" for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()
    ]
    name = f"{HOLDFAST}:{tag}"
    flags = ["--builder", "buildah", "--base", BASE, "--run-base", RUN_BASE, "--tag", name, "--", *mounts]
    _run(str(Path(__file__).parents[2] / ".venv/bin/python"), str(root / "scripts/build_image.py"), *flags)
    return name


def export(name: str, folder: Path) -> Path:
    """The image as an archive that containerd imports."""
    path = folder / f"{name.rpartition('/')[2].replace(':', '-')}.tar"
    path.unlink(missing_ok=True)
    _run("buildah", "push", "--quiet", name, f"oci-archive:{path}:{name}")
    return path


def image_id(name: str) -> str:
    return _run("buildah", "inspect", "--format", "{{.FromImageID}}", "--type", "image", name).strip()


def _exists(name: str) -> bool:
    command = ["buildah", "inspect", "--type", "image", name]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False).returncode == 0


def _build(name: str, folder: Path, dockerfile: str) -> None:
    (folder / "Dockerfile").write_text(dockerfile, encoding="ascii")
    _run("buildah", "build", "--quiet", "--tag", name, str(folder))


def _run(*command: str) -> str:
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
    return done.stdout
