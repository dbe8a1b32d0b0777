"""The pure parts of a report without its HTML: variants, medians, differences, the JSON document, CSV, result files."""

import csv
import io
import json

import msgspec
import pytest

from holdfast import errors
from holdfast.api.simulation_reports import MissingResult, SimulationReport
from holdfast.api.simulation_results import Dollars, SimulationResult
from holdfast.simulate.report import document, measures, outputs, result_files, study, tables
from simulation_documents import BEGINS, DAY_S, HOSTILE, ODCR, hostile, reservation, result, timeline


def total(usd: float, variant: str = "base", seed: int = 1, **fields: object) -> SimulationResult:
    return result(variant, seed, dollars=Dollars(total=usd, on_demand=usd), **fields)


TWO_BY_THREE = [
    *(total(usd, "base", seed) for seed, usd in ((1, 100.0), (2, 140.0), (3, 110.0))),
    *(total(usd, "less", seed) for seed, usd in ((1, 90.0), (2, 95.0), (3, 70.0))),
]


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


# --- Variants ---------------------------------------------------------------------------------------


def test_base_is_first_then_the_order_of_the_study_then_names() -> None:
    names = ("zeta", "alpha", "base", "new-10", "new-2")
    planned = ("base", "new-2", "new-10")
    found = study.build([result(one, study_variants=planned) for one in names])
    assert [one.name for one in found.variants] == ["base", "new-2", "new-10", "alpha", "zeta"]


def test_median_spread_and_difference_are_over_seeds() -> None:
    found = study.build(reversed(TWO_BY_THREE))
    base, less = found.variants
    assert [one.seed for one in base.results] == [1, 2, 3]
    assert measures.spread(measures.USD_TOTAL, base) == measures.Spread(110, 100, 140)
    assert measures.spread(measures.USD_TOTAL, less) == measures.Spread(90, 70, 95)
    assert measures.difference(measures.USD_TOTAL, less, base) == -20
    assert (base.charted.seed, less.charted.seed) == (3, 1)


def test_charted_result_of_two_is_the_cheaper_and_a_whole_one_if_there_is_one() -> None:
    assert study.build([total(9, seed=1), total(7, seed=2)]).base.charted.seed == 2
    interrupted = total(1, seed=3, until=BEGINS + 60)
    assert study.build([total(9, seed=1), interrupted]).base.charted.seed == 1
    assert study.build([interrupted]).base.charted.seed == 3


def test_results_with_different_simulated_times_are_not_compared() -> None:
    partial = total(50, "less", until=BEGINS + 3600)
    found = study.build([total(100), partial])
    assert [one.name for one in found.variants if one.partial] == ["less"]
    assert measures.difference(measures.USD_TOTAL, found.variants[1], found.base) is None
    both = study.build([total(100, until=BEGINS + 3600), partial])
    assert measures.difference(measures.USD_TOTAL, both.variants[1], both.base) == -50


def test_missing_results_are_found_from_the_other_variants_and_from_the_plan() -> None:
    assert study.build(TWO_BY_THREE).missing == ()
    assert study.build(TWO_BY_THREE[:-1]).missing == (MissingResult(variant="less", seed=3),)
    planned = result(study_variants=("base", "more"), study_seeds=(1, 2))
    assert [(one.variant, one.seed) for one in study.build([planned]).missing] == [
        ("base", 2),
        ("more", 1),
        ("more", 2),
    ]


def test_variants_of_several_inputs_have_the_input_in_their_name() -> None:
    found = study.build([result(), result(input="other")])
    assert [one.name for one in found.variants] == [
        "base of small, input other",
        "base of small, input sha256:0",
    ]
    assert found.missing == ()


# --- JSON -------------------------------------------------------------------------------------------


def test_json_document_has_all_results_and_their_comparison() -> None:
    text = document.text(document.build(study.build(TWO_BY_THREE)))
    plain = json.loads(text)
    assert (plain["apiVersion"], plain["kind"]) == ("holdfast.dev/v1alpha1", "SimulationReport")
    report = msgspec.json.decode(text, type=SimulationReport)
    assert list(report.results) == TWO_BY_THREE
    (less,) = [one for one in report.variants if one.variant == "less"]
    (usd,) = [one for one in less.measures if one.name == "usd_total"]
    assert (usd.median, usd.smallest, usd.largest, usd.difference) == (90, 70, 95, -20)
    assert {one.name for one in less.measures} >= {"disrupted_Empty", "calls_aws", "waiting_p99_s"}
    assert all(result_files.read("x", json.dumps(one).encode()) for one in plain["results"])


# --- CSV --------------------------------------------------------------------------------------------


