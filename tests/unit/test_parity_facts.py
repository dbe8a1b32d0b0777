"""The index of facts parses every notation of the pages and refuses a duplicate id."""

from pathlib import Path

import pytest

import paritylib
from parity_tool import project
from paritylib import facts

ROOT = Path(__file__).resolve().parents[2]


def read(root: Path) -> dict[str, facts.Fact]:
    return facts.read(root / "docs/spec")


def test_a_list_item_with_its_continuation_lines_is_a_fact(tmp_path: Path) -> None:
    core = """\
        ## 5. Disruption
        ### 5.5 Drift [src: disruption/drift.go]
        - D-19 One line
          and another.
        - D-19a With a letter.

        Not of it.
        """
    found = read(project.write(tmp_path, core=core))
    assert found["D-19"].text == "One line and another."
    assert found["D-19a"].text == "With a letter."
    assert (found["D-19"].chapter, found["D-19"].section, found["D-19"].heading) == (
        "5. Disruption",
        "5.5",
        "Drift",
    )
    assert found["D-19"].place == "docs/spec/karpenter-core.md:3"


def test_numbered_paragraphs_and_weaknesses_of_the_aws_page_are_facts(tmp_path: Path) -> None:
    aws = """\
        ## 3. Accounting
        3.10 Marks never extend it.
        ### 1.6 Hash
        1.6.3a A hint.
        AW-02 Counts are invisible.
        """
    found = read(project.write(tmp_path, aws=aws))
    assert {"aws-3.10", "aws-1.6.3a", "AW-02"} <= found.keys()


def test_a_subsection_without_numbered_facts_is_one_fact(tmp_path: Path) -> None:
    aws = """\
        ## 14. Decision tables
        ### 14.1 Availability
        | count | available |
        | 0 | no |
        ### 14.2 State
        14.2.1 By type.
        """
    found = read(project.write(tmp_path, aws=aws))
    assert [fact_id for fact_id in found if fact_id.startswith("aws-")] == ["aws-14.1", "aws-14.2.1"]
    assert found["aws-14.1"].text == "Availability"


def test_rows_of_a_table_are_requirements(tmp_path: Path) -> None:
    found = read(project.write(tmp_path, seeds="| Q-1 | `a\\|b` | 000 | H, E |\n"))
    assert found["Q-1"].text == r"`a\|b`"


def test_a_duplicate_id_is_an_error_that_names_both_locations(tmp_path: Path) -> None:
    root = project.write(tmp_path, core="- C-1 one\n- C-1 two\n")
    with pytest.raises(
        paritylib.ParityError, match=r"core\.md:2: C-1 is already at docs/spec/karpenter-core\.md:1"
    ):
        read(root)


def test_ids_sort_in_natural_order() -> None:
    ids = ["S-10", "S-9", "R-14a", "R-14", "aws-1.10", "aws-1.2.1", "aws-1.2"]
    assert sorted(ids, key=facts.natural) == [
        "R-14",
        "R-14a",
        "S-9",
        "S-10",
        "aws-1.2",
        "aws-1.2.1",
        "aws-1.10",
    ]


def test_the_pages_of_this_project_are_read_in_full() -> None:
    found = read(ROOT)
    kinds = {fact_id.partition("-")[0] for fact_id in found}
    core = {"S", "R", "P", "NC", "D", "ST", "C", "X", "M", "E", "O", "W"}
    assert kinds == {"Q", *core, "AW", "aws", "PR", "PG", "GR", "TI"}
    assert {
        "Q-46",
        "S-100",
        "R-24a",
        "D-19a",
        "C-11",
        "aws-1.1.10",
        "aws-1.6.3a",
        "aws-3.10",
        "aws-14.8",
    } <= found.keys()
