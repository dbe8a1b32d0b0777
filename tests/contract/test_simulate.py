"""`holdfast simulate` as a process: its files, its errors, and what it does when it is interrupted."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).parents[2] / "studies/day.yaml"
VARIANT = EXAMPLE.with_name("two-more-slots.yaml")


def start(
    folder: Path, *words: str, hash_seed: str = "0", stderr: int = subprocess.PIPE
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "holdfast", "simulate", *words, "--output", str(folder / "out")]
    environ = {**os.environ, "PYTHONHASHSEED": hash_seed, "AWS_PROFILE": "missing"}
    return subprocess.Popen(  # noqa: S603
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def simulate(folder: Path, *words: str, hash_seed: str = "0") -> tuple[int, str]:
    process = start(folder, *words, hash_seed=hash_seed)
    _, errors = process.communicate(timeout=600)
    return process.returncode, errors


def documents(*changes: dict[str, Any], file: Path = EXAMPLE) -> list[dict[str, Any]]:
    return [*yaml.safe_load_all(file.read_text()), *changes]


def write(folder: Path, found: list[dict[str, Any]], name: str = "study.yaml") -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(yaml.safe_dump_all(found))
    return str(folder / name)


def of_kind(found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(one for one in found if one["kind"] == kind)


def result(folder: Path, name: str = "base-1") -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / f"out/{name}.result.json").read_text())
    return loaded


@pytest.mark.exhaustive
def test_same_file_and_seed_give_the_same_bytes_under_two_hash_seeds(tmp_path: Path) -> None:
    found = []
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        words = (str(EXAMPLE), "--for", "3h", "--variant", f"more={VARIANT}")
        assert simulate(folder, *words, hash_seed=hash_seed)[0] == 0
        found.append({path.name: path.read_bytes() for path in (folder / "out").iterdir()})
    assert found[0] == found[1]
    assert found[0].keys() == {
        "base-1.result.json", "more-1.result.json", "report.html", "report.json", "reservations.csv", "variants.csv",
    }  # fmt: skip
    assert found[0]["base-1.result.json"] != found[0]["more-1.result.json"]


def test_result_has_what_was_paid_and_used(tmp_path: Path) -> None:
    assert simulate(tmp_path, str(EXAMPLE), "--for", "1h")[0] == 0
    found = result(tmp_path)
    (row,) = found["reservations"]
    assert row["usd"] == pytest.approx(4 * 0.192, abs=1e-4)
    assert row["slotHours"] == 4
    dollars = found["dollars"]
    assert dollars["total"] == pytest.approx(
        sum(value for name, value in dollars.items() if name != "total"), abs=1e-3
    )
    assert found["pods"]["started"] == found["pods"]["created"] > 6
    assert found["until"] == found["ends"] == found["begins"] + 3600
    assert len(found["timeline"]["podsRunning"]) == 60


def test_pod_that_can_never_be_placed_is_in_the_result_with_the_reason(tmp_path: Path) -> None:
    found = documents()
    deployment = of_kind(found, "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["resources"]["requests"]["cpu"] = "4000"
    assert simulate(tmp_path, write(tmp_path, found), "--for", "10m")[0] == 0
    unplaced = result(tmp_path)
    assert unplaced["unplacedTotal"] > 0
    assert "no instance type has enough resources: cpu 4k" in unplaced["unplaced"][0]["reason"]


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        ("Simulation", "duration", "0s", "spec.duration: is not a duration from 1s to 8784h"),
        ("Simulation", "duration", "soon", 'spec.duration: "soon" is not a duration'),
        ("Simulation", "replicas", [{"deployment": "wbe", "points": [{"at": "00:00", "replicas": 1}]}], "no Deployment wbe is in the files"),
        ("Simulation", "jobs", [{"job": "train", "at": ["25h"]}], "is not within the duration 24h"),
        ("Simulation", "speed", 3, "speed"),
        ("World", "reservations", [{"id": "cr-1", "instanceType": "m5.large", "zone": "us-west-2a", "total": 1, "start": "2026-11-17T00:00:00Z", "end": "2026-11-16T00:00:00Z"}], "end"),
        ("World", "region", "mars-1", "mars-1"),
    ],
)  # fmt: skip
def test_mistake_is_reported_with_its_place_and_nothing_is_simulated(
    tmp_path: Path, kind: str, field: str, value: Any, message: str
) -> None:
    found = documents()
    of_kind(found, kind)["spec"][field] = value
    path = write(tmp_path, found)
    code, errors = simulate(tmp_path, path)
    assert code == 1
    assert errors.startswith(f"{path}:")
    assert message in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()


def test_object_that_the_api_server_refuses_is_an_error(tmp_path: Path) -> None:
    found = documents()
    of_kind(found, "NodePool")["spec"]["weight"] = 1000
    code, errors = simulate(tmp_path, write(tmp_path, found), "--for", "10m")
    assert code == 1
    assert "spec.weight" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--variant", "more"), "is not NAME=FILE"),
        (("--variant", "base=x.yaml"), "is used twice, or by Holdfast itself"),
        (("--variant", "sized=x.yaml"), "is used twice, or by Holdfast itself"),
        (("--for", "1 day"), "is not a duration"),
        (("--variant", "more=missing.yaml"), "missing.yaml"),
        (("--index", "1"), "there are 1 simulations"),
    ],
)
def test_wrong_option_is_an_error(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    code, errors = simulate(tmp_path, str(EXAMPLE), *words)
    assert code in (1, 2)
    assert message in errors
    assert "Traceback" not in errors


def test_variant_with_a_mistake_names_the_file_of_the_variant(tmp_path: Path) -> None:
    found = documents(file=VARIANT)
    found[0]["spec"]["reservations"][0]["total"] = -1
    path = write(tmp_path, found, "wrong.yaml")
    code, errors = simulate(tmp_path, str(EXAMPLE), "--variant", f"wrong={path}")
    assert code == 1
    assert "wrong.yaml" in errors
    assert "total" in errors


def test_interrupt_leaves_a_result_of_what_was_simulated(tmp_path: Path) -> None:
    terminal, errors = os.openpty()
    with os.fdopen(errors, "wb"):
        process = start(tmp_path, str(EXAMPLE), "--for", "8000h", stderr=errors)
    printed = b""
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        while b" left" not in printed:  # the estimate, once some time was simulated
            printed += shown.read(1000)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the process has closed the terminal
            while more := shown.read(1000):
                printed += more
    process.communicate(timeout=120)
    assert b"Traceback" not in printed, printed
    assert b"times as fast as real time" in printed
    assert process.returncode == 130
    found = result(tmp_path)
    assert found["begins"] < found["until"] < found["ends"]


def test_job_has_an_index_for_each_variant_and_seed_and_the_files(tmp_path: Path) -> None:
    words = (str(EXAMPLE), "--variant", f"more={VARIANT}", "--seed", "1", "--seed", "2", "--emit-job")
    process = start(tmp_path, *words)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    files, job = yaml.safe_load_all(printed)
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == 4
    assert files["data"] == {"day.yaml": EXAMPLE.read_text(), "two-more-slots.yaml": VARIANT.read_text()}
    # Its arguments, run in a folder with these files, simulate what the index says.
    (container,) = job["spec"]["template"]["spec"]["containers"]
    for name, text in files["data"].items():
        (tmp_path / name).write_text(text)
    arguments = " ".join(container["args"]).replace("$(JOB_COMPLETION_INDEX)", "3").split()
    arguments[arguments.index("--output") + 1] = str(tmp_path / "results")
    command = [sys.executable, "-m", "holdfast", *arguments, "--for", "10m"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)  # noqa: S603
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["more-2.result.json"]
    assert not (tmp_path / "out").exists()
