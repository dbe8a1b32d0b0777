"""Builds everything that a release consists of into `dist/release-VERSION`: `make release`.

The version is that of git. Wheels, sdist, charts, image and SBOM are built from the commit; SHA256SUMS lists them, and
an SSH key signs it. Nothing is uploaded. It refuses a changed tree, a commit without a tag vX.Y.Z, a version without a
section in CHANGELOG.md, and a key that release-signers does not list. docs/releasing.md describes the steps.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final

import build_image
import build_wheels
import git_version
import image_contents
import package_charts
import wheels
from releaselib import ReleaseError, archives, notes, signing, sums

ROOT: Final = git_version.ROOT
SIGNERS: Final = ROOT / "release-signers"
NOTES: Final = "RELEASE_NOTES.md"
# The Python and the platform of the image, for which the SBOM lists the packages.
_SBOM_PYTHON: Final = "3.13"
_SBOM_PLATFORM: Final = "x86_64-manylinux_2_28"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def main(words: list[str]) -> int:
    options = _parser().parse_args(words)
    try:
        folder = release(options)
    except (ReleaseError, git_version.VersionError, build_image.NoBuilderError, wheels.WheelError) as error:
        print(f"make release: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"make release: {error}; its output is above", file=sys.stderr)
        return 1
    print(f"\n{folder}")
    for path in sorted(folder.iterdir()):
        print(f"  {path.stat().st_size / 1024:>10,.0f} KiB  {path.name}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="make release")
    parser.add_argument("--folder", type=Path, help="default: dist/release-VERSION")
    parser.add_argument(
        "--snapshot", action="store_true", help="a commit without a tag; the notes are those of Unreleased"
    )
    parser.add_argument("--without-image", action="store_true", help="where no image can be built")
    parser.add_argument(
        "--image", default="", help="flags of scripts/build_image.py, for example '--base X --run-base Y'"
    )
    parser.add_argument("--key", type=Path, help="SSH key that signs SHA256SUMS")
    parser.add_argument("--signers", type=Path, default=SIGNERS, help="public keys of releases")
    parser.add_argument("--without-signature", action="store_true")
    return parser


def release(options: argparse.Namespace) -> Path:
    """Checks everything that can be wrong, builds into a new folder, and returns it."""
    if os.environ.get(git_version.VARIABLE):
        raise ReleaseError(f"{git_version.VARIABLE} is set; unset it, a release has the version of git")
    version = git_version.version(ROOT)
    text = check_commit(ROOT, version, snapshot=options.snapshot)
    if not options.without_image:
        _find_builder()
    with contextlib.ExitStack() as stack:
        key = None
        if not options.without_signature:
            key = stack.enter_context(signing.key_file(options.key, os.environ))
            signing.check_key(key, options.signers)
        target = (options.folder or ROOT / "dist" / f"release-{version}").absolute()
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=target.parent))) / target.name
        folder.mkdir()
        (folder / NOTES).write_text(f"# Holdfast {version}\n\n{text}", encoding="utf-8")
        _build(folder, version, None if options.without_image else options.image.split())
        signed = sums.write(folder)
        if key:
            signing.verify(signed, signing.sign(signed, key), options.signers)
        shutil.rmtree(target, ignore_errors=True)
        folder.replace(target)
    return target


def check_commit(root: Path, version: str, *, snapshot: bool) -> str:
    """The release notes; raises ReleaseError if the commit cannot be released."""
    changed = git_version.git(root, "status", "--porcelain")
    if changed:
        raise ReleaseError(f"the working tree has changes; commit or remove them:\n{changed}")
    if not snapshot and not git_version.is_release(version):
        raise ReleaseError(
            f"the commit has no tag vX.Y.Z, its version is {version}; tag it, or build with --snapshot"
        )
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return notes.section(changelog, version if git_version.is_release(version) else notes.UNRELEASED)


def _find_builder() -> None:
    try:
        build_image.find_builder()
    except build_image.NoBuilderError as error:
        raise ReleaseError(f"{error}; or build with --without-image") from error


def _build(folder: Path, version: str, image_flags: list[str] | None) -> None:
    """`image_flags`: None without an image."""
    build_wheels.build(folder)
    build_wheels.build_sdist(folder)
    package_charts.package(folder, version)
    sbom = _sbom(folder, version)
    (folder / f"holdfast-{version}.sbom.cdx.json").write_text(sbom, encoding="utf-8")
    if image_flags is not None:
        _image(folder, version, sbom, image_flags)


def _sbom(folder: Path, version: str) -> str:
    """The packages of the image. They are installed into a folder, because their metadata have the licences."""
    (wheel,) = folder.glob(f"holdfast-*{build_wheels.MACHINES[0]}.whl")
    with tempfile.TemporaryDirectory(prefix="holdfast-sbom-") as name:
        words = ["pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", name]
        words += ["--python-version", _SBOM_PYTHON, "--python-platform", _SBOM_PLATFORM]
        lock = str(ROOT / "requirements/runtime.txt")
        uv = str(Path(sys.executable).with_name("uv"))
        subprocess.run([uv, *words, "--requirement", lock], check=True)  # noqa: S603 - our own uv
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(name, [one for one in archive.namelist() if ".dist-info/" in one])
        time_s = int(git_version.git(ROOT, "log", "-1", "--format=%ct"))
        document = image_contents.sbom(Path(name), version, time_s)
    return image_contents.text(document)


def _image(folder: Path, version: str, sbom: str, flags: list[str]) -> None:
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    archive = folder / f"holdfast-image-{git_version.image_tag(version)}-linux-{architecture}.oci.tar"
    # The flags of the builder are after `--`, so our own flag is before those of the caller.
    build_image.build(build_image.parser().parse_args(["--archive", str(archive), *flags]))
    archives.normalize(archive, int(git_version.git(ROOT, "log", "-1", "--format=%ct")))
    inside = archives.image_file(archive, f"opt/holdfast/{image_contents.SBOM}").decode()
    if json.loads(inside) != json.loads(sbom):
        raise ReleaseError("the SBOM of the release is not that of the image")
    digest = archives.image_digest(archive)
    archive.with_suffix(".digest").write_text(f"{digest}\n", encoding="ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
