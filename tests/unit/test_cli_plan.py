"""`holdfast plan` from end to end: it reads files, prints a plan, and never prints a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from builders import ec2nodeclass_document, nodepool_document
from holdfast.cli import main
from objects import NOW, container
from scenarios import catalog_document, instance_type, offering, reservation

SELECTS = [{"tags": {"team": "*"}}]
CATALOG = catalog_document(
    now=NOW,
    instanceTypes=[
        instance_type(
            labels={"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
            offerings=[offering(price="0.096"), offering("us-west-2b", price="0.096")],
        )
    ],
    reservations=[reservation("cr-1", available=2, tags={"team": "ml"}, end="2026-11-15T12:00:00Z")],
)


def deployment(replicas: int, **requests: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container(**requests)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "template": template},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = {"containers": [container(cpu="1", memory="1Gi")]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": containers | spec}


SCENARIO = [
    CATALOG,
    nodepool_document(),
    ec2nodeclass_document(capacityReservationSelectorTerms=SELECTS),
    deployment(3, cpu="1500m", memory="1Gi"),
]


def run(folder: Path, *documents: dict[str, Any], flags: tuple[str, ...] = ()) -> Result:
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return CliRunner().invoke(main, ["plan", "-f", str(file), *flags])


def plan(folder: Path, *documents: dict[str, Any], flags: tuple[str, ...] = ()) -> dict[str, Any]:
    result = run(folder, *documents, flags=("-o", "json", *flags))
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def capacity(document: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [(claim["capacityType"], claim["reservationID"]) for claim in document["claims"]]


def test_reserved_slots_are_used_first(tmp_path: Path) -> None:
    document = plan(tmp_path, *SCENARIO)
    assert capacity(document) == [("on-demand", None), ("reserved", "cr-1"), ("reserved", "cr-1")]
    assert document["cost"]["perHour"] == "0.096"
    assert document["slotsLeft"] == {"cr-1": 0}
    assert sorted(p for claim in document["claims"] for p in claim["pods"]) == [
        f"default/web-{n}" for n in range(3)
    ]


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    one = run(tmp_path, *SCENARIO, flags=("-o", "json")).stdout_bytes
    assert one == run(tmp_path, *SCENARIO[::-1], flags=("-o", "json")).stdout_bytes


def test_time_and_settings_can_be_given_as_flags(tmp_path: Path) -> None:
    after_its_end = plan(tmp_path, *SCENARIO, flags=("--now", "2026-11-16T00:00:00Z"))
    without = plan(tmp_path, *SCENARIO, flags=("--no-reserved-capacity", "--packing", "karpenter"))
    assert capacity(after_its_end) == capacity(without) == [("on-demand", None)] * 3


def test_every_pod_is_placed_or_has_a_reason(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "node-a"},
        "status": {"allocatable": {"cpu": "1", "memory": "2Gi", "pods": "5"}},
    }
    huge = pod("huge", containers=[container(cpu="100")])
    pinned = pod("pinned", nodeSelector={"kubernetes.io/hostname": "node-a"})
    document = plan(tmp_path, *SCENARIO[:3], node, pod("small"), huge, pinned)
    assert document["nodes"] == [{"name": "node-a", "pods": ["default/small"]}]
    assert [(*one["pods"], one["reasons"][0]["code"]) for one in document["unplaced"]] == [
        ("default/huge", "Resources"),
        ("default/pinned", "Invalid"),
    ]


def test_a_resource_that_no_nodepool_offers_is_named(tmp_path: Path) -> None:
    limits = {"vendor.example/fpga": "1"}
    lonely = pod("lonely", containers=[container(cpu="1", memory="1Gi", limits=limits)])
    made = plan(tmp_path, *SCENARIO[:3], lonely)
    text = "no instance type of any ready NodePool has the extended resource vendor.example/fpga"
    reason = {"code": "NoSuchResource", "kind": "NodePool", "subjects": ["default"], "more": 0, "text": text}
    assert made["unplaced"] == [{"pods": ["default/lonely"], "reasons": [reason]}]
    assert f"NodePool default: {text}" in run(tmp_path, *SCENARIO[:3], lonely).stdout


def test_the_default_output_is_tables(tmp_path: Path) -> None:
    result = run(tmp_path, *SCENARIO)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["NODEPOOL", "TYPE", "ZONE", "CAPACITY", "RESERVATION", "$/H", "PODS"]
    assert any(line.startswith("Cost: $0.096 an hour for 3 new nodes") for line in lines)


def test_notes_go_to_standard_error(tmp_path: Path) -> None:
    result = run(tmp_path, *SCENARIO, pod("gated", schedulingGates=[{"name": "quota"}]), flags=("-o", "json"))
    assert result.stderr == "note: Pod default/gated is passed over: it is behind a scheduling gate\n"
    json.loads(result.stdout)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([pod("p")], "no Catalog among the files"),
        ([catalog_document(setting={})], "Catalog/example: .spec.setting: unknown field"),
        ([CATALOG, pod("p", nodeName="gone")], "Pod/p: .spec.nodeName: there is no Node gone"),
        (
            [CATALOG, pod("p", containers=[container(cpu="lots")])],
            ".spec.containers[0].resources.requests.cpu",
        ),
        ([CATALOG, {"apiVersion": "v1", "kind": "Strange", "metadata": {"name": "x"}}], "Strange"),
        ([CATALOG, {"kind": "Pod"}], "apiVersion"),
    ],
)
def test_a_mistake_is_one_line_on_standard_error(tmp_path: Path, documents: list[Any], message: str) -> None:
    result = run(tmp_path, *documents)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    assert message in line
    assert isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "flags", [("--now", "noon"), ("--reservation-wait", "a while"), ("--packing", "tight")]
)
def test_invalid_flag_is_reported(tmp_path: Path, flags: tuple[str, ...]) -> None:
    result = run(tmp_path, *SCENARIO, flags=flags)
    assert result.exit_code == 2
    assert flags[0] in result.stderr
