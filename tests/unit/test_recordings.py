"""`simulate.recordings` reads what `holdfast record` writes, and refuses other files with the line of the mistake."""

import gzip
import itertools
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import errors
from holdfast.api.recording import (
    JOB,
    LINE_MAX,
    Budget,
    Daemon,
    End,
    Gap,
    Group,
    Header,
    Line,
    Replicas,
    Rollout,
    Run,
    Shape,
    Stop,
)
from holdfast.app.recording import recording_file
from holdfast.app.recording.recording_file import RecordingFile
from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.simulate import recordings
from holdfast.simulate.recordings import Recording

BEGINS_S = 1_794_736_800
HEADER = Header(holdfast_record=1, begins=BEGINS_S)
CPU = {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}
WEB = Shape(id=1, ns="ns-a", labels={"key-a": "value-a"}, spec=CPU)
TRAIN = Shape(id=2, ns="ns-b", labels={"job-name": JOB}, spec=CPU | {"priority": 7}, volumes=1)
LINES: tuple[Line, ...] = (
    WEB,
    Group(t=0, id=1, kind="Deployment", shape=1, count=3),
    TRAIN,
    Run(t=40, id=2, shape=2, job=3, ago=10),
    Run(t=40, id=4, shape=2, job=3),
    Replicas(t=100, group=1, count=5, ago=60),
    End(t=700, run=2, ran=600, ago=20),
    Shape(id=3, ns="ns-a", spec=CPU),
    Rollout(t=800, group=1, shape=3),
    Daemon(t=800, id=5, shape=3),
    Budget(t=800, id=6, ns="ns-a", spec={"minAvailable": 1}),
    Budget(t=801, id=6, ns="ns-a", spec={"minAvailable": 2}),
    Gap(t=900, lasted=50),
    Daemon(t=950, id=5),
    Stop(t=1000),
)


def write(path: Path, lines: Iterable[Header | Line] = (HEADER, *LINES)) -> Path:
    file = RecordingFile(path, force=True)
    file.write(lines)
    file.close()
    return path


def wrong(path: Path, *lines: Header | Line | bytes) -> str:
    text = b""
    for line in lines:
        text += line if isinstance(line, bytes) else msgspec.json.encode(line)
        text += b"\n"
    path.write_bytes(text)
    with pytest.raises(errors.InvalidInput) as caught:
        recordings.read(path)
    return str(caught.value).removeprefix(f"{path}")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_recording_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    found = recordings.read(path)
    assert (found.begins_s, found.until_s, found.gaps) == (BEGINS_S, 1000, ((850, 900),))
    (group,) = found.groups
    assert (group.name, group.namespace, group.kind) == ("group-1", "ns-a", "Deployment")
    assert group.changes == ((0, 3), (40, 5))
    assert [at_s for at_s, _ in group.templates] == [0, 800]
    assert group.template["metadata"]["labels"] == {"key-a": "value-a"}
    (daemon,) = found.daemons
    assert ([at_s for at_s, _ in daemon.templates], daemon.deleted_s) == ([800], 950)
    first, second = found.runs
    assert (first.after_s, first.length_s, first.ended_s, first.how) == (30, 600, 680, "succeeded")
    assert (second.after_s, second.length_s, second.ended_s, second.how) == (40, None, None, "")
    assert first.job == second.job == "job-3"
    assert first.template["metadata"] == {"labels": {"job-name": "job-3"}, "annotations": {RUNS_FOR: "600"}}
    assert RUNS_FOR not in second.template["metadata"]["annotations"]
    assert [(one.name, one.spec) for one in found.budgets] == [("budget-6", {"minAvailable": 2})]
    assert found.notes == (
        "the cluster was not followed for 50 s, in 1 gap",
        "2 groups and pods have PersistentVolumeClaims, which are not in the recording",
    )
    assert path.stat().st_mode & 0o077 == 0


