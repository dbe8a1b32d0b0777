"""The version from git: that of a tag, a development version after it; in the forms of PEP 440, SemVer and image tags."""

from pathlib import Path

import pytest
from packaging.version import Version

import git_version
from repositories import commit, git


@pytest.mark.parametrize(
    ("described", "dirty", "expected"),
    [
        ("v0.1.0-0-g0123abcde", False, "0.1.0"),
        ("v1.22.3-0-g0123abcde", False, "1.22.3"),
        ("v0.1.0-5-g0123abcde", False, "0.1.1.dev5+g0123abcde"),
        ("v0.1.0-0-g0123abcde", True, "0.1.1.dev0+g0123abcde.dirty"),
        ("0123abcde", False, "0.1.0.dev12+g0123abcde"),
        ("0123abcde", True, "0.1.0.dev12+g0123abcde.dirty"),
    ],
)
def test_version_of_a_tag_and_of_the_commits_after_it(described: str, *, dirty: bool, expected: str) -> None:
    assert git_version.from_description(described, commits=12, dirty=dirty) == expected
    assert str(Version(expected)) == expected  # pip and hatchling change nothing


@pytest.mark.parametrize("tag", ["v1.2", "v1.2.3rc1", "v1.2.3-rc.1", "v01.2.3", "v1.2.3.4"])
def test_other_tags_that_start_with_v_are_refused(tag: str) -> None:
    with pytest.raises(git_version.VersionError, match=f"the tag {tag} is not vX.Y.Z"):
        git_version.from_description(f"{tag}-0-g0123abcde", commits=1, dirty=False)


def test_development_versions_are_between_the_releases() -> None:
    versions = ["0.1.0.dev7+g01", "0.1.0", "0.1.1.dev1+g02", "0.1.1.dev12+g03", "0.1.1", "0.2.0"]
    assert sorted(versions, key=Version) == versions


def test_charts_and_image_tags_have_the_same_version_in_their_form() -> None:
    assert git_version.semver("0.1.1.dev5+g0123abcde.dirty") == "0.1.1-dev.5+g0123abcde.dirty"
    assert git_version.image_tag("0.1.1.dev5+g0123abcde") == "0.1.1.dev5-g0123abcde"
    assert {git_version.semver("0.2.0"), git_version.image_tag("0.2.0")} == {"0.2.0"}
    assert [git_version.is_release(one) for one in ("0.2.0", "0.2.0.dev1", "0.2.0.dev1+g0")] == [
        True,
        False,
        False,
    ]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(git_version.VARIABLE, raising=False)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, "one")
    return tmp_path


def test_repository_from_its_first_commit_to_the_commit_after_a_tag(repository: Path) -> None:
    first = git(repository, "rev-parse", "--short=9", "HEAD")
    assert git_version.version(repository) == f"0.1.0.dev1+g{first}"
    git(repository, "tag", "v0.3.0")
    assert git_version.version(repository) == "0.3.0"
    (repository / "one").write_text("changed")
    assert git_version.version(repository) == f"0.3.1.dev0+g{first}.dirty"
    second = commit(repository, "two")
    git(repository, "tag", "a-bookmark")
    assert git_version.version(repository) == f"0.3.1.dev1+g{second}"


def test_folder_without_a_repository_has_the_version_of_a_source_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(git_version.VARIABLE, raising=False)
    assert git_version.version(tmp_path) == git_version.UNKNOWN


def test_variable_replaces_the_version_of_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(git_version.VARIABLE, "1.2.3.dev4+g01")
    assert git_version.version(repository) == "1.2.3.dev4+g01"
    monkeypatch.setenv(git_version.VARIABLE, "latest")
    with pytest.raises(git_version.VersionError, match="HOLDFAST_VERSION=latest: not X"):
        git_version.version(repository)


def test_damaged_repository_is_an_error_with_the_message_of_git(repository: Path) -> None:
    (repository / ".git/HEAD").unlink()
    with pytest.raises(git_version.VersionError, match=r"not a git repository.*\(or set HOLDFAST_VERSION\)"):
        git_version.version(repository)
