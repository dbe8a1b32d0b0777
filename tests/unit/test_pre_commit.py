"""The hooks in .pre-commit-config.yaml call the tools of `make check`, and refuse a subject that is not `area: sentence`."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]


def hooks() -> dict[str, dict[str, Any]]:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (local,) = config["repos"]
    assert local["repo"] == "local"  # no download, no second version of a tool
    return {hook["id"]: hook for hook in local["hooks"]}


def test_hooks_call_what_make_check_calls() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    check = makefile.split("\ncheck: ")[1].split("\n\n")[0]
    programs = {hook["entry"].split()[0] for hook in hooks().values() if hook["language"] == "system"}
    assert programs == {".venv/bin/ruff", ".venv/bin/mypy", "make"}
    for program in programs - {"make"}:
        assert program.replace(".venv/bin", "$(BIN)") in check
    assert hooks()["make-check"]["entry"] == "make check"
    assert hooks()["make-check"]["stages"] == ["pre-push"]


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        ("planner: a pod that fits a slot gets it\n\nWhy.\n", True),
        ("cloud/aws, docs: two areas\n", True),
        ("Merge branch 'main'\n", True),
        ('Revert "planner: a pod"\n', True),
        ("Fix things\n\nplanner: in the body\n", False),
        ("planner:no space\n", False),
        ("WIP\n", False),
    ],
)
def test_subject_is_an_area_and_a_sentence(message: str, accepted: bool) -> None:  # noqa: FBT001
    hook = hooks()["subject"]
    assert (hook["language"], hook["stages"]) == ("pygrep", ["commit-msg"])
    assert hook["args"] == ["--negate", "--multiline"]
    assert bool(re.search(hook["entry"], message)) is accepted
