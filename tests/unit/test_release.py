"""What `make release` refuses, the release notes, archives with equal bytes, checksums and signatures.

`make check-release` builds a whole release twice and compares.
"""

import io
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

import build_release
from releaselib import ReleaseError, archives, notes, signing, sums
from repositories import check_sums, commit, git, new_key, signers

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = """# Changelog

## [Unreleased]

### Fixed
- A third.

## [0.2.0] - 2026-11-17

### Added
- A second, with a [link](docs/install.md).

## [0.1.0] - 2026-10-01
- A first.
"""


# --- Release notes ------------------------------------------------------------------------------------


def test_notes_are_the_section_of_the_version() -> None:
    assert notes.section(CHANGELOG, "0.2.0") == "### Added\n- A second, with a [link](docs/install.md).\n"
    assert notes.section(CHANGELOG, "0.1.0") == "- A first.\n"
    assert notes.section(CHANGELOG, notes.UNRELEASED) == "### Fixed\n- A third.\n"


@pytest.mark.parametrize(
    ("changelog", "problem"),
    [
        ("# Changelog\n", "CHANGELOG.md has no section for 0.2.0; write one: ## [0.2.0] - YYYY-MM-DD"),
        ("## [0.2.0]\n- A.\n", "the heading of 0.2.0 is not"),
        ("## [0.2.0] - soon\n- A.\n", "the heading of 0.2.0 is not"),
        ("## [0.2.0] - 2026-11-17\n\n## [0.1.0] - 2026-10-01\n- A.\n", "the section of 0.2.0 is empty"),
        ("## [0.2.0] - 2026-11-17\n- A.\n" * 2, "CHANGELOG.md has two sections for 0.2.0"),
    ],
)
def test_missing_or_malformed_section_is_refused(changelog: str, problem: str) -> None:
    with pytest.raises(ReleaseError) as error:
        notes.section(changelog, "0.2.0")
    assert problem in str(error.value)


def test_own_changelog_has_a_section_of_unreleased_changes() -> None:
    assert notes.section((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), notes.UNRELEASED)


# --- Which commits are refused ------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    commit(folder, "one")
    return folder


def test_commit_of_a_release_has_its_section(repository: Path) -> None:
    text = build_release.check_commit(repository, "0.2.0", snapshot=False)
    assert text == notes.section(CHANGELOG, "0.2.0")


def test_changed_tree_is_refused(repository: Path) -> None:
    (repository / "new.py").touch()
    with pytest.raises(ReleaseError, match=r"the working tree has changes.*\n\?\? new.py"):
        build_release.check_commit(repository, "0.2.0", snapshot=True)


def test_version_without_a_section_is_refused(repository: Path) -> None:
    with pytest.raises(ReleaseError, match=r"has no section for 0\.3\.0"):
        build_release.check_commit(repository, "0.3.0", snapshot=False)


def test_commit_without_a_tag_is_only_a_snapshot(repository: Path) -> None:
    version = "0.2.1.dev1+g0123abcde"
    with pytest.raises(ReleaseError, match=r"no tag vX.Y.Z.*build with --snapshot"):
        build_release.check_commit(repository, version, snapshot=False)
    assert build_release.check_commit(repository, version, snapshot=True) == "### Fixed\n- A third.\n"


# --- Archives -----------------------------------------------------------------------------------------


def tar(path: Path, members: Mapping[str, bytes], mtime: int, mode: int = 0o600) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode, member.uname = len(content), mtime, mode, "somebody"
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("suffix", [".tar", ".tgz"])
def test_archives_of_equal_files_have_equal_bytes(tmp_path: Path, suffix: str) -> None:
    first = tar(tmp_path / f"a{suffix}", {"b": b"2", "a": b"1"}, mtime=100)
    again = tar(tmp_path / f"b{suffix}", {"a": b"1", "b": b"2"}, mtime=200, mode=0o640)
    other = tar(tmp_path / f"c{suffix}", {"a": b"1", "b": b"3"}, mtime=100)
    assert first.read_bytes() != again.read_bytes()
    for path in (first, again, other):
        archives.normalize(path, 1_700_000_000)
    assert first.read_bytes() == again.read_bytes() != other.read_bytes()
    with tarfile.open(first) as archive:
        assert [(one.name, one.mtime, one.mode, one.uname) for one in archive] == [
            ("a", 1_700_000_000, 0o644, ""),
            ("b", 1_700_000_000, 0o644, ""),
        ]
        content = archive.extractfile("b")
        assert content is not None
        assert content.read() == b"2"


