"""A whole release, built twice from clones of the last commit, in two folders. Run by `make check-release`.

The clones get a tag and a section in CHANGELOG.md, and a key is made for the test. The commands that verify a release
are those of docs/releasing.md. An image is built only with IMAGE, which has the flags of `make image`.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import build_wheels
import charts
from releaselib import archives
from repositories import check_sums, commit, git, new_key, run, signers

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.9.0"
IMAGE = os.environ.get("IMAGE", "").strip()


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_key(tmp_path_factory.mktemp("key"), "key")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, key: Path) -> Path:
    """A clone of the last commit, with a commit that prepares the release, and its tag."""
    clone = tmp_path_factory.mktemp("first") / "holdfast"
    run(ROOT, "git", "clone", "--quiet", str(ROOT), str(clone))
    changelog = clone / "CHANGELOG.md"
    heading = "## [Unreleased]"
    new = f"{heading}\n\n## [{VERSION}] - 2026-11-17"
    changelog.write_text(changelog.read_text(encoding="utf-8").replace(heading, new), encoding="utf-8")
    signers(key.parent, key).rename(clone / "release-signers")
    commit(clone, "docs/a-release")
    git(clone, "tag", f"v{VERSION}")
    return clone


@pytest.fixture(scope="module")
def release(repository: Path, key: Path) -> Path:
    return build(repository, key)


def build(clone: Path, key: Path) -> Path:
    (clone / ".cache").mkdir(exist_ok=True)
    tools = build_wheels.tools().parents[1]  # 400 MiB that each clone would download
    (clone / ".cache/wheel-tools").symlink_to(tools)
    words = ["--key", str(key), *(["--image", IMAGE] if IMAGE else ["--without-image"])]
    command = [sys.executable, str(clone / "scripts/build_release.py"), *words]
    subprocess.run(command, cwd=clone, check=True)  # noqa: S603 - its output shows how far it is
    return clone / f"dist/release-{VERSION}"


def documented_commands() -> str:
    """The commands below `## Verify a release`."""
    text = (ROOT / "docs/releasing.md").read_text(encoding="utf-8").split("## Verify a release")[1]
    found = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def verify(folder: Path, repository: Path) -> int:
    (folder / "release-signers").write_bytes((repository / "release-signers").read_bytes())
    return run(folder, "bash", "-euc", documented_commands(), check=False).returncode


def test_release_has_all_files_and_its_notes(release: Path, repository: Path) -> None:
    wheel = "holdfast-{}-py3-none-manylinux_2_17_{}.manylinux2014_{}.musllinux_1_1_{}.whl"
    expected = {wheel.format(VERSION, *[machine] * 3) for machine in ("x86_64", "aarch64")}
    expected |= {f"holdfast-{VERSION}{suffix}" for suffix in (".tar.gz", ".tgz", ".sbom.cdx.json")}
    expected |= {f"holdfast-crd-{VERSION}.tgz", "RELEASE_NOTES.md", "SHA256SUMS", "SHA256SUMS.sig"}
    found = {path.name for path in release.iterdir()}
    assert {name for name in found if "-image-" not in name} == expected
    assert len(found - expected) == (2 if IMAGE else 0)
    lines = (release / "RELEASE_NOTES.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == f"# Holdfast {VERSION}"
    assert set(lines[1:]) <= set((repository / "CHANGELOG.md").read_text(encoding="utf-8").splitlines())


def test_second_clone_builds_the_same_bytes(
    release: Path, repository: Path, key: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "another-folder"
    run(ROOT, "git", "clone", "--quiet", str(repository), str(clone))
    again = build(clone, key)
    for name in ("SHA256SUMS", "SHA256SUMS.sig"):
        assert (again / name).read_text() == (release / name).read_text()


def test_documented_commands_accept_the_release_and_refuse_changes(
    release: Path, repository: Path, tmp_path: Path
) -> None:
    run(ROOT, "cp", "-r", str(release), str(tmp_path / "copy"))
    copy = tmp_path / "copy"
    assert verify(copy, repository) == 0
    chart = copy / f"holdfast-{VERSION}.tgz"
    chart.write_bytes(chart.read_bytes() + b"\0")
    assert check_sums(copy) != 0
    assert verify(copy, repository) != 0
    # With a checksum for the changed file, the signature is no longer valid.
    sums = copy / "SHA256SUMS"
    digest = run(copy, "sha256sum", chart.name).stdout
    others = [line for line in sums.read_text().splitlines(keepends=True) if chart.name not in line]
    sums.write_text("".join([*others, digest]))
    assert check_sums(copy) == 0
    assert verify(copy, repository) != 0


def test_package_charts_and_sbom_have_the_version_of_the_tag(release: Path, tmp_path: Path) -> None:
    for name in ("holdfast", "holdfast-crd"):
        chart = release / f"{name}-{VERSION}.tgz"
        with tarfile.open(chart) as tar:
            file = tar.extractfile(f"{name}/Chart.yaml")
            assert file is not None
            found = yaml.safe_load(file)
        assert (found["version"], found["appVersion"]) == (VERSION, VERSION)
    packaged = release / f"holdfast-{VERSION}.tgz"
    objects = charts.render("defaults", "--set", "settings.clusterName=demo", chart=packaged)
    assert charts.controller(objects)["image"] == f"holdfast:{VERSION}"
    sbom = json.loads((release / f"holdfast-{VERSION}.sbom.cdx.json").read_text(encoding="utf-8"))
    assert sbom["metadata"]["component"]["version"] == VERSION
    assert len(sbom["components"]) > 20
    (wheel,) = release.glob("*x86_64.whl")
    assert version_of(wheel, tmp_path / "wheel") == VERSION


def test_sdist_builds_a_wheel_of_the_same_version(release: Path, tmp_path: Path) -> None:
    tools = build_wheels.tools()
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    run(release, str(tools), "-m", "pip", "wheel", *words, str(release / f"holdfast-{VERSION}.tar.gz"))
    (wheel,) = tmp_path.glob("*.whl")
    assert version_of(wheel, tmp_path / "sdist") == VERSION


def version_of(wheel: Path, folder: Path) -> str:
    """What `holdfast --version` of the wheel prints."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)  # noqa: S202 - our own wheel
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-P", "-m", "holdfast", "--version"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    return done.stdout.split()[-1]


if IMAGE:

    def test_image_has_the_version_and_its_digest_is_listed(release: Path) -> None:
        (archive,) = release.glob(f"holdfast-image-{VERSION}-linux-*.oci.tar")
        assert archive.with_suffix(".digest").read_text().strip() == archives.image_digest(archive)
        metadata = archives.image_file(archive, f"opt/holdfast/holdfast-{VERSION}.dist-info/METADATA")
        assert f"Version: {VERSION}\n" in metadata.decode()
        with tarfile.open(archive) as tar:
            file = tar.extractfile("index.json")
            assert file is not None
            index: dict[str, Any] = json.load(file)
        name = index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
        assert name.endswith(f":{VERSION}")
