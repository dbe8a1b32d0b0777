"""The HTML of a report: what it shows, that names stay text, how large it is. `make e2e-page` opens it in a browser."""

import json
import math
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import html_documents
import simulation_documents as documents
from holdfast import errors
from holdfast.api.simulation_results import Event, SimulationResult, Sizing
from holdfast.simulate.report import outputs, page, plots, result_files, series, study, texts
from holdfast.simulate.report.measures import USD_TOTAL, USED_PERCENT, WAITING_P99
from holdfast.simulate.report.series import Series, Span, Summary
from simulation_documents import BEGINS, DAY_S, HOSTILE, MARKUP, STEP_S, WEEK_S, result

WEEK_BYTES_MAX = 260_000  # two variants with three seeds


def shown(*results: SimulationResult, **more: Any) -> str:
    return page.text(study.build(results), **more)


def text_of(*results: SimulationResult, **more: Any) -> str:
    return html_documents.read(shown(*results, **more)).text


@pytest.fixture(scope="module")
def week() -> str:
    return page.text(study.build(documents.study()), documents.SIZING)


# --- What it shows ----------------------------------------------------------------------------------


def test_week_is_one_file_without_script_or_address(week: str) -> None:
    found = html_documents.read(week)
    assert {one for one in found.addresses if not one.startswith("#")} == set()
    assert found.elements["script"] == found.elements["img"] == found.elements["link"] == 0
    assert [one for one in found.attributes if one.startswith("on")] == []
    assert "default-src &#x27;none&#x27;" in week
    assert not re.search(r"@import|url\((?!#)", week)


def test_week_shows_variants_settings_seeds_sizing_and_events(week: str) -> None:
    text = html_documents.read(week).text
    for expected in (
        "Simulation report: web-and-training",
        "2 variants, 3 seeds, 6 results",
        "$11,948.14",
        "$11,947.50 to $11,948.75",
        "\N{MINUS SIGN}$267.60 (\N{MINUS SIGN}2.2 %)",
        "seed 3, the median of 3 seeds by total",
        "World/main: reservation cr-0a1b2c3d4e5f60718: total 12 -> 9",
        "StaticCapacity=true",
        "Disrupted: Underutilized",
        "first $31.20, last $1.33, one more \N{MINUS SIGN}$2.40",
        "g5.xlarge has no reservation price, so it is left out.",
        "1 pod waits at the end",
        "no instance type has enough resources: cpu 9k is requested",
        "Capacity block cr-0b2c3d4e5f6071829 ends.",
        "Prices of spot are constant.",
        "Each step shows the mean of 30 min.",
    ):
        assert expected in text, expected
    assert "Partial" not in text
    assert "Missing" not in text


def test_partial_missing_and_mixed_results_are_on_top() -> None:
    partial = documents.week("less", 2, hours=100)
    text = text_of(documents.week(), partial, msgspec.structs.replace(result(), input="other"))
    top = text[: text.index("The base: ")]
    assert (
        "Partial: less of web-and-training, input sha256:5 with seed 2 was simulated until Fri 20 Nov 2026 04:00 UTC"
        in top
    )
    assert "4 d 4 h of 7 d" in top
    assert "Missing: base with seed 2, " in top
    assert "Mixed: " in top
    assert "not simulated" in text
    assert "not comparable" in text


def test_sizing_without_a_slot_that_pays_is_shown() -> None:
    assert "Sizing" not in text_of(result())
    text = text_of(result(), sizing=Sizing(notes=(MARKUP,)))
    assert "No further slot would have paid for itself." in text
    assert MARKUP in text


def test_one_result_has_no_differences() -> None:
    text = text_of(result())
    assert "Differences" not in text
    assert "1 variant, 1 seed, 1 result." in text
    assert "$101.00" in text


def test_every_chart_has_a_caption_and_a_table_of_values(week: str) -> None:
    assert week.count("<figure") == 2 * 4
    assert week.count("<figcaption") == week.count("<figure")
    assert week.count('<details class="values"><summary><span>Values') == 2 * 4


