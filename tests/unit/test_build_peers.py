"""How build_peers finds the real programs: KUBEBUILDER_ASSETS, PATH, or a build with Go."""

from pathlib import Path

import pytest

import build_peers
import e2e
from holdfast.app.doctor import cluster_checks


@pytest.fixture(autouse=True)
def no_go_and_no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Go and no program on PATH, and an empty cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOLDFAST_PEERS", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr("os.nice", lambda _: 0)


def program(path: Path) -> Path:
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_without_go_it_exits_with_3_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert build_peers.main(["etcd"]) == build_peers.NO_GO
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines == ["etcd has to be built from peers/control-plane, and there is no go on PATH"]


@pytest.mark.parametrize("words", [(), ("--oldest",)])
def test_without_go_the_e2e_tests_exit_with_one_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert e2e.main(words) == build_peers.NO_GO
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_oldest_control_plane_is_the_oldest_version_that_doctor_accepts() -> None:
    assert ".".join(map(str, cluster_checks.OLDEST)) == build_peers.OLDEST
    pins = (build_peers.PEERS / "control-plane-oldest/go.mod").read_text(encoding="utf-8")
    assert f"k8s.io/kubernetes v{build_peers.OLDEST}." in pins
    newest = ".".join(map(str, cluster_checks.NEWEST))
    pins = (build_peers.PEERS / "control-plane/go.mod").read_text(encoding="utf-8")
    assert f"k8s.io/kubernetes v{newest}." in pins


def test_program_on_path_is_used(tmp_path: Path) -> None:
    expected = program(tmp_path / "bin" / "etcd")
    assert build_peers.binary("etcd") == expected


def test_kubebuilder_assets_take_precedence_over_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "etcd")
    (tmp_path / "assets").mkdir()
    expected = program(tmp_path / "assets" / "etcd")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert build_peers.binary("etcd") == expected


def test_own_program_is_built_even_if_path_has_one(tmp_path: Path) -> None:
    program(tmp_path / "bin" / "karpenter-plan-1.15")
    with pytest.raises(build_peers.NoGoError):
        build_peers.binary("karpenter-plan-1.15")
