"""A plan for people: a few tables of plain text.

Called by `holdfast plan`, with the document that -o json would print, so that both say the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

_SHOWN: Final = 3  # pods that are named in one row; the rest is a number
_UNKNOWN: Final = "?"
_NOTHING: Final = "-"
_PERCENT: Final = 100


def lines(plan: dict[str, Any]) -> Iterator[str]:
    yield from _section(
        "New nodes",
        ("NODEPOOL", "TYPE", "ZONE", "CAPACITY", "SLOT", "$/H", "PODS"),
        [
            (
                claim["nodePool"],
                claim["instanceType"],
                claim["zone"],
                claim["capacityType"],
                claim["slot"] or _NOTHING,
                _UNKNOWN if claim["pricePerHour"] is None else claim["pricePerHour"],
                _pods(claim["pods"]),
            )
            for claim in plan["claims"]
        ],
    )
    nodes = [(node["name"], _pods(node["pods"])) for node in plan["nodes"]]
    yield from _section("On nodes that exist", ("NODE", "PODS"), nodes)
    yield from _section("Not placed", ("PODS", "WHY"), _grouped(plan["unplaced"]))
    waiting = [
        (one["pod"], one["reservation"], one["until"] or _UNKNOWN, _why(one["reasons"]))
        for one in plan["waiting"]
    ]
    yield from _section("Waiting for a slot", ("POD", "RESERVATION", "UNTIL", "WHY"), waiting)
    yield from _section("Not in a reservation", ("PODS", "WHY"), _grouped(plan["notReserved"]))
    yield _cost(plan["cost"], len(plan["claims"]))
    if plan["slotsLeft"]:
        left = ", ".join(f"{reservation} {count}" for reservation, count in plan["slotsLeft"].items())
        yield f"Slots left: {left}"


def _section(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A title and a table, or nothing when there are no rows."""
    if not rows:
        return
    yield title
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield f"  {'  '.join(cells)}".rstrip()
    yield ""


def _pods(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _grouped(entries: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """One row for all pods that share their reasons: ten thousand equal pods are one problem."""
    by_reason: dict[str, list[str]] = {}
    for entry in entries:
        by_reason.setdefault(_why(entry["reasons"]), []).append(entry["pod"])
    return [(_pods(pods), why) for why, pods in by_reason.items()]


def _why(reasons: Iterable[dict[str, str]]) -> str:
    texts = [
        f"{r['subject']}: {r['text']}" if r["subject"] and r["subject"] not in r["text"] else r["text"]
        for r in reasons
    ]
    return "; ".join(texts) or _NOTHING


def _cost(cost: dict[str, str], claims: int) -> str:
    price, baseline = Fraction(cost["perHour"]), Fraction(cost["baselinePerHour"])
    line = f"Cost: ${cost['perHour']} an hour for {claims} new node{'' if claims == 1 else 's'}"
    if baseline > price:
        saved = round((baseline - price) / baseline * _PERCENT)
        line += f", {saved}% less than first fit alone (${cost['baselinePerHour']})"
    return f"{line}; packing: {cost['packing']}"
