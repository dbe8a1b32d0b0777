"""`holdfast validate`: findings on standard output, a summary on standard error, and the exit code."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crd_tool import objects
from holdfast.cli import main


def validate(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=stdin)


def manifest(**spec: object) -> bytes:
    return yaml.safe_dump(objects.spec("NodePool", **spec), sort_keys=False).encode()


def test_a_valid_manifest_prints_nothing_and_exits_with_0() -> None:
    result = validate("-f", "-", stdin=manifest())
    assert (result.exit_code, result.stdout) == (0, "")
    note, summary = result.stderr.splitlines()
    assert note.startswith("note: NodePool/general: the files have no valid EC2NodeClass/")
    assert summary == "1 valid object, no findings"


def test_a_finding_is_one_line_and_exits_with_1() -> None:
    result = validate("-f", "-", stdin=manifest(weight=0))
    assert result.exit_code == 1
    assert result.stdout.startswith("<stdin>:")
    assert result.stdout.endswith(": NodePool/general: .spec.weight: 0 is less than the minimum of 1\n")
    assert result.stderr == "no valid objects, 1 finding\n"


def test_findings_come_in_the_order_of_files_and_lines(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml"):
        (tmp_path / name).write_bytes(manifest(weight=0, zzz=1))
    result = validate("-f", str(tmp_path / "b.yaml"), "-f", str(tmp_path / "a.yaml"))
    found = result.stdout.splitlines()
    assert len(found) == 4
    assert found == sorted(found, key=lambda line: (line.split(":")[0], int(line.split(":")[1])))


def test_unknown_kinds_are_reported_unless_ignored() -> None:
    config_map = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    assert validate("-f", "-", stdin=config_map).exit_code == 1
    assert validate("-f", "-", "--ignore-unknown-kinds", stdin=config_map).exit_code == 0


def test_a_missing_filename_is_a_usage_error() -> None:
    result = validate()
    assert result.exit_code == 2
    assert "-f" in result.stderr


@pytest.mark.parametrize("path", ["missing.yaml", "missing/folder"])
def test_a_missing_path_is_reported_in_one_line(path: str) -> None:
    result = validate("-f", path)
    assert result.exit_code == 1
    assert result.stdout.count("\n") == 1


def test_the_help_names_the_exit_code() -> None:
    assert "exit code is 1" in validate("--help").stdout


PIECES = st.sampled_from(
    [
        b"apiVersion: karpenter.sh/v1\n",
        b"kind: NodePool\n",
        b"kind: Pod\n",
        b"apiVersion: v1\n",
        b"metadata: {name: a}\n",
        b"metadata: [a]\n",
        b"spec: {template: {spec: {requirements: [1]}}}\n",
        b"spec: null\n",
        b"items: [{kind: NodePool}, 5, null]\n",
        b"kind: List\n",
        b"---\n",
        b"- a\n",
        b"\xff",
        b"a: &a [*a]\n",
    ]
)


@settings(
    max_examples=150,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(pieces=st.lists(PIECES, max_size=8))
def test_no_input_causes_a_traceback(pieces: list[bytes]) -> None:
    result = validate("-f", "-", stdin=b"".join(pieces))
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert result.exit_code == (1 if result.stdout else 0)
