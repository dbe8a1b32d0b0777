"""A plan as a document and as tables: sorted, exact, and the same bytes for the same plan."""

import json
from pathlib import Path
from typing import Any

from holdfast import names
from holdfast.cli import plan_table
from holdfast.core.scheduling.output.plan import NotReserved, Placed, Plan, PlannedClaim, Unplaced
from holdfast.model import requirement, requirements, resources
from holdfast.model.reasons import NODE_POOL, RESERVATION, Reason, ReasonCode
from holdfast.model.requirement import Operator
from holdfast.scenarios import plan_document
from objects import NOW_S

DOCS = Path(__file__).resolve().parents[2] / "docs"


def claim(
    *pods: str, reservation_id: str | None = None, price: int | None = 96_000_000, **more: Any
) -> PlannedClaim:
    kind = "reserved" if reservation_id else "on-demand"
    wanted = {
        "node_pool": "default",
        "requirements": requirements.of(requirement.of(names.CAPACITY_TYPE, Operator.IN, (kind,))),
        "instance_types": ("m5.large",),
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "capacity_type": kind,
        "price_nano_usd_per_hour": 0 if reservation_id else price,
        "requests": resources.of({"cpu": 1000, "memory": 1 << 30, "pods": 1}),
        "pods": pods,
        "reservation_id": reservation_id,
        "reservation_ids": (reservation_id,) if reservation_id else (),
    }
    return PlannedClaim(**(wanted | more))  # type: ignore[arg-type]


def reason(code: ReasonCode, subject: str) -> Reason:
    return Reason(code, "...", (subject,), NODE_POOL)


def plan(*claims: PlannedClaim, **more: Any) -> Plan:
    wanted: dict[str, Any] = {
        "placed": (),
        "unplaced": (),
        "price_nano_usd_per_hour": 0,
        "baseline_nano_usd_per_hour": 0,
        "baseline_unplaced": 0,
        "node_cost_nano": 20_000_000,
        "packing": "first-fit",
        "slots_left": (),
    }
    return Plan(claims, **(wanted | more))


EXAMPLE = plan(
    claim("default/web-0", reservation_id="cr-1"),
    placed=(Placed("node-a", ("default/web-1",)),),
    unplaced=(
        Unplaced("default/web-3", (), "cr-1", NOW_S + 300),
        Unplaced("default/web-2", (reason(ReasonCode.RESOURCES, "default"),)),
    ),
    slots_left=(("cr-1", 1),),
)
NOT_RESERVED = [
    NotReserved("default/web-4", (Reason(ReasonCode.EXCLUDES_RESERVED, "...", ("cr-1",), RESERVATION),))
]


def test_the_document_equals_the_example_in_docs() -> None:
    text = (DOCS / "scenario.md").read_text().split("```json\n")[1].split("```")[0]
    assert plan_document.document(EXAMPLE, not_reserved=NOT_RESERVED) == json.loads(text)


def test_the_document_does_not_depend_on_the_order_of_the_plan() -> None:
    one, two, three = (
        claim("default/a"),
        claim("default/b"),
        claim("default/d", "default/c", reservation_id="cr-1"),
    )
    placed = (Placed("n2", ("x", "w")), Placed("n1", ()))
    unplaced = (Unplaced("q", ()), Unplaced("p", ()))
    first = plan(one, two, three, placed=placed, unplaced=unplaced, slots_left=(("b", 1), ("a", 2)))
    other = plan(
        three, two, one, placed=placed[::-1], unplaced=unplaced[::-1], slots_left=(("a", 2), ("b", 1))
    )
    text = plan_document.text(plan_document.document(first))
    assert text == plan_document.text(plan_document.document(other))
    assert [c["pods"] for c in json.loads(text)["claims"]] == [
        ["default/a"],
        ["default/b"],
        ["default/c", "default/d"],
    ]


def test_an_unknown_price_is_null_and_a_known_price_is_exact() -> None:
    got = plan_document.document(plan(claim("a"), claim("b", price=None), price_nano_usd_per_hour=96_000_001))
    assert [c["pricePerHour"] for c in got["claims"]] == ["0.096", None]
    assert got["cost"]["perHour"] == "0.096000001"


