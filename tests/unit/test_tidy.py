"""The rules of the codebase, checked over all files. `make check` runs this file alone; the rules are in tests/tidy.

Each message names the file, the line and what to do. The rules themselves are tested in test_tidy_rules.
"""

import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tidy import callers, calls, clouds, code, files, words

ROOT = Path(__file__).resolve().parents[2]


def test_clocks_random_numbers_and_print_are_used_only_where_allowed() -> None:
    assert_tidy(calls.findings, python("src", "scripts", "tests"))


def test_no_handler_catches_all_exceptions() -> None:
    assert_tidy(code.catch_alls, python("src", "scripts", "tests"))


def test_no_module_has_mutable_state() -> None:
    assert_tidy(code.module_state, python("src"))


def test_no_comment_is_a_todo_or_hides_an_error() -> None:
    assert_tidy(code.comments, python("src", "scripts", "tests"))


def test_modules_and_functions_stay_short() -> None:
    assert_tidy(code.too_long, python("src"))


def test_every_module_has_a_docstring() -> None:
    assert_tidy(code.no_docstring, python("src"))


@pytest.mark.fact("Q-45")
def test_model_core_and_controllers_name_no_cloud() -> None:
    assert_tidy(clouds.findings, python("src"))


def test_source_uses_the_words_of_kubernetes_karpenter_and_ec2() -> None:
    assert_tidy(words.findings, python("src"))


def test_no_file_names_a_path_of_one_computer() -> None:
    assert_tidy(files.machine_paths, project_files())


def test_lock_files_name_no_download_address() -> None:
    assert_tidy(files.addresses, (ROOT / "requirements").glob("*.txt"))


def test_every_requirement_is_locked() -> None:
    wanted = files.dependencies(read("pyproject.toml"))
    for_development = files.entries(read("requirements/dev.in"))
    assert wanted
    assert for_development
    found = files.unlocked(wanted, read("requirements/runtime.txt"), "requirements/runtime.txt")
    found += files.unlocked(wanted + for_development, read("requirements/dev.txt"), "requirements/dev.txt")
    assert not found, "\n".join(found)


def test_docstrings_name_only_callers_that_import_the_module() -> None:
    sources = {}
    for path in python("src"):
        module = path.relative_to(ROOT / "src").with_suffix("")
        name = module.parent if module.name == "__init__" else module
        sources[".".join(name.parts)] = path.read_text(encoding="utf-8")
    found = callers.findings(sources)
    assert sources
    assert not found, "\n".join(found)


def assert_tidy(rule: Callable[[str, str], list[str]], paths: Iterable[Path]) -> None:
    found = []
    for path in (checked := sorted(paths)):
        text = path.read_bytes().decode(errors="replace")
        found += rule(text, path.relative_to(ROOT).as_posix())
    assert checked, "the rule checked no file"
    assert not found, "\n" + "\n".join(found)


def python(*folders: str) -> list[Path]:
    return [path for folder in folders for path in (ROOT / folder).rglob("*.py")]


def project_files() -> list[Path]:
    """Files that git tracks, and new files that it does not ignore."""
    git = shutil.which("git")
    assert git, "git is needed to list the files of the project"
    command = [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")
