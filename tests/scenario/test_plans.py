"""Scenarios with their expected plans, run through `holdfast plan` with both packings.

Every `plans/<name>.yaml` has a `<name>.expected.yaml` with the expected plan, written by hand. The file has the
section `both`, or one section for each packing. Equal nodes are one entry with their number, and pods are counted by
workload. A field that an entry omits must be empty in the plan. Requirements of claims are compared only for the keys
that the section mentions.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from checker import check
from holdfast.cli import main

PLANS = Path(__file__).parent / "plans"
EXPECTED = ".expected.yaml"
SECTIONS = {"claims", "nodes", "unplaced", "waiting", "notReserved", "slotsLeft", "costPerHour"}

# The facts that each scenario shows.
CASES = [
    pytest.param("gangs-are-placed-whole-by-rank"),
    pytest.param("gangs-in-one-zone"),
    pytest.param("q-06-many-reservations-serve-one-nodepool", marks=pytest.mark.fact("Q-6", "R-18")),
    pytest.param("q-08-reserved-before-spot-and-on-demand", marks=pytest.mark.fact("Q-8")),
    pytest.param("q-11-reserved-only-never-buys", marks=pytest.mark.fact("Q-11")),
    pytest.param(
        "q-12-on-demand-and-reserved-falls-back-to-on-demand", marks=pytest.mark.fact("Q-12", "R-9")
    ),
    pytest.param(
        "q-12-no-requirement-falls-back-to-spot-then-on-demand", marks=pytest.mark.fact("Q-12", "R-9")
    ),
    pytest.param(
        "q-14-a-pod-that-selects-on-demand-uses-no-slot", marks=pytest.mark.fact("Q-14", "R-9", "R-42")
    ),
    pytest.param("q-15-a-node-keeps-its-last-slot", marks=pytest.mark.fact("Q-15", "R-21")),
    pytest.param("q-18-availability-is-a-count", marks=pytest.mark.fact("Q-18")),
    pytest.param("q-19-ten-thousand-pods-and-one-slot", marks=pytest.mark.fact("Q-19")),
    pytest.param("q-32-full-reservations-change-nothing", marks=pytest.mark.fact("Q-32")),
    pytest.param(
        "q-34-seed-004-a-nodepool-of-capacity-blocks", marks=pytest.mark.fact("Q-34", "Q-46", "R-8")
    ),
    pytest.param(
        "q-34-seed-004-a-pod-that-selects-capacity-blocks", marks=pytest.mark.fact("Q-34", "Q-46", "R-8")
    ),
    pytest.param("q-35-a-claim-lists-every-compatible-reservation", marks=pytest.mark.fact("Q-35", "R-27")),
    pytest.param("r-24a-a-full-nodepool-holds-nobody-back", marks=pytest.mark.fact("R-24a", "R-22")),
    pytest.param("r-24a-of-equal-weight-a-full-nodepool-holds-nobody-back", marks=pytest.mark.fact("R-24a")),
    pytest.param("r-25-a-free-slot-before-the-weight-of-a-nodepool", marks=pytest.mark.fact("R-25")),
    pytest.param("r-25-weight-first-when-asked", marks=pytest.mark.fact("R-25")),
    pytest.param("r-29-a-claim-without-a-slot-cannot-reach-one", marks=pytest.mark.fact("R-29", "R-27")),
    pytest.param("r-57-slots-of-one-nodepool-and-the-rest-of-the-next", marks=pytest.mark.fact("R-57")),
    pytest.param(
        "decision-13-a-node-moves-to-another-slot-for-one-that-cannot", marks=pytest.mark.fact("R-17")
    ),
    pytest.param("decision-20-which-slot-comes-first", marks=pytest.mark.fact("R-26", "AW-09")),
    pytest.param("decision-21-a-held-slot-means-falling-back-at-once", marks=pytest.mark.fact("R-22")),
    pytest.param("decision-21-waiting-for-a-held-slot-is-bounded", marks=pytest.mark.fact("R-22")),
    pytest.param("decision-21-patience-ends", marks=pytest.mark.fact("R-22")),
    pytest.param("q-34-seed-004-the-status-of-an-ec2nodeclass", marks=pytest.mark.fact("Q-34", "Q-46")),
    pytest.param("decision-06-a-block-is-left-alone-from-forty-minutes-before-its-end"),
    pytest.param("reasons-why-pods-are-in-no-slot", marks=pytest.mark.fact("Q-14")),
]


@pytest.mark.parametrize("packing", ["karpenter", "cost"])
@pytest.mark.parametrize("name", CASES)
def test_scenario_gives_the_expected_plan(name: str, packing: str) -> None:
    expected = expected_of(name, packing)
    made = plan(name, "--packing", packing)
    assert in_expected_form(made, keys_of(expected)) == normal(expected)
    assert check.check(documents(name), made) == []


@pytest.mark.fact("Q-32")
@pytest.mark.parametrize("packing", ["karpenter", "cost"])
def test_full_reservations_give_the_plan_without_reservations(packing: str) -> None:
    name = "q-32-full-reservations-change-nothing"
    with_reservations = plan(name, "--packing", packing)
    without_reservations = plan(name, "--packing", packing, "--no-reserved-capacity")
    assert with_reservations.pop("notReserved")
    assert without_reservations.pop("notReserved") == []
    assert with_reservations == without_reservations


def test_every_plan_file_belongs_to_a_case() -> None:
    names = {case.values[0] for case in CASES}
    files = {f"{name}{ending}" for name in names for ending in (".yaml", EXPECTED)}
    assert {path.name for path in PLANS.iterdir()} == files


# --- Reading ----------------------------------------------------------------------------------------


def plan(name: str, *flags: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["plan", "-f", str(PLANS / f"{name}.yaml"), "-o", "json", *flags])
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert isinstance(made, dict)
    return made


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((PLANS / f"{name}.yaml").read_text()))


def expected_of(name: str, packing: str) -> dict[str, Any]:
    read = yaml.safe_load((PLANS / f"{name}{EXPECTED}").read_text())
    assert set(read) in ({"both"}, {"karpenter", "cost"}), "one section for both packings, or one for each"
    expected = read["both"] if "both" in read else read[packing]
    assert isinstance(expected, dict)
    assert set(expected) <= SECTIONS, f"sections are {sorted(SECTIONS)}"
    return expected


def keys_of(expected: dict[str, Any]) -> set[str]:
    """The label keys whose requirements the expected claims mention."""
    return {key for claim in expected.get("claims", ()) for key in claim.get("requirements", {})}


# --- Plans in the form of the expected files -----------------------------------------------------------


def normal(expected: dict[str, Any]) -> dict[str, Any]:
    """An expected section with sorted lists and with defaults for omitted fields."""
    lists = ("claims", "nodes", "unplaced", "waiting", "notReserved")
    return {
        **{key: in_order(expected.get(key, [])) for key in lists},
        "slotsLeft": expected.get("slotsLeft", {}),
        "costPerHour": expected.get("costPerHour", "0"),
    }


def in_expected_form(made: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    """A plan in the form of an expected file."""
    return {
        "claims": in_order(numbered("nodes", [claim(one, keys) for one in made["claims"]])),
        "nodes": in_order([{"name": one["name"], "pods": owners(one["pods"])} for one in made["nodes"]]),
        "unplaced": in_order(numbered("pods", unplaced(made["unplaced"]))),
        "waiting": in_order(numbered("pods", unplaced(made["waiting"]))),
        "notReserved": in_order(numbered("pods", unplaced(made["notReserved"]))),
        "slotsLeft": made["slotsLeft"],
        "costPerHour": made["cost"]["perHour"],
    }


def claim(one: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    fields = ("nodePool", "instanceType", "zone", "capacityType", "reservationID", "reservationIDs")
    wanted = [(r["key"], " ".join([r["operator"], *r.get("values", ())])) for r in one["requirements"]]
    found = {key: one[key] for key in fields} | {"pods": owners(one["pods"])}
    found["requirements"] = {key: text for key, text in wanted if key in keys}
    return {key: value for key, value in found.items() if value}


def unplaced(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for one in entries:
        reasons = [f"{r['code']} {subject}" for r in one["reasons"] for subject in r["subjects"]]
        details = {"reasons": reasons} | {key: one[key] for key in ("reservation", "until") if key in one}
        yield from ({"of": owner(pod), **details} for pod in one["pods"])


def owners(pods: list[str]) -> dict[str, int]:
    return dict(Counter(map(owner, pods)))


def owner(pod: str) -> str:
    """The workload of a pod: its name without the number at the end."""
    return re.sub(r"-\d+$", "", pod.removeprefix("default/"))


def numbered(word: str, found: Any) -> list[dict[str, Any]]:
    """Equal entries once, with their number."""
    counts = Counter(json.dumps(one, sort_keys=True) for one in found)
    return [{word: count} | json.loads(text) for text, count in counts.items()]


def in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda one: json.dumps(one, sort_keys=True))
