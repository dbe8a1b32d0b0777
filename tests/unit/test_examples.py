"""The examples are complete, valid and listed, and cover every use in the design documents."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from crd_tool import objects
from holdfast.cli import main

FOLDER = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(FOLDER.glob("*.yaml"))
CAPACITY_TYPE = "karpenter.sh/capacity-type"
RESERVATION_TYPE = "karpenter.k8s.aws/capacity-reservation-type"


def load(name: str) -> dict[str, list[dict[str, Any]]]:
    """The objects of an example, by kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for obj in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")):
        if obj is not None:
            found.setdefault(obj["kind"], []).append(obj)
    return found


def requirements(name: str) -> dict[str, tuple[str, list[str]]]:
    (pool,) = load(name)["NodePool"]
    wanted = pool["spec"]["template"]["spec"]["requirements"]
    return {item["key"]: (item["operator"], item.get("values", [])) for item in wanted}


def node_class(name: str) -> dict[str, Any]:
    (found,) = load(name)["EC2NodeClass"]
    spec = found["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.mark.fact("Q-46")
def test_validate_finds_nothing_in_the_examples() -> None:
    result = CliRunner().invoke(main, ["validate", "-f", str(FOLDER)])
    assert result.stdout == ""
    assert result.stderr.endswith("valid objects, no findings\n")
    assert result.exit_code == 0


@pytest.mark.fact("Q-46")
@pytest.mark.parametrize("field", ["requirements", "taints", "expireAfter"])
def test_finding_for_a_misplaced_field_names_the_path_where_it_belongs(field: str) -> None:
    pool = objects.spec("NodePool", **{field: []})
    assert f".spec.{field}: unknown field; it belongs at .spec.template.spec.{field}" in objects.lines(pool)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_example_starts_with_a_comment_on_its_purpose_and_users(file: Path) -> None:
    comment = re.match(r"(# .+\n)+", file.read_text(encoding="utf-8"))
    assert comment is not None
    assert 2 <= comment[0].count("\n") <= 4
    assert re.search(r"\b(For|of use for) ", comment[0].replace("\n# ", " "))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_example_contains_the_nodeclasses_that_it_references(file: Path) -> None:
    found = load(file.stem)
    defined = {obj["metadata"]["name"] for obj in found["EC2NodeClass"]}
    pools = [pool["spec"]["template"]["spec"] for pool in found.get("NodePool", [])]
    claims = [claim["spec"] for claim in found.get("NodeClaim", [])]
    assert {spec["nodeClassRef"]["name"] for spec in (*pools, *claims)} == defined


def test_readme_lists_every_example() -> None:
    listed = re.findall(r"\]\(([^)]+)\)", (FOLDER / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == [file.name for file in FILES]


@pytest.mark.fact("Q-46")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("reserved-only", ("In", ["reserved"])),
        ("reserved-then-on-demand", ("In", ["on-demand", "reserved"])),
        ("reserved-then-spot-and-on-demand", None),
    ],
)
def test_examples_have_the_capacity_types_of_the_design_documents(name: str, wanted: object) -> None:
    assert requirements(name).get(CAPACITY_TYPE) == wanted
    assert node_class(name)["capacityReservationSelectorTerms"]


@pytest.mark.fact("Q-46")
@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("reservations-by-id", [{"id"}]),
        ("reservations-by-owner", [{"ownerID"}]),
        ("reservations-by-tags", [{"tags"}]),
        (
            "reservations-by-several-terms",
            [{"id"}, {"id"}, {"ownerID", "tags"}, {"tags", "instanceMatchCriteria"}],
        ),
    ],
)
def test_examples_have_the_selector_terms_of_the_design_documents(name: str, terms: list[set[str]]) -> None:
    assert [set(term) for term in node_class(name)["capacityReservationSelectorTerms"]] == terms


def test_example_of_tags_has_a_wildcard_value() -> None:
    (term,) = node_class("reservations-by-tags")["capacityReservationSelectorTerms"]
    assert "*" in term["tags"].values()


@pytest.mark.fact("Q-46")
def test_capacity_blocks_are_selected_by_the_nodepool_and_by_the_pod() -> None:
    assert requirements("capacity-blocks") == {RESERVATION_TYPE: ("In", ["capacity-block"])}
    (pod,) = load("capacity-blocks")["Pod"]
    assert pod["spec"]["nodeSelector"] == {RESERVATION_TYPE: "capacity-block"}


@pytest.mark.fact("Q-46")
def test_pods_accept_reserved_nodes_by_including_reserved_or_excluding_spot() -> None:
    wanted = []
    for deployment in load("pods-that-accept-reserved")["Deployment"]:
        affinity = deployment["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        (item,) = term["matchExpressions"]
        wanted.append((item["key"], item["operator"], item["values"]))
    assert wanted == [
        (CAPACITY_TYPE, "In", ["on-demand", "reserved"]),
        (CAPACITY_TYPE, "NotIn", ["spot"]),
    ]


@pytest.mark.fact("Q-46")
def test_a_nodeclaim_lists_two_reservations() -> None:
    (claim,) = load("nodeclaim-two-reservations")["NodeClaim"]
    wanted = {item["key"]: item["values"] for item in claim["spec"]["requirements"]}
    ids = wanted["karpenter.k8s.aws/capacity-reservation-id"]
    selected = node_class("nodeclaim-two-reservations")["capacityReservationSelectorTerms"]
    assert len(ids) == 2
    assert ids == [term["id"] for term in selected]


@pytest.mark.fact("Q-39", "Q-46")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("direct-mode-open", {"capacityReservationPreference": "open"}),
        ("direct-mode-none", {"capacityReservationPreference": "none"}),
        (
            "direct-mode-target-id",
            {"capacityReservationTarget": {"capacityReservationId": "cr-0123456789abcdef0"}},
        ),
        (
            "direct-mode-target-group",
            {
                "capacityReservationTarget": {
                    "capacityReservationResourceGroupArn": "arn:aws:resource-groups:us-west-2:111122223333:group/web-reservations"
                }
            },
        ),
    ],
)
def test_examples_of_direct_mode_match_the_design_documents(name: str, wanted: dict[str, Any]) -> None:
    assert node_class(name)["capacityReservationSpec"] == wanted
