"""Catalog documents: findings for invalid fields, and whether schema and example in docs are current."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from holdfast.api import ec2nodeclass, kinds, scenario, scenario_schema
from holdfast.api.findings import text_of
from holdfast.api.scenario import Catalog
from holdfast.api.schema import structural
from holdfast.core.scheduling.input import request

DOCS = Path(__file__).resolve().parents[2] / "docs"
LARGE = {
    "name": "m5.large",
    "labels": {"kubernetes.io/arch": "amd64", "kubernetes.io/os": ["linux", "windows"]},
    "capacity": {"cpu": 2, "memory": "8Gi", "pods": "29"},
    "offerings": [{"zone": "a", "capacityType": "on-demand", "price": "0.096"}],
}


def catalog(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Catalog",
        "metadata": {"name": "example"},
        "spec": spec,
    }


def findings_by_path(**spec: Any) -> dict[str, str]:
    return {text_of(f.path): f.message for f in scenario_schema.findings(catalog(**spec), Catalog)}


def test_the_schema_in_docs_is_current() -> None:
    command = "python -c 'from holdfast.api import scenario_schema; print(scenario_schema.schema_text(), end=\"\")' > docs/scenario.schema.json"
    assert (DOCS / "scenario.schema.json").read_text() == scenario_schema.schema_text(), (
        f"stale; run: {command}"
    )


def test_the_example_in_docs_is_valid() -> None:
    text = (DOCS / "scenario.md").read_text().split("```yaml\n")[1].split("```")[0]
    document = yaml.safe_load(text)
    assert scenario_schema.findings(document, Catalog) == []
    assert isinstance(kinds.from_plain(document, Catalog), Catalog)


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"regions": "us-west-2"}, ".spec.regions", "did you mean region?"),
        ({"settings": {"packing": "tight"}}, ".spec.settings.packing", "karpenter or cost"),
        ({"settings": {"reservationWait": "soon"}}, ".spec.settings.reservationWait", "a duration"),
        ({"instanceTypes": [{"name": "x"}]}, ".spec.instanceTypes[0].capacity", "Required value"),
        (
            {"instanceTypes": [LARGE | {"capacity": {"cpu": "two"}}]},
            ".spec.instanceTypes[0].capacity.cpu",
            "quantity",
        ),
        (
            {"instanceTypes": [LARGE | {"labels": {"gpu": True}}]},
            ".spec.instanceTypes[0].labels.gpu",
            "in quotes",
        ),
        (
            {"instanceTypes": [LARGE | {"offerings": [{"zone": "a", "capacityType": "ondemand"}]}]},
            ".spec.instanceTypes[0].offerings[0].capacityType",
            "on-demand",
        ),
        (
            {"reservations": [{"id": "cr-1", "zone": "a"}]},
            ".spec.reservations[0].instanceType",
            "Required value",
        ),
        ({"now": "yesterday"}, ".spec.now", "is not a"),
    ],
)
def test_finding_has_the_path_and_message_of_the_invalid_field(
    spec: dict[str, Any], path: str, message: str
) -> None:
    findings = findings_by_path(**spec)
    assert list(findings) == [path]
    assert message in findings[path]


def test_settings_match_those_of_the_planner() -> None:
    schema = structural(scenario.Settings)["properties"]
    assert schema["packing"]["enum"] == [p.value for p in request.Packing]
    assert schema["reservedMode"]["enum"] == [m.value for m in request.ReservedMode]
    assert schema["preferencePolicy"]["enum"] == [p.value for p in request.PreferencePolicy]
    assert schema["minValuesPolicy"]["enum"] == [p.value for p in request.MinValuesPolicy]
    known = {name.removesuffix("_s").removesuffix("_nano") for name in request.Settings.__slots__}
    assert set(scenario.Settings.__struct_fields__) == known


def test_reservation_types_match_those_of_ec2nodeclass() -> None:
    assert ec2nodeclass.status.RESERVATION_TYPES == scenario.RESERVATION_TYPES
