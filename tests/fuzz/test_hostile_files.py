"""Hostile values in settings and files: each error is one line, never a traceback."""

import json
from random import Random
from typing import Any

import pytest

import builders
import hostile
from holdfast import errors
from holdfast.api.world import World
from holdfast.app import settings
from holdfast.cli import manifests, plan, scenarios
from holdfast.sim import world_reading

COUNT = 300
LINE_MAX = 400  # characters
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "ok"},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
}
IN_SCENARIOS = [kind for kind in hostile.kinds() if kind not in ("Service", "Lease", "VolumeAttachment")]


def test_invalid_setting_is_refused_with_one_line() -> None:
    refusals = [(setting.name, why) for setting in settings.TABLE if (why := _refused(setting.name))]
    assert len(refusals) > len(settings.TABLE) // 2
    for name, lines in refusals:
        assert all(line.startswith(f"--{name}: ") and len(line) < LINE_MAX for line in lines)


def _refused(name: str) -> list[str]:
    lines = []
    for text in hostile.TEXTS:
        try:
            settings.read({"cluster-name": "x", name: text}, {})
        except errors.InvalidInput as error:
            lines.append(str(error))
    return lines


def test_hostile_scenario_is_planned_or_refused_with_findings() -> None:
    planned = 0
    for seed in range(COUNT):
        dice = Random(seed)
        hostile_catalog = dice.random() < 0.5
        documents = [
            hostile.document("Catalog", "c", dice) if hostile_catalog else hostile.complete("Catalog", "c"),
            builders.nodepool_document(),
            builders.ec2nodeclass_document(),
            POD,
        ]
        for number in range(dice.randint(0, 5)):
            kind = dice.choice(IN_SCENARIOS)
            documents.append(hostile.document(kind, f"h{number}", dice, stored=dice.random() < 0.8))
        read = scenarios.of_documents(documents)
        if isinstance(read, scenarios.Broken):
            assert read.findings
        else:
            plan._plan(read)
            planned += 1
    assert 0 < planned < COUNT


def test_hostile_world_document_is_read_or_refused_with_findings() -> None:
    for seed in range(COUNT):
        dice = Random(seed)
        loaded = manifests.parse("world", json.dumps(hostile.document("World", "w", dice)).encode())
        for one in loaded.objects:
            assert isinstance(one.obj, World)
            found = world_reading.read(one.obj, world_reading.begin_s(one.obj) or 1)
            world_reading.cluster_timings(one.obj)
            assert found
        assert loaded.objects or loaded.findings


@pytest.mark.parametrize("kind", ["Catalog", "World", *hostile.kinds()])
def test_complete_object_has_no_findings(kind: str) -> None:
    loaded = manifests.parse("x", json.dumps(hostile.complete(kind, "x")).encode())
    assert not loaded.findings


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"reservations": [{"total": 2**32}]}, "spec.reservations[0].total"),
        (
            {"instanceTypes": [{"offerings": [{"price": "9223372037"}]}]},
            "spec.instanceTypes[0].offerings[0].price",
        ),
        ({"instanceTypes": [{"capacity": {"cpu": "-2"}}]}, "spec.instanceTypes[0].capacity.cpu"),
        ({"instanceTypes": [{"overhead": {"memory": "-1"}}]}, "spec.instanceTypes[0].overhead.memory"),
        ({"instanceTypes": [{"volumeLimits": {"d": -1}}]}, "spec.instanceTypes[0].volumeLimits"),
        ({"now": "10000-01-01T00:00:00Z"}, "spec.now"),
        ({"reservations": [{"end": "0000-01-01T00:00:00Z"}]}, "spec.reservations[0].end"),
    ],
)
def test_number_out_of_range_in_a_catalog_is_a_finding_with_its_path(change: Any, where: str) -> None:
    document = _changed(hostile.complete("Catalog", "c"), change)
    read = scenarios.of_documents(
        [document, builders.nodepool_document(), builders.ec2nodeclass_document(), POD]
    )
    assert isinstance(read, scenarios.Broken)
    assert where in {one.path.lstrip(".")[: len(where)] for one in read.findings}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"reservations": [{"total": 2**32}]}, "spec.reservations[0].total"),
        ({"prices": [{"price": "9223372037"}]}, "spec.prices[0].price"),
        ({"start": "9999-12-31T23:59:59Z"}, "spec.start"),
        ({"reservations": [{"end": "9999-12-31T23:59:59Z"}]}, "spec.reservations[0].end"),
        ({"timings": {"boot": "99999999h"}}, "spec.timings.boot"),
        ({"faults": [{"after": "9" * 5000 + "h"}]}, "spec.faults[0].after"),
    ],
)
def test_number_out_of_range_in_a_world_document_is_a_finding_with_its_path(change: Any, where: str) -> None:
    document = _changed(hostile.complete("World", "w"), change)
    loaded = manifests.parse("world", json.dumps(document).encode())
    found = [one.path for one in loaded.findings]
    for one in loaded.objects:
        assert isinstance(one.obj, World)
        found += [one.located(finding).path for finding in world_reading.problems(one.obj)]
    assert [path.lstrip(".") for path in found] == [where]


def _changed(document: Any, change: Any) -> Any:
    """The document with a change to its spec merged in; items of lists one by one."""
    document["spec"] = _merged(document["spec"], change)
    return document


def _merged(original: Any, change: Any) -> Any:
    if isinstance(original, dict) and isinstance(change, dict):
        return original | {key: _merged(original.get(key), value) for key, value in change.items()}
    if isinstance(original, list) and isinstance(change, list):
        return [_merged(old, new) for old, new in zip(original, change, strict=False)] + original[
            len(change) :
        ]
    return change