def test_archive_that_is_no_oci_archive_is_refused(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tar", {"manifest.json": b"[]"}, mtime=0)
    with pytest.raises(ReleaseError, match=r"a.tar is not an OCI archive"):
        archives.image_digest(archive)


# --- Checksums and signatures -------------------------------------------------------------------------


@pytest.fixture
def release(tmp_path: Path) -> Path:
    """A folder with two files and their checksums."""
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "holdfast-0.2.0.tar.gz").write_bytes(b"source")
    (folder / "holdfast-0.2.0.tgz").write_bytes(b"chart")
    sums.write(folder)
    return folder


def test_sha256sum_accepts_the_files_and_refuses_a_changed_one(release: Path) -> None:
    lines = (release / sums.FILE).read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == ["holdfast-0.2.0.tar.gz", "holdfast-0.2.0.tgz"]
    assert check_sums(release) == 0
    (release / "holdfast-0.2.0.tgz").write_bytes(b"charT")
    assert check_sums(release) != 0


def test_signature_is_verified_and_fails_for_a_changed_file(release: Path, tmp_path: Path) -> None:
    key = new_key(tmp_path, "key")
    allowed = signers(tmp_path, key)
    signed = release / sums.FILE
    signature = signing.sign(signed, key)
    assert signature == release / "SHA256SUMS.sig"
    signing.verify(signed, signature, allowed)
    signed.write_text(signed.read_text().replace("0", "1", 1))
    with pytest.raises(ReleaseError, match="SHA256SUMS is not signed by a key in signers"):
        signing.verify(signed, signature, allowed)


def test_signature_of_another_key_is_refused(release: Path, tmp_path: Path) -> None:
    key, other = new_key(tmp_path, "key"), new_key(tmp_path, "other")
    signed = release / sums.FILE
    signature = signing.sign(signed, other)
    with pytest.raises(ReleaseError, match="is not signed by a key in"):
        signing.verify(signed, signature, signers(tmp_path, key))
    signing.verify(signed, signature, signers(tmp_path, key, other))


def test_key_without_a_line_in_release_signers_is_refused_before_the_build(tmp_path: Path) -> None:
    key = new_key(tmp_path, "key")
    signing.check_key(key, signers(tmp_path, key))
    with pytest.raises(ReleaseError, match='a line there is: holdfast namespaces="file" <public key>'):
        signing.check_key(key, signers(tmp_path, new_key(tmp_path, "other")))
    with pytest.raises(ReleaseError, match="is not signed by a key in release-signers"):
        signing.check_key(key, build_release.SIGNERS)
    with pytest.raises(ReleaseError, match="missing does not exist"):
        signing.check_key(key, tmp_path / "missing")


def test_key_is_a_path_or_a_text_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    key = new_key(tmp_path, "key")
    with signing.key_file(key, {signing.KEY_FILE: "other"}) as found:
        assert found == key
    with signing.key_file(None, {signing.KEY_FILE: str(key)}) as found:
        assert found == key
    with signing.key_file(None, {signing.KEY_TEXT: key.read_text().strip()}) as found:
        assert (found.stat().st_mode & 0o777, found.read_text()) == (0o600, key.read_text())
        signing.check_key(found, signers(tmp_path, key))
    assert not found.exists()
    with pytest.raises(ReleaseError, match="no signing key: give --key"), signing.key_file(None, {}):
        pass
    with pytest.raises(ReleaseError, match="gone does not exist"), signing.key_file(Path("gone"), {}):
        pass


def test_file_that_is_no_key_is_an_error_with_the_message_of_ssh_keygen(release: Path) -> None:
    with pytest.raises(ReleaseError, match="ssh-keygen cannot sign with"):
        signing.sign(release / sums.FILE, release / sums.FILE)


# --- The command --------------------------------------------------------------------------------------


def test_command_states_what_is_missing_and_builds_nothing(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git(repository, "tag", "v0.2.0")
    tools = tmp_path / "bin"
    tools.mkdir()
    git_program = shutil.which("git")
    assert git_program
    (tools / "git").symlink_to(git_program)
    monkeypatch.setattr(build_release, "ROOT", repository)
    monkeypatch.delenv("HOLDFAST_VERSION", raising=False)
    monkeypatch.setenv("PATH", str(tools))
    assert build_release.main([]) == 2
    assert capsys.readouterr().err == (
        "make release: an image needs one of buildah, podman, docker, and none is installed; "
        "or build with --without-image\n"
    )
    monkeypatch.delenv(signing.KEY_FILE, raising=False)
    monkeypatch.delenv(signing.KEY_TEXT, raising=False)
    assert build_release.main(["--without-image"]) == 2
    assert "make release: no signing key: give --key" in capsys.readouterr().err
    monkeypatch.setenv("HOLDFAST_VERSION", "0.3.0")
    assert build_release.main(["--without-image"]) == 2
    assert "make release: HOLDFAST_VERSION is set; unset it" in capsys.readouterr().err
    assert not (repository / "dist").exists()