def test_pods_get_the_objects_that_they_need(tmp_path: Path) -> None:
    found = recordings.setup(recordings.read(write(tmp_path / "a")))
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("Namespace", "ns-a"),
        ("Namespace", "ns-b"),
        ("PriorityClass", "recorded-7"),
        ("PodDisruptionBudget", "budget-6"),
    ]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_every_beginning_of_a_file_can_be_read(tmp_path: Path, name: str) -> None:
    """A crash may cut the file at any byte after the first flush."""
    path = tmp_path / name
    file = RecordingFile(path, force=False)
    file.write([HEADER])
    file.flush()
    first = file.size_bytes
    for line in LINES:
        file.write([line])
        file.flush()
    file.close()
    whole, seen = path.read_bytes(), set()
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        found = recordings.read(path)
        assert found.until_s <= 1000
        seen.add((found.until_s, len(found.runs), len(found.groups)))
    assert len(seen) >= 8


def test_incomplete_last_line_is_ignored_with_a_note(tmp_path: Path) -> None:
    path = write(tmp_path / "a", (HEADER, WEB, Run(t=5, id=1, shape=1)))
    path.write_bytes(path.read_bytes() + b'{"k":"end","t":9,"ru')
    found = recordings.read(path)
    assert (len(found.runs), found.until_s) == (1, 5)
    assert found.notes == (
        "the last line is incomplete and is ignored",
        "the recording was interrupted; it is used up to its last line",
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"{}"], ": line 1: this is not a file of `holdfast record`"),
        ([b"apiVersion: v1"], ": line 1: this is not a file of `holdfast record`"),
        ([HEADER, b"x"], ": line 2: the line cannot be read: "),
        ([HEADER, b""], ": line 2: the line cannot be read: "),
        ([HEADER, b'{"k":"later","t":1}'], ": line 2: the line cannot be read: Invalid value 'later'"),
        ([HEADER, Stop(t=9), Stop(t=8)], ": line 3: time goes backwards, from 9 to 8"),
        ([HEADER, Run(t=1, id=1, shape=1)], ": line 2: there is no shape 1 above"),
        ([HEADER, WEB, WEB], ": line 3: there is another shape 1 above"),
        ([HEADER, Replicas(t=1, group=1, count=1)], ": line 2: there is no group 1 above"),
        ([HEADER, End(t=1, run=1)], ": line 2: there is no run 1 above"),
        ([HEADER, Daemon(t=1, id=1)], ": line 2: there is no daemon 1 above"),
        ([HEADER, WEB, Run(t=1, id=1, shape=1, ago=2)], ": line 3: 2 s ago is before the beginning"),
        (
            [HEADER, WEB, Run(t=1, id=1, shape=1), End(t=2, run=1), End(t=2, run=1)],
            ": line 5: there is another end of run 1 above",
        ),
        (
            [
                HEADER,
                WEB,
                Group(t=5, id=1, kind="Pod", shape=1, count=1),
                Replicas(t=6, group=1, count=2, ago=3),
            ],
            ": line 4: time goes backwards, from 5 to 3",
        ),
        (
            [HEADER, WEB, Run(t=5, id=1, shape=1), End(t=6, run=1, ago=3)],
            ": line 4: time goes backwards, from 5 to 3",
        ),
        ([HEADER, Shape(id=1, ns="A B", spec=CPU)], ": line 2: the line cannot be read: "),
        (
            [HEADER, Shape(id=1, ns="a", spec={"containers": 5})],
            ": line 2: the spec of a pod is wrong: Expected `array`, got `int`",
        ),
        (
            [HEADER, Shape(id=1, ns="a", spec={"tolerations": [{"key": 5}]})],
            ": line 2: the spec of a pod is wrong",
        ),
        ([HEADER, b'{"k":"count","t":1,"group":1,"count":-1}'], ": line 2: the line cannot be read: "),
        ([HEADER, b'{"k":"stop","t":' + b"9" * 5000 + b"}"], ": line 2: the line cannot be read: "),
        ([HEADER, b"[" * 100_000], ": line 2: the line cannot be read: "),
        ([HEADER, b'"\xff"'], ": line 2: the line cannot be read: "),
        ([HEADER, b" " * (LINE_MAX + 1)], f": a line after line 1 has more than {LINE_MAX} bytes"),
    ],
)
def test_mistake_is_reported_with_its_line(tmp_path: Path, lines: list[Any], message: str) -> None:
    assert wrong(tmp_path / "a", *lines, Stop(t=10)).startswith(message)


