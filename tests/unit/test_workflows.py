"""The workflows of GitHub: they call targets of the Makefile, pin actions by commit, and have few rights.

`make check-workflows` checks them with actionlint.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
FILES: Final = sorted((ROOT / ".github/workflows").glob("*.yml"))
INSTALL: Final = "sudo apt-get install --yes "  # a tool that a target needs
PINNED: Final = re.compile(r"uses: (?P<action>[\w./-]+)@(?P<commit>[0-9a-f]{40}) # v\d+\.\d+\.\d+$")
MATRIX: Final = re.compile(r"\$\{\{ matrix\.(\w+) \}\}")


def read(path: Path) -> dict[str, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    found["on"] = found.pop(True)  # YAML 1.1 reads `on` as true
    return found


def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def commands(workflow: dict[str, Any]) -> Iterator[str]:
    """Every `run`, with the values of the matrix."""
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            run = step.get("run", "")
            used = MATRIX.search(run)
            if used is None:
                yield run
                continue
            rows = job["strategy"]["matrix"]["include"]
            assert rows, f"the matrix of {run} is empty"
            for row in rows:
                yield run.replace(used[0], row[used[1]])


def wrong_commands(workflow: dict[str, Any], known: set[str]) -> list[str]:
    found = []
    for command in filter(None, commands(workflow)):
        call = re.fullmatch(r"make ([a-z0-9-]+)", command)
        if not command.startswith(INSTALL) and (call is None or call[1] not in known):
            found.append(command)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_is_a_target_of_the_makefile(path: Path) -> None:
    workflow = read(path)
    assert wrong_commands(workflow, targets()) == []
    assert any(command.startswith("make ") for command in commands(workflow))


def test_command_that_is_no_target_is_found() -> None:
    steps = [{"run": "make test"}, {"run": "make tset"}, {"run": "pytest"}, {"uses": "x"}]
    matrix = {"include": [{"target": "check"}, {"target": "chekc"}]}
    jobs = {
        "one": {"steps": steps},
        "two": {"strategy": {"matrix": matrix}, "steps": [{"run": "make ${{ matrix.target }}"}]},
    }
    assert wrong_commands({"jobs": jobs}, {"test", "check"}) == ["make tset", "pytest", "make chekc"]


def test_all_that_must_pass_before_a_release_is_run() -> None:
    called = {command for path in FILES for command in commands(read(path))}
    wanted = {"check", "check-charts", "check-workflows", "test", "test-all", "e2e", "e2e-oldest", "release"}
    assert {f"make {target}" for target in wanted} <= called


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(path: Path) -> None:
    lines = [line.strip().removeprefix("- ") for line in path.read_text(encoding="utf-8").splitlines()]
    used = [line for line in lines if line.startswith("uses:")]
    assert used
    assert [line for line in used if not PINNED.fullmatch(line)] == []


def test_every_workflow_uses_the_same_version_of_an_action() -> None:
    pins = {
        (found["action"], found["commit"])
        for path in FILES
        for line in path.read_text(encoding="utf-8").splitlines()
        if (found := PINNED.search(line))
    }
    assert len(pins) == len({action for action, _ in pins})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_rights_are_minimal_and_jobs_end(path: Path) -> None:
    workflow = read(path)
    events = workflow["on"]
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    assert set(events) <= {"push", "pull_request"}  # never pull_request_target
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        if path.name == "release.yml":
            assert job["permissions"] == {"contents": "write"}
            assert set(events) == {"push"}
            assert set(events["push"]) == {"tags"}
        else:
            assert "permissions" not in job
            assert "secrets." not in str(job)
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_workflows_test_every_python_that_the_package_states() -> None:
    matrix = read(ROOT / ".github/workflows/test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert matrix == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
