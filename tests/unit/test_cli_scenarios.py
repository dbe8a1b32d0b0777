"""Scenarios from files: which time and settings apply, and that a mistake has its file, line, object and field."""

from pathlib import Path
from typing import Any

import yaml

from builders import ec2nodeclass_document, nodepool_document
from holdfast.cli import scenarios
from holdfast.core.scheduling.input.request import Packing
from holdfast.scenarios.scenario import Scenario
from objects import NOW, NOW_S
from scenarios import catalog_document, instance_type

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}


def write_scenario(folder: Path, *documents: dict[str, Any]) -> tuple[str, ...]:
    file = folder / "scenario.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return (str(file),)


def read(paths: tuple[str, ...], **more: Any) -> Scenario | scenarios.Broken:
    arguments: dict[str, Any] = {"now_s": None, "clock": lambda: 5.5, "flags": {}}
    return scenarios.read(paths, **(arguments | more))


def scenario(folder: Path, *documents: dict[str, Any], **more: Any) -> Scenario:
    result = read(write_scenario(folder, *documents), **more)
    assert isinstance(result, Scenario), result
    return result


def mistakes(folder: Path, *documents: dict[str, Any]) -> list[str]:
    result = read(write_scenario(folder, *documents))
    assert isinstance(result, scenarios.Broken)
    return [str(finding).replace(str(folder), "") for finding in result.findings]


def test_a_scenario_is_read_from_files(tmp_path: Path) -> None:
    got = scenario(tmp_path, catalog_document(), nodepool_document(), ec2nodeclass_document(), POD)
    assert [pod.uid for pod in got.request.snapshot.pending] == ["default/p"]
    assert [pool.name for pool in got.request.snapshot.node_pools] == ["default"]
    assert got.notes == ()


def test_now_flag_overrides_catalog_time_which_overrides_the_clock(tmp_path: Path) -> None:
    dated = catalog_document(now=NOW)
    assert scenario(tmp_path, dated, now_s=7).request.snapshot.taken_s == 7
    assert scenario(tmp_path, dated).request.snapshot.taken_s == NOW_S
    assert scenario(tmp_path, catalog_document()).request.snapshot.taken_s == 5


def test_flags_override_catalog_settings(tmp_path: Path) -> None:
    catalog = catalog_document(settings={"packing": "cost", "packingCandidates": 2})
    got = scenario(tmp_path, catalog, flags={"packing": "karpenter", "ledger_lag": "1m"}).request.settings
    assert (got.packing, got.packing_candidates, got.ledger_lag_s) == (Packing.KARPENTER, 2, 60)


def test_a_mistake_has_its_file_line_object_and_field(tmp_path: Path) -> None:
    broken = catalog_document(instanceTypes=[instance_type(capacity={"cpu": "1"})], region="mars-1")
    pod_on_missing_node = POD | {"spec": {"nodeName": "nowhere"}}
    first, second = mistakes(tmp_path, broken, pod_on_missing_node)
    assert first == (
        "/scenario.yaml:7: Catalog/example: .spec.instanceTypes[0].capacity: "
        "pods is missing, so no pod would fit: how many can a node run?"
    )
    assert second.startswith("/scenario.yaml:14: Catalog/example: .spec.region: mars-1 is not a region")
    assert mistakes(tmp_path, catalog_document(), pod_on_missing_node) == [
        "/scenario.yaml:22: Pod/p: .spec.nodeName: there is no Node nowhere among the files"
    ]


def test_schema_mistakes_are_reported_first(tmp_path: Path) -> None:
    pod_on_missing_node = POD | {"spec": {"nodeName": "nowhere"}}
    (found,) = mistakes(tmp_path, catalog_document(setting={}), pod_on_missing_node)
    assert ".spec.setting: unknown field; did you mean settings?" in found


def test_a_missing_catalog_is_reported(tmp_path: Path) -> None:
    (found,) = mistakes(tmp_path, POD)
    assert found.startswith("/scenario.yaml:1: no Catalog among the files")


def test_a_second_catalog_is_reported(tmp_path: Path) -> None:
    second = catalog_document() | {"metadata": {"name": "other"}}
    (found,) = mistakes(tmp_path, catalog_document(), second)
    assert "Catalog/other" in found