def test_requirements_have_min_values_and_omit_empty_fields() -> None:
    wanted = requirements.of(
        requirement.of("a", Operator.EXISTS, min_values=2), requirement.of("b", Operator.GT, ("3",))
    )
    (got,) = plan_document.document(plan(claim("p", requirements=wanted)))["claims"]
    assert got["requirements"] == [
        {"key": "a", "operator": "Exists", "minValues": 2},
        {"key": "b", "operator": "Gte", "values": ["4"]},
    ]


def test_rejected_pods_are_listed_as_unplaced() -> None:
    rejected = [Unplaced("default/a", (reason(ReasonCode.INVALID, "x"),))]
    got = plan_document.document(EXAMPLE, rejected=rejected)
    assert [one["pods"] for one in got["unplaced"]] == [["default/a"], ["default/web-2"]]


def table(made: Plan, **more: Any) -> list[str]:
    return list(plan_table.lines(plan_document.document(made, **more)))


def test_tables_show_the_content_of_the_document() -> None:
    assert table(EXAMPLE, not_reserved=NOT_RESERVED) == [
        "New nodes",
        "  NODEPOOL  TYPE      ZONE        CAPACITY  RESERVATION  $/H  PODS",
        "  default   m5.large  us-west-2a  reserved  cr-1         0    default/web-0",
        "",
        "On nodes that exist",
        "  NODE    PODS",
        "  node-a  default/web-1",
        "",
        "Not placed",
        "  PODS           WHY",
        "  default/web-2  NodePool default: ...",
        "",
        "Waiting for a slot",
        "  PODS           RESERVATION  UNTIL                 WHY",
        "  default/web-3  cr-1         2026-11-15T10:05:00Z  -",
        "",
        "Not in a reservation",
        "  PODS           WHY",
        "  default/web-4  reservation cr-1 ...",
        "",
        "Cost: $0 an hour for 1 new node; packing: first-fit",
        "Slots left: cr-1 1",
    ]


def test_the_saving_is_relative_to_first_fit() -> None:
    made = plan(claim("a"), price_nano_usd_per_hour=96_000_000, baseline_nano_usd_per_hour=128_000_000)
    assert table(made)[-1] == (
        "Cost: $0.096 an hour for 1 new node, 25% less than first fit alone ($0.128); packing: first-fit"
    )


def test_many_equal_pods_are_one_row() -> None:
    unplaced = tuple(Unplaced(f"p{n}", (reason(ReasonCode.LIMITS, "pool"),)) for n in range(9))
    made = plan(claim(*(f"q{n}" for n in range(5)), price=None), unplaced=unplaced)
    rows = table(made)
    assert rows[2].endswith("-            ?    q0, q1, q2 and 2 more")
    assert rows[6] == "  p0, p1, p2 and 6 more  NodePool pool: ..."


def test_an_empty_plan_is_one_line() -> None:
    assert table(plan()) == ["Cost: $0 an hour for 0 new nodes; packing: first-fit"]


def test_pods_with_equal_reasons_share_one_entry_with_a_bounded_list_of_reservations() -> None:
    ids = tuple(f"cr-{n:017x}" for n in range(600))
    reasons = (Reason(ReasonCode.FULL, "has no free slot", ids, RESERVATION),)
    made = plan(claim("a"))
    got = plan_document.document(made, not_reserved=[NotReserved(f"p{n:04}", reasons) for n in range(2500)])
    (entry,) = got["notReserved"]
    assert len(entry["pods"]) == 2500
    assert [(r["subjects"], r["more"]) for r in entry["reasons"]] == [(list(ids[:6]), 594)]
    lines = list(plan_table.lines(got))
    assert lines[6].startswith("  p0000, p0001, p0002 and 2,497 more  reservations cr-00000000000000000, ")
    assert lines[6].endswith(" and 594 more: each has no free slot")


def test_a_pod_with_several_reasons_has_a_line_for_each() -> None:
    reasons = (reason(ReasonCode.LIMITS, "a"), reason(ReasonCode.TAINT, "b"))
    assert table(plan(unplaced=(Unplaced("p", reasons),)))[2:4] == [
        "  p     NodePool a: ...",
        "        NodePool b: ...",
    ]