def test_values_of_a_chart_are_those_of_the_result() -> None:
    one = msgspec.structs.replace(
        documents.timeline(2, DAY_S // 2), usd_on_demand=(7.0, 9.25), pods_waiting=(3, 12)
    )
    text = text_of(result(timeline=one))
    assert "largest $12.25 an hour (Mon 16 Nov 12:00)" in text  # with 1.50 for used and idle slots
    assert "largest 12 pods waiting (Mon 16 Nov 12:00)" in text
    assert "$9.25" in text


@pytest.mark.parametrize("count", [0, 1])
def test_timeline_without_steps_or_with_one_is_drawn(count: int) -> None:
    one = result(timeline=documents.timeline(count, DAY_S))
    text = text_of(one)
    assert ("The result has no values over time." in text) == (count == 0)


def test_variant_without_reservations_pods_and_events_is_drawn() -> None:
    empty = SimulationResult(
        study="s", input="i", seed=1, holdfast="0", begins=0, ends=0, until=0, timeline=documents.timeline(0)
    )
    assert "No reservations." in text_of(empty)


def test_many_variants_reservations_and_events_are_bounded() -> None:
    slots = [documents.reservation(id=f"cr-{number:017x}", idle_usd=float(number)) for number in range(500)]
    events = [
        Event(at=BEGINS + number, type=f"launch-failed{number % 3 or ''}", text="EC2 has no capacity.")
        for number in range(20_000)
    ]
    many = [result(f"v{number:03}", reservations=tuple(slots), events=tuple(events)) for number in range(40)]
    html = shown(*many)
    assert len(html.encode()) < 2_000_000
    text = html_documents.read(html).text
    assert "28 more variants in report.json." in text
    assert "484 more reservations with" in text
    assert "cr-000000000000001f3" in text  # the one with the most idle dollars
    assert "19,940 more events in report.json." in text


# --- Size -------------------------------------------------------------------------------------------


def test_week_of_five_minute_steps_has_a_bounded_size(week: str) -> None:
    assert len(week.encode()) < WEEK_BYTES_MAX


def test_size_does_not_grow_with_the_number_of_steps() -> None:
    def of(count: int) -> int:
        wave = tuple(round(50 + 50 * math.sin(at * 80 / count)) for at in range(count))
        one = msgspec.structs.replace(
            documents.timeline(count, WEEK_S // count), pods_waiting=wave, pods_running=wave
        )
        return len(shown(result(ends=BEGINS + WEEK_S, until=BEGINS + WEEK_S, timeline=one)))

    assert of(WEEK_S // 60) < 1.05 * of(WEEK_S // STEP_S)


# --- Names are text ---------------------------------------------------------------------------------


def test_hostile_names_are_text() -> None:
    html = shown(*documents.hostile())
    found = html_documents.read(html)
    assert found.elements["script"] == found.elements["img"] == 0
    assert [one for one in found.attributes if one.startswith("on")] == []
    assert MARKUP in found.text
    for one in HOSTILE:
        assert re.sub("[\x00\x1b]", "\ufffd", one) in found.text
    assert html.count("<style>") == html.count("</style>") == 1


INTEGERS = st.one_of(st.integers(-3, 9), st.integers(-(10**15), 10**15), st.just(BEGINS))
FLOATS = st.floats(-1e15, 1e15)


@given(data=st.data())
@settings(max_examples=150)
def test_whatever_is_read_is_drawn(data: st.DataObject) -> None:
    """Every number and every text of a result may be anything."""

    def anything(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: anything(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [anything(one) for one in value]
        if data.draw(st.integers(0, 29)):
            return value
        kinds = {str: st.text(max_size=20), int: INTEGERS, float: FLOATS}
        return data.draw(kinds[type(value)])

    plain = anything(json.loads(result_files.text(documents.hostile()[0])))
    plain |= {"apiVersion": SimulationResult.api_version, "kind": SimulationResult.kind}
    try:
        one = result_files.read("x", msgspec.json.encode(plain))
    except errors.InvalidInput:
        return
    others = (
        msgspec.structs.replace(one, variant=f"{one.variant}!"),
        msgspec.structs.replace(one, seed=one.seed + 1),
    )
    for text in outputs.build(study.build([one, *others])).values():
        assert text.encode()
    html_documents.read(shown(one, *others))


# --- Axes and areas ---------------------------------------------------------------------------------


@given(largest=st.floats(min_value=0, max_value=1e15))
def test_value_axis_shows_the_largest_value_in_at_most_five_lines(largest: float) -> None:
    top, step = series.top(largest)
    assert top >= largest * (1 - 1e-9)
    assert 1 <= round(top / step) <= 5
    whole, whole_step = series.count_top(largest)
    assert whole_step >= 1
    assert whole >= largest * (1 - 1e-9)


@given(begins=st.integers(0, 2**34), length=st.integers(0, 2**37))
def test_time_axis_has_few_labels_within_its_span(begins: int, length: int) -> None:
    span = Span(begins, begins + length)
    at, step = series.time_steps(span)
    assert len(at) <= 9
    assert all(span.begins <= one <= span.ends for one in at)
    assert step >= 60


@given(values=st.lists(st.integers(0, 10**6), max_size=300), most=st.integers(1, 50))
def test_shortened_series_keeps_its_mean_or_its_largest_value(values: list[int], most: int) -> None:
    whole = Series(0, 60, tuple(values))
    largest = whole.shortened(most, Summary.LARGEST)
    assert len(largest.values) <= most
    assert max(largest.values, default=0) == max(values, default=0)
    mean = whole.shortened(most, Summary.MEAN)
    size = mean.step // whole.step
    sums = [value * min(size, len(values) - at * size) for at, value in enumerate(mean.values)]
    assert sum(sums) == pytest.approx(sum(values))


def test_area_is_drawn_in_steps_up_to_the_simulated_time() -> None:
    span = Span(0, 100)
    edge = Series(0, 10, (0, 5, 5, 10, 10, 0))
    assert plots.path(edge, span, 10, 100) == "M0 400h100v-200h200v-200h200v400h100V400z"
    assert plots.path(edge, span, 10, 35) == "M0 400h100v-200h200v-200h50v400V400z"
    assert plots.path(Series(0, 10, ()), span, 10, 100) == ""


# --- Words ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.04, "0 s"),
        (3.44, "3.4 s"),
        (59.6, "1 min"),
        (135, "2 min 15 s"),
        (3600, "1 h"),
        (3605, "1 h"),
        (90_000, "1 d 1 h"),
        (86_400 + 59, "1 d"),
        (-75, "\N{MINUS SIGN}1 min 15 s"),
    ],
)
def test_lengths_of_time(seconds: float, text: str) -> None:
    assert texts.length(seconds).replace("\N{NO-BREAK SPACE}", " ") == text


@pytest.mark.parametrize(
    ("amount", "base", "text"),
    [
        (0.0, 100.0, "same"),
        (0.001, 100.0, "same"),
        (5.0, 100.0, "+$5.00 (+5.0\N{NO-BREAK SPACE}%)"),
        (-5.0, 100.0, "\N{MINUS SIGN}$5.00 (\N{MINUS SIGN}5.0\N{NO-BREAK SPACE}%)"),
        (5.0, 0.0, "+$5.00"),
        (1234567.0, 1.0, "+$1,234,567.00 (+123,456,700.0\N{NO-BREAK SPACE}%)"),
    ],
)
def test_differences(amount: float, base: float, text: str) -> None:
    assert texts.difference(USD_TOTAL, amount, base) == text


def test_differences_of_percent_are_points() -> None:
    assert texts.difference(USED_PERCENT, -1.25, 60.0) == "\N{MINUS SIGN}1.2 points"
    assert texts.difference(WAITING_P99, 30, 60.0) == "+30\N{NO-BREAK SPACE}s (+50.0\N{NO-BREAK SPACE}%)"


def test_dollars_of_an_axis_have_cents_only_if_there_are_some() -> None:
    assert [texts.usd_short(one) for one in (0, 0.5, 1, 1.5, 2500, 1234567.5)] == [
        "$0",
        "$0.50",
        "$1",
        "$1.50",
        "$2,500",
        "$1,234,568",
    ]


def test_steps_of_a_chart_are_round_lengths_of_time() -> None:
    day = Series(0, 300, (1.0,) * 288)
    assert day.shortened(28, Summary.MEAN).step == 3600
    assert day.shortened(56, Summary.MEAN).step == 1800
    assert day.shortened(400, Summary.MEAN) is day
    odd = Series(0, 7, (1.0,) * 100)
    assert odd.shortened(10, Summary.MEAN).step == 70