def test_file_of_another_version_is_refused(tmp_path: Path) -> None:
    newer = Header(holdfast_record=2, begins=BEGINS_S, holdfast="9.1.0")
    assert wrong(tmp_path / "a", newer) == (
        ": line 1: the recording has version 2, this program reads version 1;"
        " use the version of Holdfast that wrote it (9.1.0), or record again"
    )


def test_empty_missing_and_damaged_files_are_refused(tmp_path: Path) -> None:
    assert wrong(tmp_path / "a") == " is empty; is it a file of `holdfast record`?"
    with pytest.raises(errors.InvalidInput, match="cannot be read: No such file"):
        recordings.read(tmp_path / "missing")
    with pytest.raises(errors.InvalidInput, match="cannot be read: Is a directory"):
        recordings.read(tmp_path)
    damaged = write(tmp_path / "b.gz")
    text = bytearray(damaged.read_bytes())
    text[len(text) // 2] ^= 0xFF
    damaged.write_bytes(text)
    with pytest.raises(errors.InvalidInput):
        recordings.read(damaged)


def test_small_file_with_a_huge_text_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording_file, "TEXT_MAX", 10_000_000)
    header = json.dumps({"holdfastRecord": 1, "begins": 0}).encode() + b"\n"
    path = tmp_path / "bomb.gz"
    tick = b'{"k":"tick","t":1}\n'
    path.write_bytes(gzip.compress(header + tick * 1_000_000))
    with pytest.raises(errors.InvalidInput, match="more than 10000000 bytes of text"):
        recordings.read(path)


def test_existing_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        RecordingFile(path, force=False)
    assert path.read_text() == "precious"
    path.chmod(0o644)
    write(path)
    assert isinstance(recordings.read(path), Recording)
    assert path.stat().st_mode & 0o077 == 0


def test_file_that_cannot_grow_is_valid_up_to_its_last_line(tmp_path: Path) -> None:
    """The limit of the process has the effect of a full disk: a part is written, then an error."""
    path = tmp_path / "a"
    program = f"""
import resource, signal
from pathlib import Path
from holdfast.api.recording import Header, Tick
from holdfast.app.recording.recording_file import RecordingFile
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
file = RecordingFile(Path({str(path)!r}), force=False)
file.write([Header(holdfast_record=1, begins=0), *(Tick(t=t) for t in range(1000))])
try:
    file.flush()
except OSError as error:
    print(error.strerror)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)  # noqa: S603
    assert done.stdout == "File too large\n"
    found = recordings.read(path)
    assert found.until_s > 10
    assert found.notes[0] == "the last line is incomplete and is ignored"


def test_templates_are_not_shared_between_runs(tmp_path: Path) -> None:
    runs = recordings.read(write(tmp_path / "a")).runs
    for one, other in itertools.permutations(runs, 2):
        one.template["metadata"]["labels"]["changed"] = "yes"
        assert "changed" not in other.template["metadata"]["labels"]
        del one.template["metadata"]["labels"]["changed"]


def test_system_priorities_have_the_classes_of_kubernetes(tmp_path: Path) -> None:
    critical = Shape(id=1, ns="a", spec=CPU | {"priority": 2_000_001_000})
    found = recordings.read(write(tmp_path / "a", (HEADER, critical, Daemon(t=0, id=1, shape=1))))
    ((_, template),) = found.daemons[0].templates
    assert template["spec"]["priorityClassName"] == "system-node-critical"
    assert [one["kind"] for one in recordings.setup(found)] == ["Namespace"]
