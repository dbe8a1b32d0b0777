"""The figures of `make duel`, with values computed by hand. The duel itself is the test of the rest."""

import json
from pathlib import Path

import pytest

from bench.duel import measures, requests, settings, story, table
from bench.duel.measures import PodTimes, Sample


def test_sample_holds_until_the_next_one() -> None:
    samples = [Sample(at_s=at_s) for at_s in (0.0, 2.0, 3.0, 10.0)]
    assert measures.integral(samples, lambda one: one.at_s) == 0 * 2 + 2 * 1 + 3 * 7
    assert measures.integral(samples[:1], lambda _: 5) == 0
    assert measures.integral([], lambda _: 5) == 0


def test_idle_slots_are_needed_while_pods_of_the_same_workload_run_outside() -> None:
    samples = [
        Sample(at_s=0, free={"web": 3}),  # 3 idle
        Sample(at_s=600, free={"web": 2}, pods_outside={"web": 1}),  # 2 idle, 1 of them needed
        Sample(
            at_s=1800, free={"web": 1}, pods_outside={"api": 4}
        ),  # 1 idle; the pods are of another workload
        Sample(at_s=3600, free={"web": 1}, pods_outside={"web": 1}),  # the last one lasts no time
    ]
    assert measures.idle_slot_hours(samples) == pytest.approx((3 * 600 + 2 * 1200 + 1 * 1800) / 3600)
    assert measures.needed_idle_slot_hours(samples) == pytest.approx(1 * 1200 / 3600)


@pytest.mark.parametrize(
    ("free", "pods_outside", "expected"),
    [
        ({}, {"web": 2}, 0),
        ({"web": 2}, {}, 0),
        ({"web": 2}, {"web": 3}, 2),
        ({"api": 2}, {"api": 2}, 1),  # two pods in one slot
        ({"api": 2}, {"api": 3}, 2),
        ({"api": 1, "train": 1}, {"api": 8, "train": 2, "batch": 3}, 2),
    ],
)
def test_as_many_slots_are_needed_as_the_pods_would_fill(
    free: dict[str, int], pods_outside: dict[str, int], expected: int
) -> None:
    assert measures.needed_slots(Sample(at_s=0, free=free, pods_outside=pods_outside)) == expected


def test_percentile_is_the_nearest_rank() -> None:
    values = [15.0, 20.0, 35.0, 40.0, 50.0]
    assert [measures.percentile(values, one) for one in (5, 30, 40, 50, 99, 100)] == [15, 20, 20, 35, 50, 50]
    assert measures.percentile(range(1, 201), 99) == 198
    assert measures.percentile([], 50) == 0


@pytest.mark.parametrize(
    ("pod", "waited_s", "never_ran"),
    [
        (PodTimes("a", "web", 10, ready_s=14, deleting_s=50, gone_s=51), 4, False),
        (PodTimes("b", "web", 10, deleting_s=30, gone_s=31), 20, False),  # scaled down before it ran
        (PodTimes("c", "web", 10, gone_s=31), 21, False),
        (PodTimes("d", "web", 10), 90, True),
    ],
)
def test_pod_waits_until_it_is_ready_deleted_or_the_story_ends(
    *, pod: PodTimes, waited_s: float, never_ran: bool
) -> None:
    assert (pod.waited_s(100), pod.never_ran) == (waited_s, never_ran)


def audit_line(number: int, verb: str, resource: str, name: str = "", code: int = 200, sub: str = "") -> str:
    about = {"resource": resource, "name": name} | ({"subresource": sub} if sub else {})
    line = {"auditID": str(number), "verb": verb, "objectRef": about, "responseStatus": {"code": code}}
    return json.dumps(line)


def test_requests_are_counted_once_by_verb() -> None:
    lines = [
        audit_line(1, "watch", "pods"),  # when it starts
        audit_line(2, "patch", "nodes", "a"),
        audit_line(1, "watch", "pods"),  # when it ends
        json.dumps({"auditID": "3", "verb": "get", "responseStatus": {"code": 200}}),  # /version
        "",
    ]
    assert requests.by_verb(requests.parse(lines)) == {"get": 1, "patch": 1, "watch": 1}


def test_evicted_pods_are_those_whose_eviction_was_accepted() -> None:
    lines = [
        audit_line(1, "create", "pods", "a", 429, "eviction"),  # its PodDisruptionBudget allows none
        audit_line(2, "create", "pods", "a", 201, "eviction"),
        audit_line(3, "create", "pods", "b", 429, "eviction"),
        audit_line(4, "delete", "pods", "a"),  # once more after its grace period
        audit_line(5, "delete", "pods", "c"),
        audit_line(6, "delete", "nodes", "d"),
    ]
    assert requests.evicted(requests.parse(lines)) == ["a", "c"]


def test_spread_has_the_median_the_least_and_the_most() -> None:
    assert measures.spread([3.0, 1.0, 2.0]) == (2, 1, 3)
    assert measures.spread([4.0]) == (4, 4, 4)
    assert measures.spread([4.0, 1.0]) == (1, 1, 4)


def run_of(program: str, run: int, value: float, *, passed: bool = True) -> dict[str, object]:
    rows = {row.key: value for row in table.ROWS}
    return {"program": program, "run": run, "rows": rows, "checks": {"the block was used": passed}}


def test_table_names_the_better_program_only_if_its_runs_do_not_overlap() -> None:
    apart = [run_of("karpenter", 1, 5), run_of("holdfast", 1, 1), run_of("holdfast", 2, 4)]
    assert "| slots oversold | 5 | 1 (1 to 4) | Holdfast |" in table.markdown(apart).splitlines()
    overlapping = [run_of("karpenter", 1, 4), run_of("holdfast", 1, 1), run_of("holdfast", 2, 4)]
    assert "| slots oversold | 4 | 1 (1 to 4) |  |" in table.markdown(overlapping).splitlines()


def test_table_shows_parts_of_the_story_that_did_not_take_place() -> None:
    shown = table.markdown([run_of("karpenter", 2, 1, passed=False), run_of("holdfast", 2, 1)])
    assert shown.splitlines()[-1] == "- Karpenter 1.14.1, run 2: did not happen: the block was used"


def test_steps_are_in_order_and_within_the_story() -> None:
    times = [step.at_s for step in story.STEPS]
    assert times == sorted(times)
    assert times[-1] < settings.SECONDS
    assert set(settings.APP_OF_POOL) == {one["metadata"]["name"] for one in settings.node_pools()}


def test_page_has_the_steps_of_the_story() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/duel.md").read_text(encoding="utf-8").splitlines()
    first = page.index(f"| {story.STEPS[0].at_s} | {story.STEPS[0].name} |")
    assert page[first : first + len(story.STEPS)] == [
        f"| {step.at_s} | {step.name} |" for step in story.STEPS
    ]