def test_csv_has_a_row_for_each_variant_and_seed_and_for_each_reservation() -> None:
    merged = study.build(TWO_BY_THREE)
    found = rows(tables.variants(merged))
    assert [(one["variant"], one["seed"], one["usd_total"], one["partial"]) for one in found] == [
        ("base", "1", "100.0", "no"),
        ("base", "2", "140.0", "no"),
        ("base", "3", "110.0", "no"),
        ("less", "1", "90.0", "no"),
        ("less", "2", "95.0", "no"),
        ("less", "3", "70.0", "no"),
    ]
    assert found[0]["disrupted_Empty"] == "2"
    slots = rows(tables.reservations(merged))
    assert len(slots) == 6
    assert (slots[0]["reservation"], slots[0]["slots"], slots[0]["idle_hours"]) == (ODCR, "4", "24.0")


def test_text_that_begins_like_a_formula_is_text_in_a_spreadsheet() -> None:
    merged = study.build(hostile())
    for text in (tables.variants(merged), tables.reservations(merged)):
        cells = [cell for row in csv.reader(io.StringIO(text, newline="")) for cell in row]
        assert "'=HYPERLINK(1)" in cells
        assert [one for one in cells if one.startswith(("=", "+", "@", "\t"))] == []
    assert {one["variant"].removeprefix("'") for one in rows(tables.variants(merged))} == set(HOSTILE)


def test_numbers_of_csv_are_never_changed_to_text() -> None:
    (row,) = rows(tables.variants(study.build([total(-1.5)])))
    assert row["usd_total"] == "-1.5"


# --- Result files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("one", [result(), *hostile()], ids=lambda one: ascii(one.variant[:12]))
def test_result_file_is_read_as_it_was_written(one: SimulationResult) -> None:
    assert result_files.read("x", result_files.text(one)) == one


def changed(**fields: object) -> bytes:
    return json.dumps(json.loads(result_files.text(result())) | fields).encode()


BROKEN = {
    "half a file": (result_files.text(result())[:200], "not a whole JSON document"),
    "nothing": (b"", "not a whole JSON document"),
    "not UTF-8": (b'{"kind": "\xff"}', "not a whole JSON document"),
    "very deep": (b"[" * 100_000, "not a whole JSON document"),
    "a list": (b"[]", "not a SimulationResult"),
    "another kind": (changed(kind="World"), "not a SimulationResult"),
    "another version": (
        changed(apiVersion="holdfast.dev/v1"),
        "has the format holdfast.dev/v1, and this Holdfast reads",
    ),
    "no version": (changed(apiVersion=None), "has the format None"),
    "a wrong type": (changed(seed="one"), ".seed: Expected int, got str"),
    "a missing field": (changed(timeline={"begins": 1}), ".timeline: Object missing required field step"),
    "infinity": (changed(dollars={"total": 1e15}).replace(b"1000000000000000.0", b"1e999"), ""),
    "a huge number": (changed(calls={"aws": 10**16}), "has a number that is not finite, or larger than 1e15"),
    "an end before the start": (
        changed(ends=BEGINS - 1),
        "begins, until and ends must be times in this order",
    ),
    "a time too late": (changed(ends=10**14, until=10**14), "begins, until and ends"),
    "a negative time": (changed(begins=-1), "begins, until and ends"),
    "a reservation that ends before it begins": (
        changed(reservations=[msgspec.to_builtins(reservation(ends=BEGINS - 1))]),
        "a reservation must begin before it ends",
    ),
    "an event too late": (
        changed(events=[{"at": 10**14, "type": "x", "text": "y"}]),
        "has a time that is not before the year 10000",
    ),
    "no step": (changed(timeline={"begins": BEGINS, "step": 0}), ".timeline.step must be at least 1 s"),
    "lists of different lengths": (
        changed(timeline={"begins": BEGINS, "step": 1, "spotNodes": [1]}),
        ".timeline has lists of different lengths",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_result_file_is_refused_with_its_name_and_the_reason(name: str) -> None:
    data, message = BROKEN[name]
    with pytest.raises(errors.InvalidInput) as error:
        result_files.read("base-1.result.json", data)
    assert str(error.value).startswith("base-1.result.json: ")
    assert message in str(error.value)


def test_results_of_different_inputs_are_refused_unless_mixed() -> None:
    results = {"a": result(), "b": result(), "c": result("less", input="other")}
    with pytest.raises(errors.InvalidInput, match="a and c are results of different inputs"):
        result_files.check_set({key: results[key] for key in "ac"}, mixed=False)
    result_files.check_set({key: results[key] for key in "ac"}, mixed=True)
    with pytest.raises(errors.InvalidInput, match="a and b are both results of variant base, seed 1"):
        result_files.check_set({key: results[key] for key in "ab"}, mixed=False)


def test_report_of_equal_results_in_any_order_is_the_same() -> None:
    assert outputs.build(study.build(TWO_BY_THREE)) == outputs.build(study.build(TWO_BY_THREE[::-1]))


def test_timeline_of_no_steps_is_read() -> None:
    one = result(timeline=timeline(0), until=BEGINS, ends=BEGINS + DAY_S)
    assert result_files.read("x", result_files.text(one)).timeline.pods_running == ()
