"""`holdfast report` on real folders: what it reads, writes, prints and refuses."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

import simulation_documents as documents
from holdfast.api.simulation_results import SimulationResult
from holdfast.cli import main, page_terminal, report_page
from holdfast.simulate.report import result_files, study

NAMES = {"report.html", "report.json", "variants.csv", "reservations.csv"}


def write(folder: Path, *results: SimulationResult) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for one in results:
        name = re.sub(r"[^a-z0-9]+", "-", one.variant)[:40]
        (folder / f"{name}-{one.seed}{result_files.SUFFIX}").write_bytes(result_files.text(one))
    return folder


def report(*words: str | Path) -> Result:
    return CliRunner().invoke(main, ["report", *map(str, words)], prog_name="holdfast")


def files(folder: Path) -> dict[str, bytes]:
    return {
        one.name: one.read_bytes() for one in folder.iterdir() if not one.name.endswith(result_files.SUFFIX)
    }


def test_folder_of_results_becomes_a_report_beside_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "study", *documents.study())
    (folder / "notes.txt").write_text("is not read")
    result = report(folder)
    assert result.exit_code == 0, result.stderr
    assert files(folder).keys() == NAMES | {"notes.txt"}
    assert len(json.loads((folder / "report.json").read_bytes())["results"]) == 6
    head, columns, base, less = result.stdout.splitlines()
    assert head == "web-and-training: 2 variants, 6 results"
    assert columns.split()[:3] == ["VARIANT", "SEEDS", "TOTAL"]
    assert base.split()[:4] == ["base", "3", "11,948.14", "-"]
    assert less.split()[:4] == ["three-slots-less", "3", "11,680.54", "-267.60"]
    assert re.match(r"Wrote report\.html \(\d+ kB\), report\.json ", result.stderr)


def test_documentation_shows_the_real_text() -> None:
    written = "Wrote report.html (234 kB), report.json (507 kB), variants.csv (2 kB), reservations.csv (3 kB) to study."
    built = report_page.build(study.build(documents.study()), written)
    shown = (Path(__file__).parents[2] / "docs/simulate-report.md").read_text(encoding="utf-8")
    assert page_terminal.text(built, width=80, colors=False) in shown


def test_report_is_written_to_another_folder_and_replaced(tmp_path: Path) -> None:
    folder = write(tmp_path / "study", documents.result())
    target = tmp_path / "new" / "folder"
    assert report(folder, "-o", target).exit_code == 0
    assert files(target).keys() == NAMES
    assert files(folder) == {}
    before = files(target)
    write(folder, documents.result("less"))
    assert report(folder, "-o", target).exit_code == 0
    assert files(target).keys() == NAMES
    assert files(target)["report.html"] != before["report.html"]


def test_files_are_readable_as_the_umask_allows(tmp_path: Path) -> None:
    folder = write(tmp_path, documents.result())
    before = os.umask(0o027)
    try:
        assert report(folder).exit_code == 0
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert (folder / "report.html").stat().st_mode & 0o777 == 0o640


def test_partial_and_missing_results_are_reported_and_no_error(tmp_path: Path) -> None:
    results = documents.study()[:-1]
    folder = write(tmp_path, *results[:-1], documents.week("three-slots-less", 2, less=3, hours=100))
    result = report(folder)
    assert result.exit_code == 0
    assert "- partial: three-slots-less, seed 2: 4 days 4 hours of 7 days\n" in result.stdout
    assert "- missing: three-slots-less, seed 3\n" in result.stdout
    assert "not comparable" in result.stdout
    assert "2, 1 partial" in result.stdout


BROKEN = {
    "broken": (b'{"kind": ', "x.result.json: not a whole JSON document: "),
    "other version": (
        result_files.text(documents.result()).replace(b"holdfast.dev/v1alpha1", b"holdfast.dev/v2"),
        "x.result.json: has the format holdfast.dev/v2, and this Holdfast reads holdfast.dev/v1alpha1; simulate again",
    ),
    "same variant and seed": (
        result_files.text(documents.result()),
        "base-1.result.json and x.result.json are both results of variant base, seed 1; remove one of them",
    ),
    "other input": (
        result_files.text(documents.result(input="sha256:ff")),
        "base-1.result.json and x.result.json are results of different inputs (sha256:00112 and sha256:ff)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_results_that_cannot_be_merged_are_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    data, message = BROKEN[name]
    folder = write(tmp_path, documents.result())
    (folder / "x.result.json").write_bytes(data)
    result = report(folder)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"holdfast report: {message}")
    assert files(folder) == {}


def test_sizing_beside_the_results_is_in_the_report(tmp_path: Path) -> None:
    folder = write(tmp_path, documents.result())
    (folder / "sizing.json").write_bytes(msgspec.json.encode(documents.SIZING))
    assert report(folder).exit_code == 0
    assert "Slots that would have paid for themselves" in (folder / "report.html").read_text()
    assert len(json.loads((folder / "report.json").read_bytes())["sizing"]["results"]) == 2
    for broken in (b"{", b'{"results": 1}', b'{"results": [{"slots": 1e99}]}'):
        (folder / "sizing.json").write_bytes(broken)
        result = report(folder)
        assert result.exit_code == 1
        assert result.stderr.startswith("holdfast report: sizing.json: ")


def test_every_broken_file_is_named(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.result.json").write_text("{")
    lines = report(tmp_path).stderr.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "holdfast report: and 10 more"


def test_mixed_inputs_are_merged_if_the_user_asks(tmp_path: Path) -> None:
    folder = write(tmp_path, documents.result(), documents.result("less", input="sha256:ff"))
    result = report(folder, "--mixed")
    assert result.exit_code == 0
    assert "- mixed: the results are of different inputs" in result.stdout
    assert "less of small, input sha256:f" in result.stdout


def test_folder_without_results_is_refused(tmp_path: Path) -> None:
    result = report(tmp_path)
    assert result.exit_code == 1
    assert "has no files that end in .result.json; `holdfast simulate` writes them" in result.stderr
    assert report(tmp_path / "none").exit_code == 2
    assert report().exit_code == 2


def test_target_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "study", documents.result())
    (tmp_path / "file").write_text("")
    result = report(folder, "-o", tmp_path / "file" / "below")
    assert result.exit_code == 1
    assert "cannot be written: Not a directory" in result.stderr


def test_hostile_names_do_not_reach_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path
    for number, one in enumerate(documents.hostile()):
        (folder / f"{number}.result.json").write_bytes(result_files.text(one))
    result = report(folder)
    assert result.exit_code == 0
    assert result.stdout.replace("\n", "").isprintable()


@pytest.mark.parametrize("results", [documents.study, documents.hostile], ids=["week", "hostile"])
def test_report_is_the_same_under_two_hash_seeds(tmp_path: Path, results: object) -> None:
    assert callable(results)
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        for number, one in enumerate(results()):
            (folder / f"{number}.result.json").write_bytes(result_files.text(one))
        command = [str(Path(sys.executable).with_name("holdfast")), "report", str(folder)]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": seed})  # noqa: S603 - our own program
        found.append(files(folder))
    assert found[0].keys() == NAMES
    assert found[0] == found[1]
