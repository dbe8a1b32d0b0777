"""Where the real peers come from: what is given, what was built before, and what cannot be."""

from pathlib import Path

import pytest

import build_peers
import e2e


@pytest.fixture(autouse=True)
def nothing_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither Go nor any peer, and an empty cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOLDFAST_PEERS", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("os.nice", lambda _: 0)


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_without_go_it_ends_with_3_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_peers.main(["etcd"]) == build_peers.NO_GO
    said = capsys.readouterr().err.strip().splitlines()
    assert said == ["etcd has to be built from peers/control-plane, and there is no go on PATH"]


def test_nothing_of_the_end_to_end_tests_runs_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert e2e.main() == build_peers.NO_GO
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_what_path_has_is_used(tmp_path: Path) -> None:
    given = program(tmp_path / "bin" / "etcd")
    assert build_peers.binary("etcd") == given


def test_the_assets_of_kubebuilder_go_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "etcd")
    (tmp_path / "assets").mkdir()
    given = program(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert build_peers.binary("etcd") == given


def test_a_program_of_our_own_is_never_somebody_elses(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "karpenter-plan-1.15")
    with pytest.raises(build_peers.NoGoError):
        build_peers.binary("karpenter-plan-1.15")
