"""Prints a plan as tables of plain text, from the document that `-o json` prints."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

from holdfast.cli import columns
from holdfast.model import wording
from holdfast.model.reasons import sentence

_SHOWN: Final = 3  # pods that are named in one row; the rest is a number
_UNKNOWN: Final = "?"
_NOTHING: Final = "-"
_PERCENT: Final = 100


def lines(plan: dict[str, Any]) -> Iterator[str]:
    yield from _section(
        "New nodes",
        ("NODEPOOL", "TYPE", "ZONE", "CAPACITY", "RESERVATION", "$/H", "PODS"),
        [
            (
                claim["nodePool"],
                claim["instanceType"],
                claim["zone"],
                claim["capacityType"],
                claim["reservationID"] or _NOTHING,
                _UNKNOWN if claim["pricePerHour"] is None else claim["pricePerHour"],
                _pods(claim["pods"]),
            )
            for claim in plan["claims"]
        ],
    )
    nodes = [(node["name"], _pods(node["pods"])) for node in plan["nodes"]]
    yield from _section("On nodes that exist", ("NODE", "PODS"), nodes)
    yield from _section("Not placed", ("PODS", "WHY"), list(_why(plan["unplaced"])))
    waiting = [
        (_pods(one["pods"]), one["reservation"], one["until"] or _UNKNOWN, _sentence(one["reasons"]))
        for one in plan["waiting"]
    ]
    yield from _section("Waiting for a slot", ("PODS", "RESERVATION", "UNTIL", "WHY"), waiting)
    yield from _section("Not in a reservation", ("PODS", "WHY"), list(_why(plan["notReserved"])))
    yield _cost(plan["cost"], len(plan["claims"]))
    if plan["slotsLeft"]:
        left = [f"{reservation} {count}" for reservation, count in plan["slotsLeft"].items()]
        yield f"Slots left: {wording.listed(left)}"


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A title and a table, or nothing when there are no rows."""
    if not rows:
        return
    yield title
    yield from (f"  {line}" for line in columns.aligned([head, *rows]))
    yield ""


def _pods(names: Sequence[str]) -> str:
    return wording.listed(names, shown=_SHOWN)


def _why(entries: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """One row per reason."""
    for entry in entries:
        pods = _pods(entry["pods"])
        for reason in entry["reasons"] or [None]:
            yield pods, _sentence([reason] if reason else [])
            pods = ""


def _sentence(reasons: Iterable[dict[str, Any]]) -> str:
    return "; ".join(sentence(r["text"], r["subjects"], r["kind"], r["more"]) for r in reasons) or _NOTHING


def _cost(cost: dict[str, Any], claims: int) -> str:
    price, baseline = Fraction(cost["perHour"]), Fraction(cost["baselinePerHour"])
    line = f"Cost: ${cost['perHour']} an hour for {wording.count(claims, 'new node')}"
    if baseline > price:
        saved = round((baseline - price) / baseline * _PERCENT)
        line += f", {saved}% less than first fit alone (${cost['baselinePerHour']})"
    elif baseline < price:
        line += f" beside ${cost['baselinePerHour']} for {wording.count(cost['baselineNodes'], 'node')} by first fit alone"
        line += f", where each node costs ${cost['nodeCostPerHour']} more than its price"
    return f"{line}; packing: {cost['packing']}"
